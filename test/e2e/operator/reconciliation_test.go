package operator

import (
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// The counters of real runs equal what the runs say; a change of a counter is found,
// by any way of asking, unless the operator takes it for small enough (rule D18-reconciliation).
func TestReconciliation(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "Done."}))
	n := apptest.Start(t, sim)
	ref := n.Expect(200, "GET", "/api/v1/llm/models", nil)["default_model"].(string)
	put(n, "pricing", object{"models": object{ref: object{"input_usd_per_mtok": 3, "output_usd_per_mtok": 15}}})
	agent := n.CreateAgent(nil)
	for range 3 {
		n.WaitRun(n.StartRun(agent, "Go.", nil))
	}
	const path = configPath + "reconciliation"
	if got := n.Expect(200, "GET", path, nil); got["last_result"] != nil || got["enabled"] != true || got["threshold_percent"] != 1.0 {
		t.Errorf("before: %v", got)
	}
	month := time.Now().UTC().Format("2006-01")
	tenant := n.TenantID()
	if r := n.Expect(200, "POST", path, object{"period": month}); r["complete"] != true || r["companies_drifting"] != 0.0 || r["companies_checked"] != 1.0 {
		t.Fatalf("%v", r)
	}
	one := "/api/v1/admin/reconciliation/" + tenant
	values := func() map[string]object {
		all := map[string]object{}
		for _, m := range n.Expect(200, "GET", one, nil)["reconciliation"].(object)["metrics"].([]any) {
			all[m.(object)["metric"].(string)] = m.(object)
		}
		return all
	}
	for name, m := range values() {
		if m["drift"] != 0.0 || m["counted"] == 0.0 && name != "tool_calls" || name == "runs" && m["of_runs"] != 3.0 {
			t.Errorf("%s: %v", name, m)
		}
	}
	// Somebody changes what a company is billed by, by a tenth.
	n.Admin().Exec(`UPDATE usage_entries SET input_tokens = input_tokens * 10 WHERE tenant_id = ?`, tenant)
	n.Admin().Exec(`UPDATE usage_counters SET input_tokens = input_tokens * 10 WHERE tenant_id = ?`, tenant)
	put(n, "reconciliation", object{"threshold_percent": 95, "interval_hours": 1, "enabled": false})
	if r := n.Expect(200, "POST", path, object{"period": month}); r["companies_drifting"] != 0.0 {
		t.Errorf("below the threshold: %v", r)
	}
	put(n, "reconciliation", object{"threshold_percent": nil})
	r := n.Expect(200, "POST", path, object{"period": month})
	if r["companies_drifting"] != 1.0 || r["drifting"].([]any)[0].(object)["worst"].(object)["metric"] != "input_tokens" {
		t.Errorf("%v", r)
	}
	if m := values()["input_tokens"]; m["exceeded"] != true || m["drift_percent"] != 90.0 {
		t.Errorf("%v", m)
	}
	if got := n.Expect(200, "GET", path, nil); got["last_result"].(object)["companies_drifting"] != 1.0 || got["interval_hours"] != 1.0 || got["enabled"] != false {
		t.Errorf("after: %v", got)
	}
	if metrics := string(n.Do("GET", "/metrics", nil).Body); !strings.Contains(metrics, "\nagentd_reconciliation_drifting_companies 1\n") {
		t.Error("the metric does not say so")
	}
	// One company, another period, without keeping it.
	if got := n.Expect(200, "GET", one+"?period=2020-01-31", nil)["reconciliation"].(object); got["runs_read"] != 0.0 || got["drift_exceeded"] != false {
		t.Errorf("%v", got)
	}
	if got := n.Expect(200, "GET", one, nil)["reconciliation"].(object)["period"]; got != month {
		t.Errorf("kept is %v", got)
	}
	n.Expect(404, "GET", "/api/v1/admin/reconciliation/nobody", nil)
	for _, period := range []string{"2999-01", "yesterday", "2026-13", "0000-01"} {
		n.Expect(422, "POST", path, object{"period": period})
		n.Expect(422, "GET", one+"?period="+period, nil)
	}
	refusedKeys(t, n, "reconciliation", map[string]string{`{"interval_hours":0}`: "interval_hours", `{"threshold_percent":0}`: "threshold_percent"})
}
