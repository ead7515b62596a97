package operator

import (
	"net/url"
	"testing"
	"time"

	"agentd/internal/app/apptest"
)

// The operator reads a company's chained record, by what and when, and learns whether it
// was changed; nobody else does.
func TestImmutableAudit(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	id, acme := n.CreateTenant(object{"name": "Acme"})
	acme.Expect(200, "POST", "/api/v1/governance/emergency/safe-mode", object{"reason": "a test"})
	acme.Expect(200, "POST", "/api/v1/governance/emergency/deactivate", nil)
	const path = "/api/v1/admin/immutable-audit"
	of := path + "?tenant_id=" + id

	all := n.Expect(200, "GET", of+"&verify=true", nil)
	entries := all["entries"].([]any)
	if len(entries) < 2 || all["total"] != float64(len(entries)) || all["chain"].(object)["valid"] != true || all["truncated"] != false {
		t.Fatalf("%v", all)
	}
	newest, next := entries[0].(object), entries[1].(object)
	if newest["prev_hmac"] != next["hmac"] || newest["tenant_id"] != id || newest["actor_user_id"] == nil {
		t.Errorf("%v after %v", newest, next)
	}
	kind := next["event_type"].(string)
	some := n.Expect(200, "GET", of+"&event="+kind, nil)
	if found := some["entries"].([]any); len(found) != 1 || found[0].(object)["event_id"] != next["event_id"] || some["chain"] != nil {
		t.Errorf("%v", some)
	}
	if one := n.Expect(200, "GET", of+"&limit=1", nil); one["total"] != 1.0 || one["truncated"] != true {
		t.Errorf("%v", one)
	}
	later := url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339))
	for query, want := range map[string]float64{
		"&from=" + later: 0, "&to=" + later: float64(len(entries)), "&to=2020-01-01T00:00:00Z": 0, "&from=2020-01-01T00:00:00Z": float64(len(entries)),
		"&agent_id=0199a3b0-0000-7000-8000-000000000000": 0,
	} {
		if got := n.Expect(200, "GET", of+query, nil); got["total"] != want {
			t.Errorf("%s: %v, want %v", query, got["total"], want)
		}
	}
	n.Expect(400, "GET", path, nil)
	n.Expect(404, "GET", path+"?tenant_id=0199a3b0-0000-7000-8000-000000000000", nil)
	acme.Expect(403, "GET", of, nil)

	n.Admin().Exec(`UPDATE ledger SET details = '{"reason":"another"}' WHERE tenant_id = ? AND seq = 1`, id)
	if chain := n.Expect(200, "GET", of+"&verify=true", nil)["chain"].(object); chain["valid"] != false || chain["first_invalid_seq"] != 1.0 {
		t.Errorf("%v", chain)
	}
}
