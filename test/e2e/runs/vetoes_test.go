package runs

import (
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// What an ambassador vetoes ends, and what a ruling imposes holds until an appeal.
func TestVetoesAct(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	const area = "/api/v1/governance"
	n.Expect(201, "POST", area+"/ambassador/ambassadors/bootstrap", nil)
	agent := n.CreateAgent(object{
		"model": apptest.EchoModel, "built_in_tools": []string{"calculator"}, "approval_required_tools": []string{"calculator"},
	})
	veto := func(kind string, id any) {
		t.Helper()
		n.Expect(201, "POST", area+"/ambassador/veto", object{"target_type": kind, "target_id": id, "reason": "No sums today"})
	}
	run := n.StartRun(agent, "calculate 6*7", nil)
	n.WaitStatus(run, "awaiting_approval")
	veto("action", n.Expect(200, "GET", "/api/v1/runs/"+run, nil)["pending_approvals"].([]any)[0].(object)["approval_id"])
	if r := n.WaitRun(run); r["status"] != "rejected" || r["error"] != "No sums today" {
		t.Errorf("the run of a vetoed action: %v, %v", r["status"], r["error"])
	}
	status := func(path string, id any) any {
		t.Helper()
		return n.Expect(200, "GET", path+"/"+id.(string), nil)["status"]
	}
	proposal := n.Expect(201, "POST", area+"/voting/proposals", object{"title": "More sums", "proposal_type": "general"})["id"]
	veto("proposal", proposal)
	if got := status(area+"/voting/proposals", proposal); got != "vetoed" {
		t.Errorf("the proposal is %v", got)
	}
	file := func() any {
		t.Helper()
		return n.Expect(201, "POST", area+"/arbiter/cases", object{"against_agent_id": agent, "reason": "Sums"})["id"]
	}
	closed := file()
	veto("case", closed)
	if got := status(area+"/arbiter/cases", closed); got != "closed" {
		t.Errorf("the case is %v", got)
	}
	veto("agent", agent)
	if a := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil); a["status"] != "suspended" || a["status_reason_code"] != "veto" ||
		a["status_reason"] != "No sums today" || a["status_changed_at"] == nil {
		t.Errorf("the agent: %v, %v, %v", a["status"], a["status_reason_code"], a["status_reason"])
	}
	n.Expect(200, "POST", "/api/v1/agents/"+agent+"/activate", nil)

	judges := []string{n.CreateAgent(object{"model": apptest.EchoModel}), n.CreateAgent(object{"model": apptest.EchoModel})}
	n.Expect(200, "PUT", area+"/arbiter/registry",
		object{"arbiter_agent_ids": judges, "panel_size": 1, "ruling_deadline_hours": 1, "max_appeals": 1})
	id := file().(string)
	n.Expect(200, "POST", area+"/arbiter/cases/"+id+"/ruling", object{
		"arbiter_id": n.Expect(200, "GET", area+"/arbiter/cases/"+id, nil)["assigned_arbiter_id"], "decision": "upheld", "reason": "Sums",
		"penalties": []object{{"type": "suspend_agent"}, {"type": "revoke_permissions"}},
	})
	sanction := func() any { return n.Expect(200, "GET", area+"/permissions/"+agent, nil)["sanction"] }
	if got := status("/api/v1/agents", agent); got != "suspended" || sanction() == nil {
		t.Errorf("the agent is %v after the ruling, with the sanction %v", got, sanction())
	}
	panel := n.Expect(201, "POST", area+"/arbiter/cases/"+id+"/appeal", object{"reason": "A test"})["panel_arbiter_ids"].([]any)
	n.Expect(200, "POST", area+"/arbiter/cases/"+id+"/ruling", object{"arbiter_id": panel[0], "decision": "dismissed"})
	if got := status("/api/v1/agents", agent); got != "active" || sanction() != nil {
		t.Errorf("the agent is %v after the appeal, with the sanction %v", got, sanction())
	}
	if v := n.Expect(200, "GET", area+"/ledger/verify", nil); v["valid"] != true {
		t.Errorf("the ledger: %v", v)
	}
}
