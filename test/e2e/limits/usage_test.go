package limits

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app"
	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// withPlan has every tenant be on a plan with limits.
func withPlan(t *testing.T, limits string) func(*config.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plans.json")
	text := fmt.Sprintf(`{"plans": [{"id": "small", "name": "Small", "limits": {%s}}, {"id": "large", "name": "Large"}], "default": "small"}`, limits)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *config.Config) { c.Tenancy.Plans = file }
}

// onPlan runs a subtest on a node with each database and a plan with limits.
func onPlan(t *testing.T, limits string, models func(*testing.T) func(*config.Config), test func(t *testing.T, n *apptest.Server)) {
	t.Helper()
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			test(t, apptest.Start(t, nil, apptest.OnEngine(t, engine), models(t), withPlan(t, limits)))
		})
	}
}

// priced is a model that answers at once, calls the calculator as often as the
// message's number says, and costs a dollar for each token that it reads.
func priced(t *testing.T) func(*config.Config) {
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		results := 0
		for _, m := range req.Chat().Messages {
			if m.Role == "tool" {
				results++
			}
		}
		usage := &model.Usage{InputTokens: 10, OutputTokens: 5, ThinkingTokens: 2}
		word, _, _ := strings.Cut(req.Chat().Last("user"), " ")
		if calls, err := strconv.Atoi(word); err == nil && results < calls {
			return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: fmt.Sprintf("c%d", results), Name: "calculator", Arguments: fmt.Sprintf(`{"expression":"1+%d"}`, results)}}, Usage: usage}
		}
		return modeltest.Answer{Text: "Done.", Usage: usage}
	}))
	return apptest.WithModels(t, sim, `[{"id":"sim-model","input_usd_per_mtok":100000,"output_usd_per_mtok":0}]`)
}

// quotaBlock checks what goes with a refusal of a plan.
func quotaBlock(t *testing.T, r apptest.Reply, status int, code string, want object) {
	t.Helper()
	apptest.CheckCode(t, r, status, code)
	block, _ := r.JSON["quota"].(object)
	for name, value := range want {
		if block[name] != value {
			t.Errorf("quota.%s is %v, want %v: %s", name, block[name], value, r.Body)
		}
	}
	if r.JSON["upgrade_path"] != "/api/v1/billing/plans" {
		t.Errorf("%s", r.Body)
	}
	if status != 429 {
		return
	}
	seconds, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil || seconds < 1 || seconds > 3600 || r.Header.Get("X-RateLimit-Bucket") != "tenant" {
		t.Errorf("Retry-After %q, X-RateLimit-Bucket %q", r.Header.Get("Retry-After"), r.Header.Get("X-RateLimit-Bucket"))
	}
}

