package contracttest

import (
	"strings"

	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
)

// OpensByLink are operations that a secret link authorizes: without the secret the
// ID opens nothing. TestInvites and TestSensors prove it. Cards of public agents are for
// everyone (TestA2ACards).
var OpensByLink = map[string]bool{"acceptInvite": true, "sensorWebhook": true,
	"getAgentCard": true, "getAgentCardByNewPath": true, "getAgentCardOfAgent": true}

// BrowserOnly are operations that no key can do, which TestPeople and TestTrashOfPeople
// do, and one that is off until the operator switches it on (TestRunCommand).
var BrowserOnly = map[string]bool{
	"switchTenant": true, "listWorkspaceTrash": true, "emptyWorkspaceTrash": true, "restoreWorkspaceTrash": true, "runWorkspaceCommand": true,
}

// NeedsWorld reports whether success needs more than a company and its keys: a
// mailbox, a browser, a provider, a phone. The tests of signing in cover those.
func (o *Operation) NeedsWorld() bool {
	return o.Public || o.NeedsPerson || o.Operator || BrowserOnly[o.ID] || strings.HasPrefix(o.Path, "/api/v1/auth/") ||
		strings.Contains(o.Path, "/auth-providers/")
}

// RateLimited reports whether an answer is the refusal of an operation that has a
// rate limit of its own.
func (o *Operation) RateLimited(r apptest.Reply) bool {
	return r.StatusCode == 429 && len(o.Limits) > 0
}

// createPeople creates members and invites, and sets the owner's email.
func (c *Company) createPeople(add func(parameter, id string)) {
	c.T.Helper()
	tenant, user := c.Me()
	c.Admin().Exec(`UPDATE users SET email = ?, email_verified = ? WHERE user_id = ? AND email = ''`, c.Mark+"@example.com", true, user)
	add("tenantId", tenant)
	for _, name := range []string{"first", "second"} {
		g, err := c.Admin().Keys.Grant(c.T.Context(), tenant, authz.Viewer, nil, c.Mark+name, c.Mark+name+"@example.com")
		if err != nil {
			c.T.Fatal(err)
		}
		add("userId", g.UserID)
		id, _ := c.Admin().StoreInvite(tenant, user, c.Mark+"-invited-"+name+"@example.com")
		add("inviteId", id)
	}
}

// storeInvite is an invite that can be sent again.
func (c *Company) storeInvite(call *Call) {
	tenant, user := c.Me()
	call.Path["inviteId"], _ = c.Admin().StoreInvite(tenant, user, ident.New()+"@example.com")
}

// storeInviteWithToken is an invite with its link.
func (c *Company) storeInviteWithToken(call *Call) {
	tenant, user := c.Me()
	id, token := c.Admin().StoreInvite(tenant, user, ident.New()+"@example.com")
	call.Path["inviteId"], call.Body.(apptest.Object)["token"] = id, token
}

// inviteOwner is an invite to the owner of the company from another.
func (c *Company) inviteOwner(call *Call) {
	c.T.Helper()
	host, err := c.Admin().Tenants.Create(c.T.Context(), "Host of "+c.Mark, "")
	if err != nil {
		c.T.Fatal(err)
	}
	call.Path["tenantId"] = host.TenantID
	call.Path["inviteId"], _ = c.Admin().StoreInvite(host.TenantID, host.UserID, c.email())
}

// joinTenant is another company of which the owner of the company is a member.
func (c *Company) joinTenant(call *Call) {
	c.T.Helper()
	host, err := c.Admin().Tenants.Create(c.T.Context(), "Host of "+c.Mark, "")
	if err != nil {
		c.T.Fatal(err)
	}
	if _, err := c.Admin().Keys.Grant(c.T.Context(), host.TenantID, authz.Viewer, nil, "k", c.email()); err != nil {
		c.T.Fatal(err)
	}
	call.Path["tenantId"] = host.TenantID
}

func (c *Company) email() string {
	c.T.Helper()
	return c.Expect(200, "GET", "/api/v1/me", nil)["user"].(apptest.Object)["email"].(string)
}

func erasesMember(c *Company) apptest.Object {
	return apptest.Object{"subject_id": c.IDs["userId"][0], "dry_run": true}
}

func loginProvider(*Company) apptest.Object {
	return apptest.Object{"client_id": "a client", "client_secret": "a secret", "issuer": "https://id.example.com"}
}

// needsPerson are operations that need what a person has in a letter, in an app or
// from a provider. TestSignIn and its neighbours do them.
var needsPerson = map[string]bool{
	"requestOtpCode": true, "verifyOtpCode": true, "signInWithLink": true, "register": true, "verifyEmail": true,
	"startOAuthLogin": true, "completeOAuthLogin": true, "exchangeOAuthAppCode": true, "googleOneTapAuth": true,
	"showNotificationConfirmation": true, "confirmNotificationTarget": true,
	"showNotificationUnsubscribe": true, "unsubscribeNotifications": true,
	"completeIntegrationOAuth": true,
	"verifyMfa":                true, "verifyMfaRecovery": true, "disableMfa": true,
	// What visitors do needs the token of a session, and payments need Stripe: test/e2e/public
	// does them.
	"getPublicAgentCard": true, "getPublicSession": true, "sendPublicMessage": true, "streamPublicSessionEvents": true, "respondToPublicHitl": true,
	"cancelPublicRun": true, "uploadPublicImage": true, "reportPublicSession": true, "getPublicFileContent": true,
	"createCheckoutSession": true, "createBillingPortalSession": true, "handleStripeWebhook": true, "testAdminStripeConfig": true,
	"createPlanStripePrice": true,
}

// createKeys makes two keys, and two of each thing that keeps a credential of the company.
func createKeys(c *Company, add func(parameter, id string)) {
	c.T.Helper()
	for _, name := range []string{" first", " second"} {
		made := c.Expect(201, "POST", "/api/v1/tenants/me/keys", apptest.Object{"name": c.Mark + name})
		add("keyId", made["key_id"].(string))
		guard := c.Expect(201, "POST", "/api/v1/guardrails", apptest.Object{
			"name": c.Mark + name, "webhook_url": "https://example.com/" + c.Mark, "phase": "both", "secret": c.Mark,
		}, "Idempotency-Key", "made-once"+strings.TrimSpace(name))
		add("guardrailId", guard["guardrail_id"].(string))
		add("a2aCredentialId", c.Expect(201, "POST", "/api/v1/a2a/credentials", apptest.Object{
			"name": c.Mark + name, "url": "https://example.com/" + c.Mark, "token": c.Mark})["credential_id"].(string))
	}
}
