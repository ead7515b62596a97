package app_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/config"
	"agentd/internal/base/ident"
	"agentd/internal/base/secret"
	"agentd/internal/execution/schedule"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// overdue makes a schedule's next fire one that is due now, as if the clock
// had come there. It gives the time of the fire.
func (n *node) overdue(agent string) time.Time {
	n.t.Helper()
	fire := time.Now().UTC().Truncate(time.Minute)
	a := n.admin()
	a.exec(`UPDATE schedules SET next_run_at = ? WHERE agent_id = ?`, fire.UnixMicro(), agent)
	a.exec(`UPDATE work SET due_at = ? WHERE kind = ? AND work_key = ?`, fire.UnixMicro(), schedule.WorkKind, agent)
	return fire
}

// runsOf lists an agent's runs.
func (n *node) runsOf(agent string) []any {
	n.t.Helper()
	return n.want(200, "GET", "/api/v1/runs?limit=100&agent_id="+agent, nil)["items"].([]any)
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		agent := n.agent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
		path := "/api/v1/agents/" + agent + "/schedule"
		if r := n.do("GET", path, nil); r.StatusCode != 200 || string(r.raw) != "null" {
			t.Fatalf("without a schedule: %d %s", r.StatusCode, r.raw)
		}
		put := n.want(200, "PUT", path, object{"cron": "*/5 * * * *", "input": object{"message": "hello", "more": 1}})
		for name, want := range map[string]any{
			"agent_id": agent, "cron": "*/5 * * * *", "enabled": true, "timezone": "UTC", "max_concurrent_scheduled": 1.0, "on_failure": "continue",
			"autonomous_mode": false, "reflection_prompt": "", "status": "active", "last_fired_at": nil, "consecutive_failures": 0.0,
		} {
			if put[name] != want {
				t.Errorf("%s is %v, want %v", name, put[name], want)
			}
		}
		next, err := time.Parse(time.RFC3339, fmt.Sprint(put["next_run_at"]))
		if err != nil || next.Before(time.Now()) || next.Minute()%5 != 0 || next.Second() != 0 {
			t.Errorf("next_run_at: %v", put["next_run_at"])
		}
		if got := n.want(200, "GET", path, nil); fmt.Sprint(got) != fmt.Sprint(put) {
			t.Errorf("read again: %v, not %v", got, put)
		}
		field := n.want(200, "GET", "/api/v1/agents/"+agent, nil)["schedule"].(object)
		if field["cron"] != "*/5 * * * *" || field["next_run_at"] != nil {
			t.Errorf("the agent's field: %v", field)
		}

		fire := n.overdue(agent)
		eventually(t, func() bool { return len(n.runsOf(agent)) > 0 })
		run := n.ended(n.runsOf(agent)[0].(object)["run_id"].(string))
		meta := run["metadata"].(object)
		if run["status"] != "completed" || meta["source"] != "schedule" || meta["schedule_fire"] != fire.Format(time.RFC3339) || run["input"].(object)["message"] != "hello" {
			t.Errorf("the run: %v", run)
		}
		// The run may be there before the schedule says so.
		eventually(t, func() bool { return n.want(200, "GET", path, nil)["last_fired_at"] != nil })
		got := n.want(200, "GET", path, nil)
		if got["last_fired_at"] != fire.Format(time.RFC3339) || got["next_run_at"] == nil || got["next_run_at"] == got["last_fired_at"] {
			t.Errorf("after a fire: %v", got)
		}
		disabledAndRemoved(t, n, agent)
	})
}

// disabledAndRemoved takes the schedule of the only agent away, step by step.
func disabledAndRemoved(t *testing.T, n *node, agent string) {
	t.Helper()
	path := "/api/v1/agents/" + agent + "/schedule"
	n.want(200, "PATCH", "/api/v1/agents/"+agent, object{"schedule": object{"enabled": false}})
	if got := n.want(200, "GET", path, nil); got["next_run_at"] != nil || got["enabled"] != false || got["cron"] != "*/5 * * * *" {
		t.Errorf("disabled: %v", got)
	}
	all := n.want(200, "GET", "/api/v1/schedules", nil)
	if one := all["schedules"].([]any)[0].(object); all["total"] != 1.0 || one["agent_name"] != "tester" || one["enabled"] != false || all["has_more"] != nil {
		t.Errorf("listed: %v", all)
	}
	for range 2 {
		if got := n.want(200, "DELETE", path, nil); got["removed"] != true || got["agent_id"] != agent {
			t.Errorf("removed: %v", got)
		}
	}
	if got := n.want(200, "GET", "/api/v1/agents/"+agent, nil); got["schedule"] != nil {
		t.Errorf("the agent's field: %v", got["schedule"])
	}
	if got := n.want(200, "GET", "/api/v1/schedules", nil)["schedules"].([]any); len(got) != 0 {
		t.Errorf("listed: %v", got)
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		checkCode(t, n.do(method, "/api/v1/agents/"+ident.New()+"/schedule", bodyOf(method)), 404, "NOT_FOUND")
	}
}

