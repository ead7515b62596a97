package runs

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/base/ident"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
		path := "/api/v1/agents/" + agent + "/schedule"
		if r := n.Do("GET", path, nil); r.StatusCode != 200 || string(r.Body) != "null" {
			t.Fatalf("without a schedule: %d %s", r.StatusCode, r.Body)
		}
		put := n.Expect(200, "PUT", path, object{"cron": "*/5 * * * *", "input": object{"message": "hello", "more": 1}})
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
		if got := n.Expect(200, "GET", path, nil); fmt.Sprint(got) != fmt.Sprint(put) {
			t.Errorf("read again: %v, not %v", got, put)
		}
		field := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil)["schedule"].(object)
		if field["cron"] != "*/5 * * * *" || field["next_run_at"] != nil {
			t.Errorf("the agent's field: %v", field)
		}

		for sent, want := range map[string]string{"retry_next": "continue", "pause_schedule": "pause", "notify": "alert"} {
			body := object{"cron": "*/5 * * * *", "input": object{"message": "hello", "more": 1}, "on_failure": sent}
			if got := n.Expect(200, "PUT", path, body)["on_failure"]; got != want {
				t.Errorf("on_failure %s became %v, not %s", sent, got, want)
			}
		}

		fire := n.MakeScheduleDue(agent)
		apptest.Eventually(t, func() bool { return len(n.ListRuns(agent)) > 0 })
		run := n.WaitRun(n.ListRuns(agent)[0].(object)["run_id"].(string))
		meta := run["metadata"].(object)
		if run["status"] != "completed" || meta["source"] != "schedule" || meta["schedule_fire"] != fire.Format(time.RFC3339) || run["input"].(object)["message"] != "hello" {
			t.Errorf("the run: %v", run)
		}
		// The run may be there before the schedule says so.
		apptest.Eventually(t, func() bool { return n.Expect(200, "GET", path, nil)["last_fired_at"] != nil })
		got := n.Expect(200, "GET", path, nil)
		if got["last_fired_at"] != fire.Format(time.RFC3339) || got["next_run_at"] == nil || got["next_run_at"] == got["last_fired_at"] {
			t.Errorf("after a fire: %v", got)
		}
		disabledAndRemoved(t, n, agent)
	})
}

// disabledAndRemoved takes the schedule of the only agent away, step by step.
func disabledAndRemoved(t *testing.T, n *apptest.Server, agent string) {
	t.Helper()
	path := "/api/v1/agents/" + agent + "/schedule"
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"schedule": object{"enabled": false}})
	if got := n.Expect(200, "GET", path, nil); got["next_run_at"] != nil || got["enabled"] != false || got["cron"] != "*/5 * * * *" {
		t.Errorf("disabled: %v", got)
	}
	all := n.Expect(200, "GET", "/api/v1/schedules", nil)
	if one := all["schedules"].([]any)[0].(object); all["total"] != 1.0 || one["agent_name"] != "tester" || one["enabled"] != false || all["has_more"] != nil {
		t.Errorf("listed: %v", all)
	}
	for range 2 {
		if got := n.Expect(200, "DELETE", path, nil); got["removed"] != true || got["agent_id"] != agent {
			t.Errorf("removed: %v", got)
		}
	}
	if got := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil); got["schedule"] != nil {
		t.Errorf("the agent's field: %v", got["schedule"])
	}
	if got := n.Expect(200, "GET", "/api/v1/schedules", nil)["schedules"].([]any); len(got) != 0 {
		t.Errorf("listed: %v", got)
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		apptest.CheckCode(t, n.Do(method, "/api/v1/agents/"+ident.New()+"/schedule", bodyOf(method)), 404, "NOT_FOUND")
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
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	var agents []string
	for range 3 {
		agents = append(agents, n.CreateAgent(object{"schedule": object{"cron": "0 0 1 1 *", "timezone": "Europe/Berlin"}}))
	}
	if got := n.Expect(200, "GET", "/api/v1/agents/"+agents[0]+"/schedule", nil); !strings.HasSuffix(got["next_run_at"].(string), "-12-31T23:00:00Z") {
		t.Errorf("%v", got)
	}
	apptest.Eventually(t, func() bool { return n.Expect(200, "GET", "/api/v1/schedules", nil)["total"] == 3.0 })
	first := n.Expect(200, "GET", "/api/v1/schedules?limit=2", nil)
	if len(first["schedules"].([]any)) != 2 || first["has_more"] != true {
		t.Fatalf("%v", first)
	}
	second := n.Expect(200, "GET", "/api/v1/schedules?limit=2&cursor="+first["cursor"].(string), nil)
	if rest := second["schedules"].([]any); len(rest) != 1 || rest[0].(object)["agent_id"] != agents[2] || second["has_more"] != false {
		t.Errorf("%v", second)
	}
	n.Expect(200, "POST", "/api/v1/agents/"+agents[1]+"/suspend", nil)
	if got := n.Expect(200, "GET", "/api/v1/agents/"+agents[1]+"/schedule", nil); got["next_run_at"] != nil || got["enabled"] != true {
		t.Errorf("of a suspended agent: %v", got)
	}
	n.Expect(200, "DELETE", "/api/v1/agents/"+agents[0], nil)
	apptest.Eventually(t, func() bool { return n.Expect(200, "GET", "/api/v1/schedules", nil)["total"] == 2.0 })
}

