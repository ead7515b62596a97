package insight

import (
	"fmt"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// New runs use the versions that the traffic names, in a session always the same one, and
// what the versions did is compared.
func TestTraffic(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(script)))
	agent := n.CreateAgent(object{"prompts": object{"system": "upper"}})
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"prompts": object{"system": "plain"}})
	path := "/api/v1/agents/" + agent + "/traffic"
	if none := n.Expect(200, "GET", path, nil); len(none["entries"].([]any)) != 0 || none["updated_at"] != nil {
		t.Errorf("before it is set: %v", none)
	}
	for name, bad := range map[string]object{
		"entries":            {"entries": []object{{"version": 1, "weight": 50}, {"version": 2, "weight": 49}}},
		"entries[1].version": {"entries": []object{{"version": 1, "weight": 50}, {"version": 7, "weight": 50}}},
		"rollout.candidate":  {"entries": []object{{"version": 1, "weight": 50}, {"version": 2, "weight": 50}}, "rollout": object{"candidate_version": 3}},
	} {
		if r := n.Do("PUT", path, bad); r.StatusCode != 422 || !strings.Contains(string(r.Body), name) {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.Body)
		}
	}
	n.Expect(200, "PUT", path, object{"entries": []object{{"version": 1, "weight": 100}, {"version": 2, "weight": 0}}})
	if g := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil); g["version"] != "2" || g["traffic"] == nil {
		t.Errorf("the agent is %v", g)
	}
	if r := n.WaitRun(n.StartRun(agent, "hi", nil)); r["agent_version"] != 1.0 || apptest.OutputText(r) != "HI" {
		t.Errorf("the run is %v", r)
	}
	n.Expect(200, "PUT", path, object{"entries": []object{{"version": 1, "weight": 50}, {"version": 2, "weight": 50}}})
	versions := map[any]int{}
	for range 8 {
		session := n.CreateSession(agent, nil)
		first := n.WaitRun(n.SendMessage(session, "one"))["agent_version"]
		if second := n.WaitRun(n.SendMessage(session, "two"))["agent_version"]; second != first {
			t.Errorf("a session moved from %v to %v", first, second)
		}
		versions[first] += 2
	}
	results := n.Expect(200, "GET", path+"/results", nil)
	for _, v := range results["versions"].([]any) {
		if got := v.(object); got["runs"] != float64(versions[got["version"]]) || got["success_rate"] != 1.0 && got["runs"] != 0.0 {
			t.Errorf("of %v runs: %v", versions, got)
		}
	}
	// Runs that ask for a version get it, and without a division all use the newest.
	n.Expect(200, "DELETE", path, nil)
	for range 3 {
		if r := n.WaitRun(n.StartRun(agent, "hi", nil)); r["agent_version"] != 2.0 {
			t.Errorf("the run is of version %v", r["agent_version"])
		}
	}
}

// A candidate that fails loses all runs, and one that does as well as the baseline gets
// them.
func TestRollouts(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if strings.Contains(string(r.Body), "broken") {
			return modeltest.Answer{Status: 400, Error: "no"}
		}
		return script(r)
	})))
	agent := n.CreateAgent(object{"prompts": object{"system": "upper"}})
	for _, prompt := range []string{"broken", "upper, please"} {
		n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"prompts": object{"system": prompt}})
	}
	path := "/api/v1/agents/" + agent + "/traffic"
	rollout := func(candidate int, outcome string, weights ...float64) {
		t.Helper()
		n.Expect(200, "PUT", path, object{
			"entries": []object{{"version": 1, "weight": 50}, {"version": candidate, "weight": 50}},
			"rollout": object{"candidate_version": candidate, "min_runs": 20, "metric": "success_rate", "promote": "not_worse"},
		})
		decided := func() bool { return n.Expect(200, "GET", path, nil)["rollout"].(object)["outcome"] != nil }
		runs := map[any]int{}
		// On a slow machine it is decided meanwhile, and one of the two gets no more runs.
		for i := 0; (runs[1.0] < 20 || runs[float64(candidate)] < 20) && !decided(); i++ {
			runs[n.WaitRun(n.StartRun(agent, fmt.Sprint("hi ", i), nil))["agent_version"]]++
		}
		n.Admin().Exec(`UPDATE work SET due_at = 0 WHERE kind = 'agent.rollout'`)
		var now object
		apptest.Eventually(t, func() bool {
			now = n.Expect(200, "GET", path, nil)
			return now["rollout"].(object)["outcome"] != nil
		})
		entries := now["entries"].([]any)
		if r := now["rollout"].(object); r["outcome"] != outcome || entries[0].(object)["weight"] != weights[0] || entries[1].(object)["weight"] != weights[1] {
			t.Errorf("the candidate %d: %v", candidate, now)
		}
	}
	rollout(2, "rolled_back", 100, 0)
	rollout(3, "promoted", 0, 100)
	if r := n.WaitRun(n.StartRun(agent, "hi", nil)); r["agent_version"] != 3.0 {
		t.Errorf("after the promotion a run is of version %v", r["agent_version"])
	}
}
