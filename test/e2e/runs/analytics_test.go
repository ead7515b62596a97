package runs

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
)

// What agents did is shown by how their runs ended, also of agents that are gone, to the
// company and to the operator.
func TestAnalytics(t *testing.T) {
	t.Parallel()
	apptest.EachEngineRefusing(t, func(t *testing.T, n *apptest.Server) {
		agent := func(body object) string {
			return n.Expect(http.StatusCreated, "POST", "/api/v1/agents", body)["agent_id"].(string)
		}
		echo, broken := agent(object{"name": "Echo", "model": object{"provider": "custom", "model_ref": "builtin/echo"}}), agent(object{"name": "Broken"})
		idle := agent(object{"name": "Idle", "model": object{"provider": "custom", "model_ref": "builtin/echo"}})
		for _, id := range []string{echo, echo, broken} {
			made := n.Expect(http.StatusAccepted, "POST", "/api/v1/runs", object{"agent_id": id, "input": object{"message": "Hello."}})
			n.Expect(http.StatusOK, "GET", "/api/v1/runs/"+made["run_id"].(string)+"/wait", nil)
		}
		get := func(path string) object { return n.Expect(http.StatusOK, "GET", "/api/v1"+path, nil) }
		for id, want := range map[string]string{echo: "2 2 0 0", broken: "1 0 1 0", idle: "0 0 0 0"} {
			got := get("/agents/" + id + "/activity-stats")
			if text := fmt.Sprint(got["totalRuns"], got["completedRuns"], got["failedRuns"], got["cancelledRuns"]); text != want {
				t.Errorf("runs, completed, failed, cancelled: %s, want %s", text, want)
			}
			if (got["averageMs"] == nil) != (id == idle) {
				t.Errorf("averageMs: %v", got["averageMs"])
			}
		}
		listsHaveStats(t, n, map[string]string{echo: "2 0 2 0 0 completed", broken: "1 1 1 1 1 failed", idle: "0 0 0 0 <nil> <nil>"})
		n.Expect(http.StatusOK, "DELETE", "/api/v1/agents/"+broken, nil)
		sum := get("/analytics/agents?days=2")
		if text := fmt.Sprint(sum["total"], sum["runs_total"], sum["by_execution_mode"], sum["range"].(object)["days"]); text != "2 3 map[bridge:0 cloud:2] 2" {
			t.Errorf("agents, runs, modes, days: %s", text)
		}
		first, gone := sum["agents"].([]any)[0].(object), sum["deleted_agents"].(object)
		if first["agent_id"] != echo || fmt.Sprint(first["runs"], first["completed"], first["failures"]) != "2 2 0" || len(sum["top_by_runs"].([]any)) != 1 {
			t.Errorf("the first agent: %v", first)
		}
		if gone["count"] != 1.0 || gone["runs"] != 1.0 {
			t.Errorf("deleted agents: %v", gone)
		}
		seriesAreByDay(t, n, echo)
		platformIsCounted(t, n, echo)
	})
}

// listsHaveStats checks the stats of all agents by id, with long fields and without, and
// that they come only where they are asked for.
func listsHaveStats(t *testing.T, n *apptest.Server, want map[string]string) {
	t.Helper()
	for _, query := range []string{"?include=stats", "?include=stats&fields=summary&limit=3"} {
		items := n.Expect(http.StatusOK, "GET", "/api/v1/agents"+query, nil)["items"].([]any)
		if len(items) != len(want) {
			t.Errorf("%s: %d agents", query, len(items))
		}
		for _, item := range items {
			agent := item.(object)
			st, _ := agent["stats"].(object)
			got := fmt.Sprintln(st["runs_24h"], st["failures_24h"], st["runs_30d"], st["failures_30d"], st["failure_rate_30d"], st["last_run_status"])
			got = strings.TrimSpace(got)
			if got != want[agent["agent_id"].(string)] || (st["last_run_id"] == nil) != (st["last_run_at"] == nil) {
				t.Errorf("%s: %s: %s, of %v", query, agent["name"], got, st)
			}
			if cost, ok := st["cost_30d_usd"].(float64); !ok || cost != 0 {
				t.Errorf("%s: cost %v of a model without a price", agent["name"], st["cost_30d_usd"])
			}
		}
	}
	plain := n.Expect(http.StatusOK, "GET", "/api/v1/agents", nil)["items"].([]any)[0].(object)
	if st, ok := plain["stats"]; ok {
		t.Errorf("without include: %v", st)
	}
	n.Expect(http.StatusBadRequest, "GET", "/api/v1/agents?include=costs", nil)
}