func TestSchedulesThatAreRefused(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(nil)
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
		r := n.Do("PUT", "/api/v1/agents/"+agent+"/schedule", body)
		checkFields(t, r, fields...)
	}
	for _, minutes := range []string{"0,1,2", "*/5", "7"} {
		n.Expect(200, "PUT", "/api/v1/agents/"+agent+"/schedule", object{"cron": minutes + " * * * *"})
	}
	// The agent's field is checked alike.
	checkFields(t, n.Do("PATCH", "/api/v1/agents/"+agent, object{"schedule": object{"cron": "* * * * *", "timezone": "Local"}}), "schedule.timezone", "schedule.cron")
	checkFields(t, n.Do("POST", "/api/v1/agents", object{"name": "x", "schedule": object{"cron": "0 0 30 2 *"}}), "schedule.cron")
}

// Two nodes over one database, one of which dies: each fire makes one run.
func TestSchedulesOfTwoNodes(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	database := sqldbtest.Migrated(t, sqldbtest.Postgres)
	shared := func(c *config.Config) {
		c.Storage.DatabaseURL = config.NewURL(database.URL)
		c.Security.SecretKey = secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))
	}
	sim := modeltest.New(t, apptest.HangingModel)
	a := apptest.Start(t, sim, shared)
	b := apptest.Start(t, sim, shared)
	var agents []string
	for range 6 {
		agent := a.CreateAgent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
		a.Expect(200, "PUT", "/api/v1/agents/"+agent+"/schedule", object{"cron": "*/5 * * * *", "max_concurrent_scheduled": 9})
		agents = append(agents, agent)
	}
	for _, agent := range agents {
		a.MakeScheduleDue(agent)
	}
	a.Stop()
	for _, agent := range agents {
		apptest.Eventually(t, func() bool { return len(b.ListRuns(agent)) > 0 })
		// The same fire once more makes no other run.
		b.MakeScheduleDue(agent)
		apptest.Eventually(t, func() bool {
			got := b.Expect(200, "GET", "/api/v1/agents/"+agent+"/schedule", nil)
			return got["next_run_at"] != got["last_fired_at"]
		})
	}
	for _, agent := range agents {
		fires := map[any]bool{}
		for _, run := range b.ListRuns(agent) {
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
	apptest.EachEngineRefusing(t, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(nil)
		path := "/api/v1/agents/" + agent + "/schedule"
		body := object{"cron": "*/5 * * * *", "on_failure": "pause"}
		n.Expect(200, "PUT", path, body)
		n.MakeScheduleDue(agent)
		apptest.Eventually(t, func() bool { return n.Expect(200, "GET", path, nil)["status"] == "paused" })
		got := n.Expect(200, "GET", path, nil)
		if got["next_run_at"] != nil || got["consecutive_failures"] != 1.0 || got["enabled"] != true {
			t.Errorf("%v", got)
		}
		told := n.Expect(200, "GET", "/api/v1/notifications", nil)["notifications"].([]any)
		if !slices.ContainsFunc(told, func(one any) bool {
			o := one.(object)
			return o["type"] == "system.alert" && o["priority"] == "critical" && o["source"].(object)["id"] == agent
		}) {
			t.Errorf("told: %v", told)
		}
		if got := n.Expect(200, "PUT", path, body); got["status"] != "active" || got["next_run_at"] == nil || got["consecutive_failures"] != 0.0 {
			t.Errorf("written again: %v", got)
		}
	})
}

func TestSchedulesOfASuspendedCompany(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	n := apptest.Start(t, nil)
	a := n.Admin()
	g, err := a.Tenants.Create(t.Context(), "Closing", "")
	if err != nil {
		t.Fatal(err)
	}
	c := n.WithKey(string(g.RawKey))
	agent := c.CreateAgent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
	c.Expect(200, "PUT", "/api/v1/agents/"+agent+"/schedule", object{"cron": "*/5 * * * *"})
	a.Exec(`UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`, g.TenantID)
	c.MakeScheduleDue(agent)
	apptest.Eventually(t, func() bool {
		return len(a.Query(`SELECT 1 FROM schedules WHERE agent_id = ? AND skip_reason = 'tenant_suspended'`, agent)) == 1
	})
	a.Exec(`UPDATE tenants SET status = 'active' WHERE tenant_id = ?`, g.TenantID)
	if got := c.ListRuns(agent); len(got) != 0 {
		t.Errorf("%v", got)
	}
	c.MakeScheduleDue(agent)
	apptest.Eventually(t, func() bool { return len(c.ListRuns(agent)) == 1 })
}

// checkFields fails unless an answer refuses exactly these fields.
func checkFields(t *testing.T, r apptest.Reply, want ...string) {
	t.Helper()
	apptest.CheckCode(t, r, 422, "VALIDATION_ERROR")
	list, _ := r.JSON["errors"].([]any)
	var got []string
	for _, e := range list {
		got = append(got, e.(object)["field"].(string))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s refuses %v, want %v: %s", r.Request.Method, got, want, r.Body)
	}
}
