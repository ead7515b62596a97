package runs

import (
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// A proposal is tested by runs of the changed agent on the inputs of its failed runs.
// They change nothing outside, and say what started them. Applying the
// proposal makes a version of the agent.
func TestImprovementInSandbox(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	agent := n.CreateAgent(object{"model": apptest.EchoModel, "built_in_tools": []string{"calculator", "memory_save"}})
	n.Expect(200, "PUT", "/api/v1/governance/constitution", object{"rules": []object{
		{"rule_id": "no-echo", "principle": "No echo.", "action": "model:" + apptest.EchoModel["model_ref"].(string)},
	}})
	failed := n.WaitRun(n.StartRun(agent, "calculate 6*7", nil))
	if failed["status"] != "rejected" {
		t.Fatalf("the run did not fail: %v", failed)
	}
	all := "/api/v1/governance/improvement/" + agent
	n.Expect(201, "POST", all, object{
		"type": "model_change", "failed_run_ids": []any{failed["run_id"]}, "diff": object{"description": "It reckons.", "built_in_tools": []string{"calculator"}},
	})
	move := func(status int, to string) object {
		t.Helper()
		return n.Expect(status, "PUT", all+"/1/status", object{"status": to})
	}
	n.Expect(200, "PUT", "/api/v1/governance/constitution", object{"rules": []object{}})
	move(200, "arbiter_review")
	move(200, "voting")
	move(409, "approved")
	move(200, "sandbox_testing")
	var tested object
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		tested = n.Expect(200, "GET", all+"/1", nil)
		if tested["status"] != "sandbox_testing" || time.Now().After(end) {
			break
		}
	}
	if tested["status"] != "approved" || tested["sandbox_success_rate"] != 1.0 {
		t.Fatalf("the test ended as %v", tested)
	}
	id := tested["sandbox_runs"].([]any)[0].(object)["run_id"].(string)
	r := n.Expect(200, "GET", "/api/v1/runs/"+id, nil)
	if by := r["started_by"].(object); by["type"] != "improvement" || by["id"] != tested["id"] || r["agent_version"] != failed["agent_version"] {
		t.Errorf("the run of the test: %v", r)
	}
	if g := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil); g["version"] != "1" || g["description"] == "It reckons." {
		t.Errorf("the test changed the agent: %v", g)
	}
	if applied := move(200, "applied"); applied["applied_version"] != "2" {
		t.Errorf("applied: %v", applied)
	}
	if g := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil); g["version"] != "2" || g["description"] != "It reckons." {
		t.Errorf("the agent is %v", g)
	}
	move(409, "applied")
}
