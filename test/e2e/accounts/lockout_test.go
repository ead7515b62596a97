package accounts

import (
	"testing"

	"agentd/internal/accounts/identity"
	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
)

// Whoever is locked out while keys of theirs are in use stays in for a second
// at most, and a revoked key not even that.
func TestLockout(t *testing.T) {
	t.Parallel()
	g := apptest.StartWithRoles(t)
	for _, c := range []struct {
		name string
		lock func(identity.Grant)
		code string
	}{
		{"revoked", func(k identity.Grant) {
			g.WithKey(string(k.RawKey)).Expect(200, "DELETE", "/api/v1/tenants/me/keys/"+k.KeyID, nil)
		}, "AUTH_ERROR"},
		{"suspended_member", func(k identity.Grant) {
			g.Admin.Exec(`UPDATE users SET status = 'suspended' WHERE user_id = ?`, k.UserID)
		}, "MEMBER_SUSPENDED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := g.Admin.CreateKey(g.Tenant, authz.Admin, authz.Wildcard)
			n := g.WithKey(string(key.RawKey))
			n.Expect(200, "GET", "/api/v1/me", nil)
			c.lock(key)
			if c.code == "AUTH_ERROR" { // at once, however often it was used
				apptest.CheckCode(t, n.Do("GET", "/api/v1/me", nil), 401, c.code)
				return
			}
			apptest.Eventually(t, func() bool { return n.Do("GET", "/api/v1/me", nil).JSON["code"] == c.code })
		})
	}
}
