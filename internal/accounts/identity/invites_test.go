package identity_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// The whole life of an invite that is mailed.
func TestInviteByMail(t *testing.T) {
	eachTown(t, func(w *town) {
		owner := w.tenant("Acme", "owner@example.com")
		admin, _ := w.member(owner, authz.Admin, "admin@example.com")
		made := w.ok(admin, "POST /users/invites", `{"email":"New@Example.com","role":"developer"}`)
		id := made["id"].(string)
		w.same(made, map[string]any{
			"id": id, "tenant_id": owner.TenantID, "email": "new@example.com", "role": "developer", "status": "pending",
			"invited_by": admin.UserID, "expires_at": "2026-09-17T12:00:00Z", "created_at": "2026-09-10T12:00:00Z", "email_sent": true,
		})
		letter := w.letters[0]
		first := w.token()
		if letter.To != "new@example.com" || !strings.Contains(letter.Subject, "Acme") ||
			!strings.Contains(letter.Text, "https://agents.example.com/invite?") {
			t.Errorf("letter %+v", letter)
		}
		for body, code := range map[string]string{
			`{"email":"new@example.com","role":"viewer"}`:   "ALREADY_EXISTS", // a live invite
			`{"email":"ADMIN@example.com","role":"viewer"}`: "ALREADY_EXISTS", // a member
		} {
			w.refused(admin, "POST /users/invites", body, fault.Conflict, code)
		}
		w.refused(admin, "POST /users/invites", `{"email":"x@example.com","role":"owner"}`, fault.Forbidden, "FORBIDDEN")
		w.refused(owner, "POST /users/invites", `{"email":"x@example.com","role":"owner"}`, fault.Forbidden, "FORBIDDEN")
		for _, body := range []string{
			`{"email":"nonsense","role":"viewer"}`, `{"email":"","role":"viewer"}`, `{"role":"viewer"}`, `{"email":"x@example.com"}`,
			`{"email":"Bob <bob@example.com>","role":"viewer"}`,
		} {
			w.refused(admin, "POST /users/invites", body, fault.Invalid, "VALIDATION_ERROR")
		}

		w.refused(admin, "POST /users/invites/"+id+"/resend", "", fault.Limited, "rate_limit_exceeded")
		w.pass(time.Minute)
		again := w.ok(admin, "POST /users/invites/"+id+"/resend", "")
		if again["ok"] != true || again["resent"] != true || again["email_sent"] != true || again["invite_url"] != nil {
			t.Errorf("resent %v", again)
		}
		w.same(again["invite"].(map[string]any)["expires_at"], "2026-09-17T12:01:00Z")
		token := w.token()

		anybody := authz.Caller{Address: "192.0.2.1", RequestID: "r1"}
		accept := "POST /users/invites/" + id + "/accept"
		w.refused(anybody, accept, fmt.Sprintf(`{"token":%q}`, first), fault.Forbidden, "FORBIDDEN")
		w.refused(anybody, accept, `{"token":""}`, fault.Forbidden, "FORBIDDEN")
		w.refused(anybody, "POST /users/invites/01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f10/accept", fmt.Sprintf(`{"token":%q}`, token), fault.NotFound,
			"NOT_FOUND")
		w.refused(anybody, accept, fmt.Sprintf(`{"token":%q,"name":" "}`, token), fault.Invalid, "VALIDATION_ERROR")
		joined, cookie, err := w.full(anybody, accept, fmt.Sprintf(`{"token":%q,"name":" Newton "}`, token))
		if err != nil || cookie != nil {
			t.Fatal(err, cookie)
		}
		w.same(joined, map[string]any{"accepted": true, "user_id": joined["user_id"], "tenant_id": owner.TenantID, "role": "developer"})
		w.refused(anybody, accept, fmt.Sprintf(`{"token":%q}`, token), fault.Conflict, "INVALID_STATE_TRANSITION")
		w.refused(admin, "DELETE /users/invites/"+id, "", fault.Conflict, "INVALID_STATE_TRANSITION")
		w.refused(admin, "POST /users/invites/"+id+"/resend", "", fault.Conflict, "INVALID_STATE_TRANSITION")
		w.same(w.ok(admin, "GET /users/invites", "")["total"], 0.0)

		user := w.ok(owner, "GET /users/"+joined["user_id"].(string), "")
		w.same([]any{user["email"], user["name"], user["role"]}, []any{"new@example.com", "Newton", "developer"})
		w.same(w.joined, []identity.Joined{{
			TenantID: owner.TenantID, Inviter: admin.UserID, UserID: joined["user_id"].(string), Name: "Newton", Email: "new@example.com",
			Role: "developer",
		}})
		w.same(w.log, []string{"invite.created", "invite.resent", "invite.accepted"})
	})
}