// Of 50 runs that are started at once a limit of 10 lets 10 be; from then on
// every way to start a run is closed, each in its own form.
func TestRunsPerMonth(t *testing.T) {
	t.Parallel()
	onPlan(t, `"runs_per_month": 10`, priced, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(nil)
		var mu sync.Mutex
		var made []string
		refusals := map[string]int{}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				r := n.Do("POST", "/api/v1/runs", object{"agent_id": agent, "input": object{"message": "hello"}})
				mu.Lock()
				defer mu.Unlock()
				if r.StatusCode == 202 {
					made = append(made, r.JSON["run_id"].(string))
					return
				}
				refusals[fmt.Sprint(r.StatusCode, " ", r.JSON["code"])]++
			})
		}
		all.Wait()
		if diff := cmp.Diff(map[string]int{"429 quota_exceeded": 40}, refusals); diff != "" || len(made) != 10 {
			t.Fatalf("%d runs were made\n%s", len(made), diff)
		}
		for _, id := range made {
			if r := n.WaitRun(id); r["status"] != "completed" {
				t.Errorf("a run that was made is %v: %v", r["status"], r["error"])
			}
		}
		block := object{"kind": "runs", "period": "month", "limit": 10.0, "used": 10.0, "remaining": 0.0}
		quotaBlock(t, n.Do("POST", "/api/v1/runs", object{"agent_id": agent, "input": object{"message": "hello"}}), 429, "quota_exceeded", block)
		session := n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent})["session_id"].(string)
		quotaBlock(t, n.Do("POST", "/api/v1/sessions/"+session+"/messages", object{"content": "hello"}), 429, "quota_exceeded", block)
		if got := n.Expect(200, "GET", "/api/v1/sessions/"+session, nil); len(got["runs"].([]any)) != 0 {
			t.Errorf("a message that was refused is a turn: %v", got["runs"])
		}
		chat := n.Do("POST", "/v1/chat/completions", object{"model": agent, "messages": []object{{"role": "user", "content": "hello"}}})
		apptest.CheckChatError(t, chat)
		if e := chat.JSON["error"].(object); chat.StatusCode != 429 || e["code"] != "quota_exceeded" || e["type"] != "rate_limit_error" || chat.Header.Get("Retry-After") == "" {
			t.Errorf("%d %s", chat.StatusCode, chat.Body)
		}
		quota := n.Expect(200, "GET", "/api/v1/usage/quota", nil)
		if quota["allowed"] != false || quota["plan"] != "small" || !strings.Contains(quota["reason"].(string), "10 runs in a month") {
			t.Errorf("%v", quota)
		}
		if got := n.Expect(200, "GET", "/api/v1/usage", nil); got["runs_count"] != 10.0 {
			t.Errorf("%v runs are counted", got["runs_count"])
		}

		// A schedule's fire fails like any other that is refused.
		n.Expect(200, "PUT", "/api/v1/agents/"+agent+"/schedule", object{"cron": "*/5 * * * *", "input": object{"message": "hello"}})
		n.MakeScheduleDue(agent)
		apptest.Eventually(t, func() bool {
			got := n.Expect(200, "GET", "/api/v1/agents/"+agent+"/schedule", nil)
			return got["consecutive_failures"].(float64) >= 1
		})

		// The owner is notified once per threshold; a member who is no admin is not.
		var notes []string
		apptest.Eventually(t, func() bool {
			notes = nil
			for _, item := range n.Expect(200, "GET", "/api/v1/notifications", nil)["notifications"].([]any) {
				note := item.(object)
				if source, _ := note["source"].(object); source["kind"] == "budget" {
					notes = append(notes, fmt.Sprint(note["type"], " ", note["priority"], " ", note["data"].(object)["resource"]))
				}
			}
			return len(notes) >= 2
		})
		slices.Sort(notes)
		if diff := cmp.Diff([]string{"budget.exceeded critical runs_per_month", "budget.warning warning runs_per_month"}, notes); diff != "" {
			t.Error(diff)
		}
		a := n.Admin()
		tenant := n.Expect(200, "GET", "/api/v1/tenants/me", nil)["tenant_id"].(string)
		viewer := n.WithKey(string(a.CreateKey(tenant, authz.Viewer, "notifications:read").RawKey))
		if got := viewer.Expect(200, "GET", "/api/v1/notifications", nil)["notifications"].([]any); slices.ContainsFunc(got, func(v any) bool {
			return strings.HasPrefix(v.(object)["type"].(string), "budget.")
		}) {
			t.Errorf("a viewer is told: %v", got)
		}
	})
}

