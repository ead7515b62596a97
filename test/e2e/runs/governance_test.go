package runs

import (
	"fmt"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// Rules stop what agents do, in runs that a client starts, and everything that was
// decided is in the step, the audit log and the ledger.
func TestRulesOfARun(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	agent := n.CreateAgent(object{"model": apptest.EchoModel, "built_in_tools": []string{"calculator"}})
	calculate := func() object {
		t.Helper()
		return n.WaitRun(n.StartRun(agent, "calculate 6*7", nil))
	}
	put := func(rule object) {
		t.Helper()
		rule["rule_id"], rule["principle"] = "sums", "No sums today."
		n.Expect(200, "PUT", "/api/v1/governance/constitution", object{"rules": []object{rule}})
	}
	steps := func(r object) string {
		return string(n.Do("GET", "/api/v1/runs/"+r["run_id"].(string)+"/steps", nil).Body)
	}
	if r := calculate(); r["status"] != "completed" || strings.Contains(steps(r), "rulings") {
		t.Fatalf("without a rule: %v", r)
	}
	put(object{"action": "tool:calc*"})
	blocked := calculate()
	if s := steps(blocked); blocked["status"] != "completed" || !strings.Contains(s, `"decision":"block"`) || !strings.Contains(s, "No sums today.") {
		t.Errorf("a blocked call: %v, %s", blocked["status"], s)
	}
	past := n.Expect(200, "GET", "/api/v1/governance/violations/"+agent, nil)
	if v := past["violations"].([]any)[0].(object); past["count"] != 1.0 || v["rule_id"] != "sums" || v["run_id"] != blocked["run_id"] {
		t.Errorf("violations: %v", past)
	}
	if all := n.Expect(200, "GET", "/api/v1/admin/audit?action=governance.blocked", nil); all["total"] != 1.0 {
		t.Errorf("the audit log: %v", all)
	}
	put(object{"action": "model:*"})
	if r := calculate(); r["status"] != "rejected" || r["error_code"] != "policy_blocked" {
		t.Errorf("a model that may not be called: %v", r)
	}
	put(object{"action": "tool:calculator", "penalty": "terminate_agent"})
	if r := calculate(); r["status"] != "failed" || r["error_code"] != "policy_blocked" {
		t.Errorf("a call that terminates: %v", r)
	}
	if a := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil); a["status"] != "suspended" || !strings.Contains(fmt.Sprint(a["status_reason"]), "No sums today.") {
		t.Errorf("the agent is %v: %v", a["status"], a["status_reason"])
	}
	n.Expect(200, "POST", "/api/v1/agents/"+agent+"/activate", nil)
	n.Expect(200, "POST", "/api/v1/governance/emergency/safe-mode", object{"reason": "a test"})
	if r := calculate(); r["status"] != "rejected" || r["error_code"] != "policy_blocked" || !strings.Contains(fmt.Sprint(r["error"]), "safe mode") {
		t.Errorf("safe mode: %v", r)
	}
	n.Expect(200, "POST", "/api/v1/governance/emergency/deactivate", nil)
	put(object{"action": "tool:calculator", "shadow": true})
	if r := calculate(); r["status"] != "completed" || !strings.Contains(steps(r), `"shadow":true`) {
		t.Errorf("a shadow rule: %v", r)
	}
	if v := n.Expect(200, "GET", "/api/v1/governance/ledger/verify", nil); v["valid"] != true || v["entries_checked"].(float64) < 10 {
		t.Errorf("the ledger: %v", v)
	}
}