func TestInvitesEnd(t *testing.T) {
	eachTown(t, func(w *town) {
		owner, other := w.tenant("Acme", "owner@example.com"), w.tenant("Other", "ann@example.com")
		invite := func(email string) (id, token string) {
			return w.ok(owner, "POST /users/invites", fmt.Sprintf(`{"email":%q,"role":"admin"}`, email))["id"].(string), w.token()
		}
		accept := func(id, token string, kind fault.Kind, code string) {
			t.Helper()
			w.refused(authz.Caller{}, "POST /users/invites/"+id+"/accept", fmt.Sprintf(`{"token":%q}`, token), kind, code)
		}
		id, token := invite("a@example.com")
		for _, request := range []string{"DELETE /users/invites/" + id, "POST /users/invites/" + id + "/resend"} {
			w.refused(other, request, "", fault.NotFound, "NOT_FOUND")
		}
		w.ok(owner, "DELETE /users/invites/"+id, "")
		w.ok(owner, "DELETE /users/invites/"+id, "") // is no error
		accept(id, token, fault.Conflict, "INVALID_STATE_TRANSITION")

		id, token = invite("a@example.com") // there is room again
		w.pass(7 * 24 * time.Hour)
		accept(id, token, fault.Gone, "GONE")
		w.same(w.ok(owner, "GET /users/invites", "")["items"], []any{})
		w.ok(owner, "POST /users/invites/"+id+"/resend", "") // has another week
		accept(id, token, fault.Forbidden, "FORBIDDEN")
		w.pass(7 * 24 * time.Hour)
		invite("a@example.com")
		w.refused(owner, "POST /users/invites/"+id+"/resend", "", fault.Conflict, "INVALID_STATE_TRANSITION") // it has expired for good

		// Only the invited person can accept, and not in a suspended tenant.
		invite("ann@example.com")
		path := pendingPath(w.ok(other, "GET /me/tenants", ""))
		stranger := w.tenant("Third", "eve@example.com")
		w.refused(stranger, "POST "+path+"/accept", "", fault.Forbidden, "FORBIDDEN")
		w.refused(stranger, "POST "+path+"/decline", "", fault.Forbidden, "FORBIDDEN")
		nameless := w.tenant("Fourth", "")
		w.refused(nameless, "POST "+path+"/accept", "", fault.Forbidden, "FORBIDDEN")
		sql(t, w.db, `UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`, owner.TenantID)
		w.refused(other, "POST "+path+"/accept", "", fault.Forbidden, "TENANT_SUSPENDED")
		w.same(w.ok(other, "GET /me/tenants", "")["pending_invites"], []any{})
		sql(t, w.db, `UPDATE tenants SET status = 'active' WHERE tenant_id = ?`, owner.TenantID)
		w.refused(other, "POST "+path+"/accept", `{"name":"\u0007"}`, fault.Invalid, "VALIDATION_ERROR")
		got := w.ok(other, "POST "+path+"/decline", "")
		if got["declined"] != true {
			t.Error(got)
		}
		w.refused(other, "POST "+path+"/accept", "", fault.Conflict, "INVALID_STATE_TRANSITION")

		// A member who was made in between is not made again.
		id, token = invite("bob@example.com")
		w.member(owner, authz.Viewer, "bob@example.com")
		accept(id, token, fault.Conflict, "ALREADY_EXISTS")
	})
}