// What is counted is what the runs say that they used, whatever they did.
func TestUsageAgreesWithRuns(t *testing.T) {
	t.Parallel()
	onPlan(t, `"tokens_per_month": 1000000000`, priced, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
		asking := n.CreateAgent(object{"built_in_tools": []string{"calculator"}, "approval_required_tools": []string{"calculator"}})
		var ids []string
		for i := range 6 {
			ids = append(ids, n.StartRun(agent, fmt.Sprintf("%d calls", i%4), nil))
		}
		limited := n.StartRun(agent, "5 calls", object{"resource_limits": object{"max_tool_calls": 2}})
		approved, rejected := n.StartRun(asking, "1 call", nil), n.StartRun(asking, "1 call", nil)
		n.WaitStatus(approved, "awaiting_approval")
		n.Expect(200, "POST", "/api/v1/runs/"+approved+"/approve", object{})
		n.WaitStatus(rejected, "awaiting_approval")
		n.Expect(200, "POST", "/api/v1/runs/"+rejected+"/reject", object{"reason": "no", "continue": true})
		session := n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent})["session_id"].(string)
		for range 2 {
			ids = append(ids, n.Expect(202, "POST", "/api/v1/sessions/"+session+"/messages", object{"content": "2 calls"})["run_id"].(string))
		}
		chat := n.Do("POST", "/v1/chat/completions", object{"model": agent, "messages": []object{{"role": "user", "content": "1 call"}}})
		ids = append(ids, limited, approved, rejected, chat.Header.Get("X-Run-Id"))

		want := map[string]float64{}
		for _, id := range ids {
			m := n.WaitRun(id)["metrics"].(object)
			want["runs_count"]++
			for metric, counted := range map[string]string{
				"input_tokens": "input_tokens", "output_tokens": "output_tokens", "thinking_tokens": "thinking_tokens",
				"llm_calls_count": "llm_calls_count", "tool_calls_count": "tool_calls_count", "total_cost_usd": "total_cost",
			} {
				want[counted] += m[metric].(float64)
			}
		}
		got := n.Expect(200, "GET", "/api/v1/usage?breakdown=model,source", nil)
		for name, value := range want {
			if math.Abs(got[name].(float64)-value) > 1e-6 || value == 0 {
				t.Errorf("%s: %v is counted, and %v was used", name, got[name], value)
			}
		}
		sources := map[string]float64{}
		for _, part := range got["by_source"].([]any) {
			sources[part.(object)["source"].(string)] = part.(object)["runs_count"].(float64)
		}
		if diff := cmp.Diff(map[string]float64{"api": 9, "session": 2, "chat_completions": 1}, sources); diff != "" {
			t.Errorf("sources (-want +got):\n%s", diff)
		}
		models := got["by_model"].([]any)
		if len(models) != 1 || models[0].(object)["model"] != "default/sim-model" || models[0].(object)["total_tokens"] != got["total_tokens"] {
			t.Errorf("models: %v", models)
		}

		// It stays when the agent goes, and days sum up to it.
		n.Expect(200, "DELETE", "/api/v1/agents/"+asking, nil)
		if after := n.Expect(200, "GET", "/api/v1/usage?breakdown=model,source", nil); !cmp.Equal(after, got) {
			t.Errorf("usage changed with its agent:\n%s", cmp.Diff(got, after))
		}
		one := n.Expect(200, "GET", "/api/v1/usage?agent_id="+asking, nil)
		if one["runs_count"] != 2.0 {
			t.Errorf("the deleted agent's usage: %v", one)
		}
		for metric, name := range map[string]string{"runs": "runs_count", "tokens": "total_tokens", "cost": "total_cost"} {
			sum := 0.0
			for _, point := range n.Expect(200, "GET", "/api/v1/usage/timeseries?days=2&metric="+metric, nil)["data"].([]any) {
				sum += point.(object)["value"].(float64)
			}
			if math.Abs(sum-got[name].(float64)) > 1e-6 {
				t.Errorf("the days' %s sum up to %v, not %v", metric, sum, got[name])
			}
		}
	})
}

