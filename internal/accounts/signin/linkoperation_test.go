package signin_test

import (
	"testing"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/signin"
	"agentd/internal/accounts/signin/signinsql"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// link makes a one-time link for a member.
func (b *bench) link(m identity.Grant) string {
	b.t.Helper()
	links := signin.OneTimeLinks{Store: signinsql.New(b.db), Box: b.box, Clock: b.clock, Audit: b.log}
	var token string
	err := b.db.Write(b.t.Context(), func(tx txn.Tx) (err error) {
		token, _, err = links.Create(tx, authz.Caller{UserID: "operator"}, identity.Member{TenantID: m.TenantID, UserID: m.UserID})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return token
}

// TestLinkOperation signs the owner of a company in who has no address: once, and not
// after 15 minutes.
func TestLinkOperation(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		g, err := b.people.Tenants.Create(t.Context(), "Acme", "")
		if err != nil {
			b.t.Fatal(err)
		}
		token := b.link(g)
		got, err := b.call(anybody, "POST", "/api/v1/auth/link", object{"body": object{"token": token, "device_label": "Laptop"}})
		if err != nil {
			b.t.Fatal(err)
		}
		if got.json["user"].(object)["user_id"] != g.UserID || got.json["mfa_required"] != false || got.json["api_key"] != nil {
			b.t.Error(got.json)
		}
		who, _, err := b.people.AuthenticateSession(b.t.Context(), got.cookie.Value)
		if err != nil || who.UserID != g.UserID || who.Role != authz.Owner || !who.SignedIn() {
			b.t.Errorf("signed in as %+v, %v", who, err)
		}
		if all, err := identitysql.New(b.db).ListSessions(b.t.Context(), g.TenantID, g.UserID); err != nil || len(all) != 1 || all[0].Label != "Laptop" {
			b.t.Error(all, err)
		}
		if b.log.has("auth.link_created operator") != 1 || b.log.has("auth.signed_in "+g.UserID+` {"method":"link"`) != 1 {
			b.t.Error(b.log.entries)
		}

		b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", "/api/v1/auth/link", object{"body": object{"token": token}}) // it is used up
		late := b.link(g)
		b.clock.Advance(15 * time.Minute)
		b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", "/api/v1/auth/link", object{"body": object{"token": late}})

		// A link of a suspended company is refused and stays.
		kept := b.link(g)
		b.sql(`UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`, g.TenantID)
		b.refused(fault.Forbidden, "TENANT_SUSPENDED", anybody, "POST", "/api/v1/auth/link", object{"body": object{"token": kept}})
		b.sql(`UPDATE tenants SET status = 'active' WHERE tenant_id = ?`, g.TenantID)
		b.must(anybody, "POST", "/api/v1/auth/link", object{"body": object{"token": kept}})
	})
}

// TestSessionOfKey turns a key into a cookie.
func TestSessionOfKey(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		g, err := b.people.Tenants.Create(t.Context(), "Acme", "ann@example.com")
		if err != nil {
			b.t.Fatal(err)
		}
		byKey, err := b.people.Authenticate(b.t.Context(), string(g.RawKey))
		if err != nil {
			b.t.Fatal(err)
		}
		got, err := b.call(byKey, "POST", "/api/v1/auth/session", object{"body": object{"device_label": "Laptop"}})
		if err != nil {
			b.t.Fatal(err)
		}
		who, _, err := b.people.AuthenticateSession(b.t.Context(), got.cookie.Value)
		if err != nil || who.UserID != g.UserID || !who.OfKey || got.json["api_key"] != nil {
			b.t.Errorf("signed in as %+v, %v: %v", who, err, got.json)
		}
		if all, err := identitysql.New(b.db).ListSessions(b.t.Context(), g.TenantID, g.UserID); err != nil || len(all) != 1 || all[0].Label != "Laptop" {
			b.t.Error(all, err)
		}
		b.refused(fault.Conflict, "ALREADY_SIGNED_IN", who, "POST", "/api/v1/auth/session", object{"body": object{}})
	})
}

// TestMethods lists what a page for signing in can offer.
func TestMethods(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		got, err := b.call(anybody, "GET", "/api/v1/auth/methods", object{})
		if err != nil {
			b.t.Fatal(err)
		}
		if providers := got.json["providers"].([]any); len(providers) != 2 || got.json["email_code"] != true || got.json["signup"] != true {
			b.t.Error(got.json)
		}
		b.post.none = true
		if got, err = b.call(anybody, "GET", "/api/v1/auth/methods", object{}); err != nil || got.json["email_code"] != false || got.json["link"] != true {
			b.t.Error(got.json, err)
		}
	}, provider, signup)
}