// An inviter cannot become the invited person: a link that was shown to the
// inviter does not verify the email.
func TestAShownLinkProvesNoEmail(t *testing.T) {
	eachTown(t, func(w *town) {
		w.mailing = false
		victim := w.tenant("Bank", "victim@example.com")
		w.agents["01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f10"] = victim.TenantID
		attacker := w.tenant("Trap", "attacker@example.com")
		host := w.tenant("Host", "host@example.com")
		w.ok(host, "POST /users/invites", `{"email":"victim@example.com","role":"admin"}`)
		pending := pendingPath(w.ok(victim, "GET /me/tenants", ""))

		made := w.ok(attacker, "POST /users/invites", `{"email":"victim@example.com","role":"admin"}`)
		if made["email_sent"] != false || len(w.letters) > 0 {
			t.Errorf("a letter without mail: %v", made)
		}
		token := linkToken(t, made["invite_url"].(string))
		joined, cookie, err := w.full(authz.Caller{}, "POST /users/invites/"+made["id"].(string)+"/accept", fmt.Sprintf(`{"token":%q}`, token))
		if err != nil || cookie == nil || cookie.Name != identity.SessionCookieName {
			t.Fatal(err, cookie)
		}
		session := cookie.Value
		eve := w.browser(session)
		if eve.UserID != joined["user_id"] || eve.Role != authz.Admin {
			t.Errorf("caller %+v", eve)
		}
		mine := w.ok(eve, "GET /me/tenants", "")
		w.same(names(mine["memberships"], "name"), []string{"Trap"})
		w.same(mine["pending_invites"], []any{})
		w.same(w.ok(eve, "GET /me", "")["memberships"], []any{map[string]any{"tenant_id": attacker.TenantID, "user_id": eve.UserID}})
		w.refused(eve, "GET /me/agents/01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f10/locate", "", fault.NotFound, "NOT_FOUND")
		w.refused(eve, "POST /me/tenants/switch", fmt.Sprintf(`{"tenant_id":%q}`, victim.TenantID), fault.NotFound, "NOT_FOUND")
		w.refused(eve, "DELETE /me/memberships/"+victim.TenantID, "", fault.NotFound, "NOT_FOUND")
		w.refused(eve, "POST "+pending+"/accept", "", fault.Forbidden, "FORBIDDEN")
		w.refused(eve, "POST "+pending+"/decline", "", fault.Forbidden, "FORBIDDEN")
		w.refused(eve, "POST /me/tenants/create", `{"name":"Mine"}`, fault.Forbidden, "USER_REQUIRED")
		// Nor does the victim find anything of the trap.
		w.same(names(w.ok(victim, "GET /me/tenants", "")["memberships"], "name"), []string{"Bank"})

		// Once the victim shows that the address is theirs, it is their
		// membership, and its previous user is signed out.
		key := w.ok(eve, "POST /tenants/me/keys", `{"name":"k"}`)["raw_key"].(string)
		if err := w.db.Write(t.Context(), func(tx txn.Tx) error { return w.people.Prove(tx, "victim@example.com") }); err != nil {
			t.Fatal(err)
		}
		_, _, err = w.AuthenticateSession(t.Context(), session)
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
		_, err = w.Authenticate(t.Context(), key)
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
		w.same(names(w.ok(victim, "GET /me/tenants", "")["memberships"], "name"), []string{"Bank", "Trap"})
	})
}

func TestInvitesAreBounded(t *testing.T) {
	eachTown(t, func(w *town) {
		owner := w.tenant("Acme", "owner@example.com")
		for i := range 200 {
			w.ok(owner, "POST /users/invites", fmt.Sprintf(`{"email":"i%d@example.com","role":"viewer"}`, i))
		}
		w.refused(owner, "POST /users/invites", `{"email":"x@example.com","role":"viewer"}`, fault.Invalid, "limit_reached")
	})
}