// A run whose tenant has no tokens or tool calls left ends before the next
// call, and no new one is made without tokens.
func TestRunsOutOfTokensAndCalls(t *testing.T) {
	t.Parallel()
	onPlan(t, `"tokens_per_day": 40, "tool_calls_per_month": 100`, priced, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
		r := n.WaitRun(n.StartRun(agent, "9 calls", nil)) // three model calls of 15 tokens
		if r["status"] != "failed" || r["error_code"] != "quota_exceeded" || !strings.Contains(r["error"].(string), "40 tokens in a day") {
			t.Errorf("%v %v: %v", r["status"], r["error_code"], r["error"])
		}
		if m := r["metrics"].(object); m["llm_calls_count"] != 3.0 || m["input_tokens"] != 30.0 {
			t.Errorf("%v", m)
		}
		quotaBlock(t, n.Do("POST", "/api/v1/runs", object{"agent_id": agent, "input": object{"message": "hello"}}), 429, "quota_exceeded",
			object{"kind": "tokens", "period": "day", "limit": 40.0, "used": 45.0, "remaining": 0.0})
	})
	onPlan(t, `"tool_calls_per_month": 3`, priced, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
		if r := n.WaitRun(n.StartRun(agent, "3 calls", nil)); r["status"] != "completed" {
			t.Errorf("as many calls as there may be: %v: %v", r["status"], r["error"])
		}
		r := n.WaitRun(n.StartRun(agent, "1 call", nil))
		if r["status"] != "failed" || r["error_code"] != "quota_exceeded" || r["metrics"].(object)["tool_calls_count"] != 0.0 {
			t.Errorf("%v %v: %v, %v", r["status"], r["error_code"], r["error"], r["metrics"])
		}
		if r := n.WaitRun(n.StartRun(agent, "hello", nil)); r["status"] != "completed" {
			t.Errorf("a run without calls: %v: %v", r["status"], r["error"])
		}
	})
}

// Things that do not refill are refused with 403, however they are made.
func TestPlanLimitsThings(t *testing.T) {
	t.Parallel()
	onPlan(t, `"agents": 2, "knowledge_bases": 1, "workspaces": 1, "active_sessions": 1`, priced, func(t *testing.T, n *apptest.Server) {
		agent, second := n.CreateAgent(nil), n.CreateAgent(nil)
		full := func(method, path string, body object, kind string, limit float64) {
			t.Helper()
			quotaBlock(t, n.Do(method, path, body), 403, "limit_reached", object{"kind": kind, "period": nil, "limit": limit, "used": limit, "remaining": 0.0})
		}
		full("POST", "/api/v1/agents", object{"name": "third"}, "agents", 2)
		apptest.CheckCode(t, n.Do("POST", "/api/v1/agents", object{"name": " "}), 422, "VALIDATION_ERROR") // what is wrong in any case goes first
		n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"description": "changes are free"})
		n.Expect(200, "DELETE", "/api/v1/agents/"+second, nil)
		n.CreateAgent(nil)

		n.Expect(201, "POST", "/api/v1/knowledge-bases", object{"name": "one"})
		full("POST", "/api/v1/knowledge-bases", object{"name": "two"}, "knowledge_bases", 1)
		n.Expect(201, "POST", "/api/v1/workspaces", object{"name": "one"})
		full("POST", "/api/v1/workspaces", object{"name": "two"}, "workspaces", 1)
		session := n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent})["session_id"].(string)
		full("POST", "/api/v1/sessions", object{"agent_id": agent}, "active_sessions", 1)
		n.Expect(200, "DELETE", "/api/v1/sessions/"+session, nil)
		n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent})

		held := n.Expect(200, "GET", "/api/v1/usage/quota", nil)["resource_usage"].(object)
		if held["any_over_tier"] != false || !cmp.Equal(held["agents"], any(object{"count": 2.0, "limit": 2.0, "over_by": 0.0})) {
			t.Errorf("%v", held)
		}
	})
}

// Of what a plan allows none, the answers are those of limits: 403 where a run
// is started, 429 where a message is sent.
func TestPlanWithoutRuns(t *testing.T) {
	t.Parallel()
	onPlan(t, `"runs_per_month": 0`, priced, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(nil)
		block := object{"kind": "runs", "period": "month", "limit": 0.0}
		quotaBlock(t, n.Do("POST", "/api/v1/runs", object{"agent_id": agent, "input": object{"message": "hello"}}), 403, "limit_reached", block)
		session := n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent})["session_id"].(string)
		quotaBlock(t, n.Do("POST", "/api/v1/sessions/"+session+"/messages", object{"content": "hello"}), 429, "limit_reached", block)
	})
}

