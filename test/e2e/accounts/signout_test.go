package accounts

import (
	"testing"

	"agentd/internal/accounts/identity"
	"agentd/internal/app/apptest"
)

// The end of a browser session is in the audit log: who ended it, from which one.
func TestEndsOfSessionsAreAudited(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		tenant, user := n.Me()
		a := n.Admin()
		first, cookie := a.OpenBrowserSession(tenant, user, identity.Device{})
		second, _ := a.OpenBrowserSession(tenant, user, identity.Device{})
		expectWithCookie(n, t, cookie, 200, "DELETE", "/api/v1/me/sessions/"+second, "")
		expectWithCookie(n, t, cookie, 200, "POST", "/api/v1/auth/logout", "")
		for action, target := range map[string]string{"auth.session_ended": second, "auth.signed_out": first} {
			page := n.Expect(200, "GET", "/api/v1/admin/audit?action="+action, nil)
			entries := page["entries"].([]any)
			if len(entries) != 1 {
				t.Fatalf("%s: %v", action, page)
			}
			if e := entries[0].(object); e["target_id"] != target || e["actor_session_id"] != first || e["actor_user_id"] != user || e["ip_address"] == nil {
				t.Errorf("%s: %v", action, e)
			}
		}
	})
}
