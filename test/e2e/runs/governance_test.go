package runs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
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

// Runs are within the permission set of their agent, at every act.
func TestPermissionsOfARun(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	agent := n.CreateAgent(object{"model": apptest.EchoModel, "built_in_tools": []string{"calculator"}})
	put := func(body object) {
		t.Helper()
		n.Expect(200, "PUT", "/api/v1/governance/permissions/"+agent, body)
	}
	calculate := func() (r object, steps string) {
		t.Helper()
		r = n.WaitRun(n.StartRun(agent, "calculate 6*7", nil))
		return r, string(n.Do("GET", "/api/v1/runs/"+r["run_id"].(string)+"/steps", nil).Body)
	}
	put(object{"allowed_tools": []string{"http_fetch"}})
	if r, s := calculate(); r["status"] != "completed" || !strings.Contains(s, "may not use the tool calculator") || !strings.Contains(s, `"rule_id":"permission-set"`) {
		t.Errorf("a tool that is not allowed: %v, %s", r["status"], s)
	}
	put(object{"allowed_tools": []string{"*"}})
	r, s := calculate()
	if r["status"] != "completed" || strings.Contains(s, "rulings") || r["resource_limits"].(object)["max_cost_usd"] != 1.0 {
		t.Errorf("a tool that is allowed: %v, %s", r, s)
	}
	put(object{"max_budget_per_run_usd": 0.25})
	if r, _ := calculate(); r["resource_limits"].(object)["max_cost_usd"] != 0.25 {
		t.Errorf("the budget: %v", r["resource_limits"])
	}
	n.Expect(200, "PUT", "/api/v1/governance/constitution", object{"rules": []object{
		{"rule_id": "sums", "principle": "No sums today.", "action": "tool:calculator", "penalty": "revoke_permissions"},
	}})
	if r, s := calculate(); r["status"] != "failed" || r["error_code"] != "policy_blocked" || !strings.Contains(s, `"decision":"revoke_permissions"`) {
		t.Errorf("a call that revokes: %v, %s", r, s)
	}
	if r, _ := calculate(); r["status"] != "rejected" || r["error_code"] != "policy_blocked" || !strings.Contains(fmt.Sprint(r["error"]), "under a sanction") {
		t.Errorf("under a sanction: %v", r)
	}
	n.Expect(200, "POST", "/api/v1/governance/constitution/amend", object{"rule_id": "sums", "action": "remove"})
	put(object{"sanction": nil})
	if r, _ := calculate(); r["status"] != "completed" {
		t.Errorf("after the sanction: %v", r)
	}
	proposal := n.Expect(201, "POST", "/api/v1/governance/voting/proposals", object{
		"title": "No tools", "proposal_type": "permission_change", "payload": object{"agent_id": agent, "allowed_tools": []string{}},
	})["id"].(string)
	n.Expect(201, "POST", "/api/v1/governance/voting/proposals/"+proposal+"/ballot", object{"vote": "yes"})
	n.Expect(200, "POST", "/api/v1/governance/voting/proposals/"+proposal+"/tally", nil)
	if _, s := calculate(); !strings.Contains(s, "may not use the tool calculator") {
		t.Errorf("after the vote: %s", s)
	}
	own := n.Expect(201, "POST", "/api/v1/governance/voting/proposals", object{
		"title": "All tools", "proposal_type": "permission_change", "proposer_agent_id": agent,
		"payload": object{"agent_id": agent, "allowed_tools": []string{"*"}},
	})["id"].(string)
	n.Expect(201, "POST", "/api/v1/governance/voting/proposals/"+own+"/ballot", object{"vote": "yes"})
	if got := n.Do("POST", "/api/v1/governance/voting/proposals/"+own+"/tally", nil); got.StatusCode != 403 || got.JSON["code"] != "SELF_MODIFICATION_DENIED" {
		t.Errorf("an agent changes its own permissions: %d %s", got.StatusCode, got.Body)
	}
	if got := n.Do("POST", "/api/v1/governance/voting/proposals", object{
		"title": "Nonsense", "proposal_type": "permission_change", "payload": object{"agent_id": agent, "can_spawn": 1},
	}); got.StatusCode != 422 || !strings.Contains(string(got.Body), "payload.can_spawn") {
		t.Errorf("an invalid change: %d %s", got.StatusCode, got.Body)
	}
	if got := n.Expect(200, "POST", "/api/v1/agents/"+agent+"/terminate", nil); got["deleted"] != true || got["agent_id"] != agent {
		t.Errorf("terminated: %v", got)
	}
	for _, path := range []string{"", "/identity", "/capabilities"} {
		n.Expect(404, "GET", "/api/v1/agents/"+agent+path, nil)
	}
	n.Expect(404, "POST", "/api/v1/agents/"+agent+"/terminate", nil)
}

// With governance off its operations say so before they look at what was sent.
func TestGovernanceOff(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil, func(c *config.Config) { c.Governance.Governance = "off" })
	id := n.CreateAgent(nil)
	param := regexp.MustCompile(`\{[^}]*\}`)
	asked := 0
	for path, of := range n.Expect(200, "GET", "/api/v1/openapi.json", nil)["paths"].(object) {
		for method, o := range of.(object) {
			op := o.(object)
			if !slices.Contains(op["tags"].([]any), any("Governance")) && !strings.HasSuffix(path, "/fria") && !strings.HasSuffix(path, "/risk-classification") {
				continue
			}
			asked++
			var body any
			if method != "get" && method != "delete" {
				body = `{"nonsense":[` // no JSON at all
			}
			if got := n.Expect(501, strings.ToUpper(method), param.ReplaceAllString(path, id), body); got["code"] != "governance_not_enabled" {
				t.Errorf("%s %s: %v", method, path, got)
			}
		}
	}
	if asked < 50 {
		t.Errorf("%d operations of governance", asked)
	}
}