func bodyOf(method string) any {
	if method == http.MethodPut {
		return object{"cron": "0 9 * * *"}
	}
	return nil
}

func TestScheduleOfANewAgent(t *testing.T) {
	t.Parallel()
	n := start(t, modeltest.New(t, silent))
	var agents []string
	for range 3 {
		agents = append(agents, n.agent(object{"schedule": object{"cron": "0 0 1 1 *", "timezone": "Europe/Berlin"}}))
	}
	if got := n.want(200, "GET", "/api/v1/agents/"+agents[0]+"/schedule", nil); !strings.HasSuffix(got["next_run_at"].(string), "-12-31T23:00:00Z") {
		t.Errorf("%v", got)
	}
	eventually(t, func() bool { return n.want(200, "GET", "/api/v1/schedules", nil)["total"] == 3.0 })
	first := n.want(200, "GET", "/api/v1/schedules?limit=2", nil)
	if len(first["schedules"].([]any)) != 2 || first["has_more"] != true {
		t.Fatalf("%v", first)
	}
	second := n.want(200, "GET", "/api/v1/schedules?limit=2&cursor="+first["cursor"].(string), nil)
	if rest := second["schedules"].([]any); len(rest) != 1 || rest[0].(object)["agent_id"] != agents[2] || second["has_more"] != false {
		t.Errorf("%v", second)
	}
	n.want(200, "POST", "/api/v1/agents/"+agents[1]+"/suspend", nil)
	if got := n.want(200, "GET", "/api/v1/agents/"+agents[1]+"/schedule", nil); got["next_run_at"] != nil || got["enabled"] != true {
		t.Errorf("of a suspended agent: %v", got)
	}
	n.want(200, "DELETE", "/api/v1/agents/"+agents[0], nil)
	eventually(t, func() bool { return n.want(200, "GET", "/api/v1/schedules", nil)["total"] == 2.0 })
}

func TestSchedulesThatAreRefused(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	agent := n.agent(nil)
	for body, fields := range map[string][]string{
		`{}`:                          {"cron"},
		`{"cron":""}`:                 {"cron"},
		`{"cron":"* * * * *"}`:        {"cron"},
		`{"cron":"*/4 * * * *"}`:      {"cron"},
		`{"cron":"0 0 30 2 *"}`:       {"cron"},
		`{"cron":"@hourly"}`:          {"cron"},
		`{"cron":"TZ=UTC 0 0 * * *"}`: {"cron"},
		`{"cron":"0 0 * * *","timezone":"Europe/Bielefeld","on_failure":"retry"}`:             {"on_failure"},
		`{"cron":"0 0 * *","timezone":"Europe/Bielefeld","input":{"message":1}}`:              {"timezone", "cron", "input.message"},
		`{"cron":"0 0 * * *","max_concurrent_scheduled":0,"enabled":1,"reflection_prompt":2}`: {"max_concurrent_scheduled", "enabled", "reflection_prompt"},
	} {
		r := n.do("PUT", "/api/v1/agents/"+agent+"/schedule", body)
		checkFields(t, r, fields...)
	}
	for _, minutes := range []string{"0,1,2", "*/5", "7"} {
		n.want(200, "PUT", "/api/v1/agents/"+agent+"/schedule", object{"cron": minutes + " * * * *"})
	}
	// The agent's field is checked alike.
	checkFields(t, n.do("PATCH", "/api/v1/agents/"+agent, object{"schedule": object{"cron": "* * * * *", "timezone": "Local"}}), "schedule.timezone", "schedule.cron")
	checkFields(t, n.do("POST", "/api/v1/agents", object{"name": "x", "schedule": object{"cron": "0 0 30 2 *"}}), "schedule.cron")
}

