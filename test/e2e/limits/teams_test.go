package limits

import (
	"testing"

	"agentd/internal/app/apptest"
)

// A plan limits teams, and how many of their runs have not ended.
func TestTeamRunsOfAPlan(t *testing.T) {
	t.Parallel()
	onPlan(t, `"teams": 1, "concurrent_team_runs": 1`, priced, func(t *testing.T, n *apptest.Server) {
		boss := n.CreateAgent(nil)
		asking := n.CreateAgent(object{"built_in_tools": []string{"calculator"}, "approval_required_tools": []string{"calculator"}})
		body := object{"name": "x", "topology": "pipeline", "supervisor_agent_id": boss, "workers": []object{{"agent_id": asking}}}
		runs := "/api/v1/teams/" + n.Expect(201, "POST", "/api/v1/teams", body)["team_id"].(string) + "/runs"
		quotaBlock(t, n.Do("POST", "/api/v1/teams", body), 403, "limit_reached",
			object{"kind": "teams", "period": nil, "limit": 1.0, "used": 1.0, "remaining": 0.0})
		id := n.Expect(202, "POST", runs, object{"message": "1 call"})["team_run_id"].(string)
		r := n.Do("POST", runs, object{"message": "hello"})
		quotaBlock(t, r, 429, "limit_reached", object{"kind": "concurrent_team_runs", "period": nil, "limit": 1.0, "used": 1.0, "remaining": 0.0})
		if r.Header.Get("Retry-After") == "" {
			t.Error("a refusal that ends by itself has no Retry-After")
		}
		n.Expect(200, "POST", runs+"/"+id+"/cancel", nil)
		apptest.Eventually(t, func() bool { return n.Expect(200, "GET", runs+"/"+id, nil)["status"] == "cancelled" })
		n.Expect(202, "POST", runs, object{"message": "hello"})
	})
}
