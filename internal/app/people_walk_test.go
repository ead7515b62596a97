package app_test

import (
	"crypto/sha256"
	"strings"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
)

// opensByLink are operations for whoever has a link: what the id names shows
// only to the secret beside it. TestInvites and TestSensors prove it.
var opensByLink = map[string]bool{"acceptInvite": true, "sensorWebhook": true}

// browserOnly are operations that no key can do. TestPeople does them.
var browserOnly = map[string]bool{"switchTenant": true}

// worldly says of the operations whose success needs more of the world than a
// company with its keys: a mailbox, a browser, a provider, a phone. The tests
// of signing in do them.
func (o *operation) worldly() bool {
	return o.Public || o.Operator || browserOnly[o.ID] || strings.HasPrefix(o.Path, "/api/v1/auth/") || strings.Contains(o.Path, "/auth-providers/")
}

// tired says whether an operation was refused because it may be called only so
// often, whatever is sent to it.
func (o *operation) tired(r reply) bool { return r.StatusCode == 429 && len(o.Limits) > 0 }

// populate gives a company members, invites, and its owner an email.
func (c *company) populate(add func(parameter, id string)) {
	c.t.Helper()
	tenant, user := c.me()
	c.admin().exec(`UPDATE users SET email = ?, email_verified = ? WHERE user_id = ? AND email = ''`, c.mark+"@example.com", true, user)
	add("tenantId", tenant)
	for _, name := range []string{"first", "second"} {
		g, err := c.admin().GrantKey(c.t.Context(), tenant, authz.Viewer, nil, c.mark+name, c.mark+name+"@example.com")
		if err != nil {
			c.t.Fatal(err)
		}
		add("userId", g.UserID)
		id, _ := c.admin().invite(tenant, user, c.mark+"-invited-"+name+"@example.com")
		add("inviteId", id)
	}
}

// invite stores an invite whose link was never shown, and gives its token.
func (a *admin) invite(tenant, by, email string) (id, token string) {
	a.tb.Helper()
	id, token = ident.New(), ident.New()
	now := time.Now()
	err := a.db.Write(a.tb.Context(), func(tx txn.Tx) error {
		return identitysql.NewPeople(a.db).AddInvite(tx, identity.Invite{
			TenantID: tenant, InviteID: id, Email: email, Role: authz.Viewer, Status: identity.Pending, InvitedBy: by,
			Secret: sha256.Sum256([]byte(token)), CreatedAt: now, SentAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour),
		})
	})
	if err != nil {
		a.tb.Fatal(err)
	}
	return id, token
}

// sendable is an invite that can be sent again.
func (c *company) sendable(call *call) {
	tenant, user := c.me()
	call.path["inviteId"], _ = c.admin().invite(tenant, user, ident.New()+"@example.com")
}

// opened is an invite with its link.
func (c *company) opened(call *call) {
	tenant, user := c.me()
	id, token := c.admin().invite(tenant, user, ident.New()+"@example.com")
	call.path["inviteId"], call.body.(object)["token"] = id, token
}

// invited is an invite to the owner of the company from another.
func (c *company) invited(call *call) {
	c.t.Helper()
	host, err := c.admin().CreateTenant(c.t.Context(), "Host of "+c.mark, "")
	if err != nil {
		c.t.Fatal(err)
	}
	call.path["tenantId"] = host.TenantID
	call.path["inviteId"], _ = c.admin().invite(host.TenantID, host.UserID, c.email())
}

// guest is another company of which the owner of the company is a member.
func (c *company) guest(call *call) {
	c.t.Helper()
	host, err := c.admin().CreateTenant(c.t.Context(), "Host of "+c.mark, "")
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.admin().GrantKey(c.t.Context(), host.TenantID, authz.Viewer, nil, "k", c.email()); err != nil {
		c.t.Fatal(err)
	}
	call.path["tenantId"] = host.TenantID
}

func (c *company) email() string {
	c.t.Helper()
	return c.want(200, "GET", "/api/v1/me", nil)["user"].(object)["email"].(string)
}