func seriesAreByDay(t *testing.T, n *apptest.Server, echo string) {
	t.Helper()
	const path = "/api/v1/analytics/timeseries"
	got := n.Expect(http.StatusOK, "GET", path+"?metrics=runs,completed,failures&days=3", nil)
	one := got["series"].([]any)[0].(object)
	values := fmt.Sprint(one["values"].(object)["runs"], one["values"].(object)["failures"])
	if values != "[0 0 3] [0 0 1]" || one["totals"].(object)["completed"] != 2.0 || len(got["dates"].([]any)) != 3 {
		t.Errorf("%v", got)
	}
	apptest.Eventually(t, func() bool { // durations are added later
		got := n.Expect(http.StatusOK, "GET", path+"?metrics=runs,p50&group_by=agent&top=1&days=1", nil)
		one := got["series"].([]any)[0].(object)
		if one["key"] != echo || one["name"] != "Echo" || got["groups_total"] != 2.0 {
			t.Fatalf("%v", got)
		}
		return one["totals"].(object)["p50"] != nil
	})
	models := n.Expect(http.StatusOK, "GET", path+"?metrics=model_calls&group_by=model&agent_id="+echo, nil)["series"].([]any)
	if len(models) == 0 || models[0].(object)["totals"].(object)["model_calls"] != 2.0 {
		t.Errorf("%v", models)
	}
	for query, field := range map[string]string{
		"metrics=speed": "metrics", "metrics=,": "metrics", "metrics=p50&group_by=model": "group_by",
		"from=2026-13-01": "from", "from=2026-09-02&to=2026-09-01": "from",
		"from=2020-01-01&to=2026-09-01": "from", "from=2026-09-01&to=x": "to",
	} {
		refused := n.Expect(http.StatusUnprocessableEntity, "GET", path+"?"+query, nil)
		if fields := refused["errors"].([]any); fields[0].(object)["field"] != field {
			t.Errorf("%s: %v, want a field %s", query, fields, field)
		}
	}
	if none := n.Expect(http.StatusOK, "GET", path+"?group_by=agent&agent_id=unknown", nil)["series"].([]any); len(none) != 0 {
		t.Errorf("of an unknown agent: %v", none)
	}
}

func platformIsCounted(t *testing.T, n *apptest.Server, echo string) {
	t.Helper()
	apptest.Eventually(t, func() bool { // what was used is added later
		stats := n.Expect(http.StatusOK, "GET", "/api/v1/admin/stats", nil)
		return stats["total_runs"] == 3.0 && stats["total_agents"] == 2.0 && stats["total_tenants"] == 1.0
	})
	all := n.Expect(http.StatusOK, "GET", "/api/v1/admin/analytics/agents?days=1", nil)
	if agents := all["agents"].([]any); len(agents) != 1 || agents[0].(object)["agent_id"] != echo || agents[0].(object)["runs"] != 2.0 {
		t.Errorf("%v", agents)
	}
	if text := fmt.Sprint(all["runs_total"], all["total"], all["deleted_agents"].(object)["runs"]); text != "3 2 1" {
		t.Errorf("runs, agents, runs of deleted agents: %s", text)
	}
}
