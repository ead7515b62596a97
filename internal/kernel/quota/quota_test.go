package quota_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/quota"
)

func TestParse(t *testing.T) {
	t.Parallel()
	plans, err := quota.Parse([]byte(`{"plans": [
		{"id": "free", "name": "Free", "limits": {"runs_per_month": 10, "tokens_per_day": 0, "agents": 2}},
		{"id": "pro-2", "name": "Pro", "limits": {}}, {"id": "x", "name": "No limits at all"}
	], "default": "free"}`))
	if err != nil {
		t.Fatal(err)
	}
	free, known := plans.Of("free")
	if !known || *free.Limits.RunsPerMonth != 10 || *free.Limits.TokensPerDay != 0 || *free.Limits.Agents != 2 || free.Limits.Webhooks != nil {
		t.Errorf("free: %+v, %v", free, known)
	}
	if other, known := plans.Of("gone"); known || other.ID != "free" || plans.Default() != "free" || plans.Known("gone") {
		t.Errorf("a plan that is not there: %+v, %v", other, known)
	}
	if pro, _ := plans.Of("pro-2"); pro.Limits.Refills() || !free.Limits.Refills() || plans.Names() != "free, pro-2, x" || len(plans.All()) != 3 {
		t.Errorf("pro: %+v, names %s", pro, plans.Names())
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file string
		want       []string
	}{
		{"no JSON", `{"plans": [`, []string{"it is not JSON at byte 11"}},
		{"nothing", ``, []string{"not JSON"}},
		{"another form", `[]`, []string{"the top level has a value of the wrong kind"}},
		{"a slip in a limit", `{"plans": [{"id": "a", "name": "A", "limits": {"run_per_month": 1}}], "default": "a"}`, []string{"plans/0/limits/run_per_month is not a known setting"}},
		{"a limit that is no number", `{"plans": [{"id": "a", "name": "A", "limits": {"agents": "many"}}], "default": "a"}`, []string{"plans/0/limits/agents has a value of the wrong kind"}},
		{"a limit of a half", `{"plans": [{"id": "a", "name": "A", "limits": {"agents": 0.5}}], "default": "a"}`, []string{"plans/0/limits/agents"}},
		{"a name twice", `{"plans": [{"id": "a", "id": "b", "name": "A"}], "default": "a"}`, []string{"not JSON"}},
		{"no plans", `{"plans": [], "default": "a"}`, []string{"plans: there is none"}},
		{"everything", `{"plans": [{"id": "A b", "name": " ", "limits": {"agents": -1, "runs_per_month": -2}}, {"id": "c", "name": "C"}, {"id": "c", "name": "C"}], "default": "d"}`, []string{
			`plans[0].id: "A b" is no id`, "plans[0].name: it is blank", "plans[0].limits.agents: it is negative", "plans[0].limits.runs_per_month: it is negative",
			"plans[2].id: c is the id of two plans", `default: "d" is not the id of one of the plans`,
		}},
		{"no default", `{"plans": [{"id": "a", "name": "A"}]}`, []string{`default: "" is not the id`}},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			_, err := quota.Parse([]byte(tt.file))
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
			if err != nil && (strings.Contains(err.Error(), "int64") || strings.Contains(err.Error(), "quota.")) {
				t.Errorf("the error shows a type: %v", err)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	plans, err := quota.Load("")
	if err != nil || plans.Default() != quota.SelfHosted || !plans.Known(quota.SelfHosted) {
		t.Errorf("no file: %+v, %v", plans, err)
	}
	if plan, _ := plans.Of(""); plan.Limits != (quota.Limits{}) {
		t.Errorf("it has limits: %+v", plan)
	}
	if _, err := quota.Load(t.TempDir() + "/none.json"); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"plans": [{"id": "a", "name": "A", "limits": {"agents": 1}}], "default": "a"}`))
	f.Add([]byte(`{"plans": null}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		plans, err := quota.Parse(file)
		if err != nil {
			return
		}
		if plan, known := plans.Of(plans.Default()); !known || plan.ID != plans.Default() {
			t.Errorf("the default is not there: %+v", plan)
		}
	})
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 31, 23, 30, 0, 500, time.UTC)
	for _, tt := range []struct {
		name        string
		resource    quota.Resource
		limit, used int64
		kind        fault.Kind
		code        string
		after       time.Duration
		block       string
	}{
		{
			"runs", quota.RunsPerMonth, 10, 10, fault.Limited, "quota_exceeded", 30*time.Minute - 500,
			`{"kind":"runs","limit":10,"period":"month","remaining":0,"resets_at":"2027-01-01T00:00:00Z","retry_after_s":1800,"used":10}`,
		}, {
			"tokens of a day", quota.TokensPerDay, 5, 9, fault.Limited, "quota_exceeded", 30*time.Minute - 500,
			`{"kind":"tokens","limit":5,"period":"day","remaining":0,"resets_at":"2027-01-01T00:00:00Z","retry_after_s":1800,"used":9}`,
		}, {
			"tool calls", quota.ToolCallsPerMonth, 5, 3, fault.Limited, "quota_exceeded", 30*time.Minute - 500,
			`{"kind":"tool_calls","limit":5,"period":"month","remaining":2,"resets_at":"2027-01-01T00:00:00Z","retry_after_s":1800,"used":3}`,
		}, {
			"none at all", quota.RunsPerMonth, 0, 0, fault.Forbidden, "limit_reached", 0,
			`{"kind":"runs","limit":0,"period":"month","remaining":0,"used":0}`,
		}, {
			"agents", quota.Agents, 2, 2, fault.Forbidden, "limit_reached", 0,
			`{"kind":"agents","limit":2,"period":null,"remaining":0,"used":2}`,
		},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := quota.Refuse(tt.resource, tt.limit, tt.used, now)
			if f.Kind != tt.kind || f.Code != tt.code || f.RetryAfter != tt.after || f.Detail == "" || f.Extra["upgrade_path"] != "/api/v1/billing/plans" {
				t.Errorf("%+v", f)
			}
			got, err := json.Marshal(f.Extra["quota"])
			if err != nil {
				t.Fatal(err)
			}
			var a, b map[string]any
			if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(tt.block), &b) != nil {
				t.Fatalf("%s", got)
			}
			if diff := cmp.Diff(b, a); diff != "" {
				t.Error(diff)
			}
		})
	}
	far := quota.Refuse(quota.RunsPerMonth, 1, 1, time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC))
	if far.RetryAfter != time.Hour {
		t.Errorf("a client is told to sleep for %v", far.RetryAfter)
	}
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	at := time.Date(2028, 2, 29, 23, 59, 59, 0, time.FixedZone("east", 3600))
	if got := quota.Day.End(at); !got.Equal(time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the day ends at %v", got)
	}
	if got := quota.Month.End(time.Date(2026, 12, 5, 0, 0, 0, 0, time.UTC)); !got.Equal(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the month ends at %v", got)
	}
}

// Every resource has its limit, under the name that it has in the file.
func TestLimitsOf(t *testing.T) {
	t.Parallel()
	for _, r := range slices.Concat(quota.Refilling, quota.Requests, quota.Things) {
		plans, err := quota.Parse([]byte(`{"plans":[{"id":"a","name":"A","limits":{"` + string(r) + `":7}}],"default":"a"}`))
		if err != nil {
			t.Errorf("%s: %v", r, err)
			continue
		}
		for _, other := range slices.Concat(quota.Refilling, quota.Requests, quota.Things) {
			plan, _ := plans.Of("a")
			if got := plan.Limits.Of(other); (got != nil) != (other == r) || got != nil && *got != 7 {
				t.Errorf("a limit of %s is one of %s: %v", r, other, got)
			}
		}
	}
}