// Two nodes over one database, one of which dies: each fire makes one run.
func TestSchedulesOfTwoNodes(t *testing.T) {
	heavy(t)
	t.Parallel()
	database := sqldbtest.Config(t, sqldbtest.Postgres)
	shared := func(c *config.Config) {
		c.Storage.DatabaseURL = config.NewURL(database.URL)
		c.Security.SecretKey = secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))
	}
	sim := modeltest.New(t, silent)
	a := start(t, sim, shared)
	b := start(t, sim, shared)
	var agents []string
	for range 6 {
		agent := a.agent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
		a.want(200, "PUT", "/api/v1/agents/"+agent+"/schedule", object{"cron": "*/5 * * * *", "max_concurrent_scheduled": 9})
		agents = append(agents, agent)
	}
	for _, agent := range agents {
		a.overdue(agent)
	}
	a.stop()
	for _, agent := range agents {
		eventually(t, func() bool { return len(b.runsOf(agent)) > 0 })
		// The same fire once more makes no other run.
		b.overdue(agent)
		eventually(t, func() bool {
			got := b.want(200, "GET", "/api/v1/agents/"+agent+"/schedule", nil)
			return got["next_run_at"] != got["last_fired_at"]
		})
	}
	for _, agent := range agents {
		fires := map[any]bool{}
		for _, run := range b.runsOf(agent) {
			fire := run.(object)["metadata"].(object)["schedule_fire"]
			if fires[fire] {
				t.Errorf("two runs of the fire %v", fire)
			}
			fires[fire] = true
		}
	}
}

func TestAScheduleIsPausedByAFailure(t *testing.T) {
	t.Parallel()
	eachRefusing(t, func(t *testing.T, n *node) {
		agent := n.agent(nil)
		path := "/api/v1/agents/" + agent + "/schedule"
		body := object{"cron": "*/5 * * * *", "on_failure": "pause"}
		n.want(200, "PUT", path, body)
		n.overdue(agent)
		eventually(t, func() bool { return n.want(200, "GET", path, nil)["status"] == "paused" })
		got := n.want(200, "GET", path, nil)
		if got["next_run_at"] != nil || got["consecutive_failures"] != 1.0 || got["enabled"] != true {
			t.Errorf("%v", got)
		}
		told := n.want(200, "GET", "/api/v1/notifications", nil)["notifications"].([]any)
		if !slices.ContainsFunc(told, func(one any) bool {
			o := one.(object)
			return o["type"] == "system.alert" && o["priority"] == "critical" && o["source"].(object)["id"] == agent
		}) {
			t.Errorf("told: %v", told)
		}
		if got := n.want(200, "PUT", path, body); got["status"] != "active" || got["next_run_at"] == nil || got["consecutive_failures"] != 0.0 {
			t.Errorf("written again: %v", got)
		}
	})
}

func TestSchedulesOfASuspendedCompany(t *testing.T) {
	heavy(t)
	t.Parallel()
	n := start(t, nil)
	a := n.admin()
	g, err := a.CreateTenant(t.Context(), "Closing", "")
	if err != nil {
		t.Fatal(err)
	}
	c := n.as(string(g.RawKey))
	agent := c.agent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
	c.want(200, "PUT", "/api/v1/agents/"+agent+"/schedule", object{"cron": "*/5 * * * *"})
	a.exec(`UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`, g.TenantID)
	c.overdue(agent)
	eventually(t, func() bool {
		return len(a.query(`SELECT 1 FROM schedules WHERE agent_id = ? AND skip_reason = 'tenant_suspended'`, agent)) == 1
	})
	a.exec(`UPDATE tenants SET status = 'active' WHERE tenant_id = ?`, g.TenantID)
	if got := c.runsOf(agent); len(got) != 0 {
		t.Errorf("%v", got)
	}
	c.overdue(agent)
	eventually(t, func() bool { return len(c.runsOf(agent)) == 1 })
}

// checkFields fails unless an answer refuses exactly these fields.
func checkFields(t *testing.T, r reply, want ...string) {
	t.Helper()
	checkCode(t, r, 422, "VALIDATION_ERROR")
	list, _ := r.json["errors"].([]any)
	var got []string
	for _, e := range list {
		got = append(got, e.(object)["field"].(string))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s refuses %v, want %v: %s", r.Request.Method, got, want, r.raw)
	}
}