func TestBudgetStopsRuns(t *testing.T) {
	t.Parallel()
	onPlan(t, ``, priced, func(t *testing.T, n *apptest.Server) {
		const path = "/api/v1/billing/budget"
		for body, fields := range map[string][]string{
			`{}`:               {"limit_usd"},
			`{"limit_usd": 0}`: {"limit_usd"},
			`{"limit_usd": -1, "soft_threshold": 0, "hard_threshold": 2, "period": "yearly"}`: {"limit_usd", "soft_threshold", "hard_threshold", "period"},
			`{"limit_usd": 1, "soft_threshold": 0.9, "hard_threshold": 0.5}`:                  {"hard_threshold"},
			`{"limit_usd": 1e-12}`: {"limit_usd"},
			`{"limit_usd": "10"}`:  {"limit_usd"},
		} {
			r := n.Do("PUT", path, body)
			apptest.CheckCode(t, r, 422, "VALIDATION_ERROR")
			var got []string
			errs, _ := r.JSON["errors"].([]any)
			for _, e := range errs {
				got = append(got, e.(object)["field"].(string))
			}
			slices.Sort(fields)
			slices.Sort(got)
			if diff := cmp.Diff(fields, got); diff != "" {
				t.Errorf("%s: %s", body, diff)
			}
		}
		set := n.Expect(200, "PUT", path, object{"limit_usd": 5})["budget"].(object)
		if set["soft_threshold"] != 0.8 || set["hard_threshold"] != 1.0 || set["period"] != "monthly" {
			t.Errorf("defaults: %v", set)
		}
		agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
		r := n.WaitRun(n.StartRun(agent, "9 calls", nil)) // a model call costs a dollar
		if r["status"] != "failed" || r["error_code"] != "budget_exceeded" || r["metrics"].(object)["llm_calls_count"] != 5.0 {
			t.Errorf("%v %v: %v, %v", r["status"], r["error_code"], r["error"], r["metrics"])
		}
		refused := n.Do("POST", "/api/v1/runs", object{"agent_id": agent, "input": object{"message": "hello"}})
		apptest.CheckCode(t, refused, 403, "BUDGET_EXCEEDED")
		if b, _ := refused.JSON["budget"].(object); b["spent_usd"] != 5.0 || b["limit_usd"] != 5.0 || b["period"] != "monthly" {
			t.Errorf("%s", refused.Body)
		}
		status := n.Expect(200, "GET", path, nil)["status"].(object)
		if status["hard_limit_reached"] != true || status["spent_usd"] != 5.0 || status["remaining_usd"] != 0.0 || status["utilization"] != 1.0 {
			t.Errorf("%v", status)
		}
		n.Expect(200, "PUT", path, object{"limit_usd": 100, "soft_threshold": 0.01})
		if r := n.WaitRun(n.StartRun(agent, "1 call", nil)); r["status"] != "completed" {
			t.Errorf("with a larger budget: %v: %v", r["status"], r["error"])
		}
		if got := n.Expect(200, "DELETE", path, nil); got["configured"] != false {
			t.Errorf("%v", got)
		}
	})
}

// A file of plans that cannot be read ends the start, with everything that is
// wrong with it.
func TestPlansAreReadAtStart(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil, withPlan(t, `"agents": 1`))
	plans := n.Expect(200, "GET", "/api/v1/billing/plans", nil)["plans"].([]any)
	if len(plans) != 2 || plans[0].(object)["current"] != true || plans[0].(object)["limits"].(object)["agents"] != 1.0 || plans[1].(object)["limits"].(object)["agents"] != nil {
		t.Errorf("%v", plans)
	}
	if got := n.Expect(200, "GET", "/api/v1/tenants/me", nil)["plan"]; got != "small" {
		t.Errorf("the first tenant's plan is %v", got)
	}
	cfg := n.Config
	withPlan(t, `"agent": 1`)(&cfg)
	cfg.Storage.DataDir = t.TempDir()
	_, err := app.Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "AGENTD_PLANS: plans/0/limits/agent is not a known setting") {
		t.Errorf("error %v", err)
	}
}
