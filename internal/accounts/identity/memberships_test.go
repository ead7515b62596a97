package identity_test

import (
	"fmt"
	"strings"
	"testing"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
)

func TestMyTenants(t *testing.T) {
	eachTown(t, func(w *town) {
		ann := w.tenant("Acme", "ann@example.com")
		bob := w.tenant("Bobs", "bob@example.com")
		w.ok(bob, "POST /users/invites", `{"email":"ann@example.com","role":"viewer"}`)
		mine := w.ok(ann, "GET /me/tenants", "")
		invite := mine["pending_invites"].([]any)[0].(map[string]any)
		w.same(mine, map[string]any{
			"user_id": ann.UserID, "email": "ann@example.com",
			"memberships": []any{map[string]any{
				"tenant_id": ann.TenantID, "user_id": ann.UserID, "name": "Acme", "slug": "acme", "plan": "self_hosted", "logo_url": nil,
				"role": "owner", "is_sole_owner": true, "member_count": 1.0, "joined_at": "2026-09-10T12:00:00Z", "accessible": true,
			}},
			"pending_invites": []any{map[string]any{
				"invite_id": invite["invite_id"], "tenant_id": bob.TenantID, "tenant_name": "Bobs", "role": "viewer",
				"expires_at": "2026-09-17T12:00:00Z", "invited_by_name": "bob",
			}},
		})
		joined := w.ok(ann, "POST "+pendingPath(mine)+"/accept", `{"name":"Annie"}`)
		mine = w.ok(ann, "GET /me/tenants", "")
		w.same(names(mine["memberships"], "name"), []string{"Acme", "Bobs"})
		w.same(names(mine["memberships"], "member_count"), []string{"1", "2"})
		w.same(names(mine["memberships"], "is_sole_owner"), []string{"true", "false"})
		w.same(w.ok(ann, "GET /me", "")["memberships"], []any{
			map[string]any{"tenant_id": ann.TenantID, "user_id": ann.UserID},
			map[string]any{"tenant_id": bob.TenantID, "user_id": joined["user_id"]},
		})
		w.same(w.ok(bob, "GET /users/"+joined["user_id"].(string), "")["name"], "Annie")

		const agent = "01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f10"
		w.agents[agent] = bob.TenantID
		w.same(w.ok(ann, "GET /me/agents/"+agent+"/locate", ""), map[string]any{"tenant_id": bob.TenantID})
		w.ok(bob, "PUT /users/"+joined["user_id"].(string)+"/suspend", "")
		w.refused(ann, "GET /me/agents/"+agent+"/locate", "", fault.NotFound, "NOT_FOUND")
		w.same(names(w.ok(ann, "GET /me/tenants", "")["memberships"], "accessible"), []string{"true", "false"})
	})
}

func TestCreateAndLeave(t *testing.T) {
	eachTown(t, func(w *town) {
		ann := w.tenant("Acme", "ann@example.com")
		made := w.ok(ann, "POST /me/tenants/create", `{"name":" Second  ","slug":"second-1"}`)
		w.same(made, map[string]any{
			"created": true, "tenant_id": made["tenant_id"], "name": "Second", "slug": "second-1", "role": "owner", "user_id": made["user_id"],
		})
		if third := w.ok(ann, "POST /me/tenants/create", `{"name":"Acme"}`); !strings.HasPrefix(third["slug"].(string), "acme-") {
			t.Errorf("slug %v", third["slug"])
		}
		w.refused(ann, "POST /me/tenants/create", `{"name":"X","slug":"acme"}`, fault.Conflict, "ALREADY_EXISTS")
		for _, body := range []string{`{}`, `{"name":" "}`, `{"name":"X","slug":"-x"}`, `{"name":"X","slug":"Ä"}`, `{"name":"X","slug":"a--b"}`} {
			w.refused(ann, "POST /me/tenants/create", body, fault.Invalid, "VALIDATION_ERROR")
		}
		w.refused(w.tenant("Nobody's", ""), "POST /me/tenants/create", `{"name":"X"}`, fault.Forbidden, "USER_REQUIRED")
		for range 17 {
			w.ok(ann, "POST /me/tenants/create", `{"name":"More"}`)
		}
		w.refused(ann, "POST /me/tenants/create", `{"name":"X"}`, fault.Invalid, "limit_reached")

		second := made["tenant_id"].(string)
		w.refused(ann, "DELETE /me/memberships/"+second, "", fault.Conflict, "WOULD_ORPHAN")
		w.refused(w.tenant("Other", "bob@example.com"), "DELETE /me/memberships/"+second, "", fault.NotFound, "NOT_FOUND")
		bob, key := w.member(ann, authz.Developer, "bob@example.com")
		w.same(w.ok(bob, "DELETE /me/memberships/"+ann.TenantID, ""), map[string]any{"left": true, "tenant_id": ann.TenantID})
		_, err := w.Authenticate(t.Context(), string(key))
		wantFault(t, err, fault.Unauthenticated, "AUTH_ERROR")
		// Of two owners one may go.
		cleo, _ := w.member(ann, authz.Owner, "cleo@example.com")
		w.ok(cleo, "DELETE /me/memberships/"+ann.TenantID, "")
		w.refused(ann, "DELETE /me/memberships/"+ann.TenantID, "", fault.Conflict, "WOULD_ORPHAN")
		w.same(w.log[:2], []string{"tenant.created", "tenant.created"})
		w.same(w.log[len(w.log)-2:], []string{"user.left", "user.left"})
	})
}

func TestSwitch(t *testing.T) {
	eachTown(t, func(w *town) {
		ann, other := w.tenant("Acme", "ann@example.com"), w.tenant("Other", "bob@example.com")
		there, _ := w.member(other, authz.Viewer, "ann@example.com")
		to := func(tenant string) string { return fmt.Sprintf(`{"tenant_id":%q}`, tenant) }
		const request = "POST /me/tenants/switch"
		w.refused(ann, request, to(other.TenantID), fault.Forbidden, "FORBIDDEN") // a key
		token := w.signedIn(ann)
		w.same(w.ok(w.browser(token), request, to(other.TenantID)),
			map[string]any{"switched": true, "tenant_id": other.TenantID, "user_id": there.UserID, "role": "viewer"})
		now := w.browser(token)
		w.same([]any{now.TenantID, now.UserID, now.Role}, []any{other.TenantID, there.UserID, authz.Viewer})
		w.ok(now, request, to(other.TenantID)) // where it is
		w.refused(now, request, to("nonsense"), fault.NotFound, "NOT_FOUND")
		w.refused(now, request, to(w.tenant("Third", "").TenantID), fault.NotFound, "NOT_FOUND")
		sql(t, w.db, `UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`, ann.TenantID)
		w.refused(now, request, to(ann.TenantID), fault.Forbidden, "TENANT_SUSPENDED")
		sql(t, w.db, `UPDATE tenants SET status = 'active' WHERE tenant_id = ?`, ann.TenantID)
		sql(t, w.db, `UPDATE users SET status = 'suspended' WHERE user_id = ?`, ann.UserID)
		w.refused(now, request, to(ann.TenantID), fault.Forbidden, "MEMBER_SUSPENDED")
	})
}

func TestPatchMe(t *testing.T) {
	eachTown(t, func(w *town) {
		ann := w.tenant("Acme", "ann@example.com")
		got := w.ok(ann, "PATCH /me", `{"name":" Ann ","avatar_url":"https://example.com/a.png","email":"eve@example.com","role":"viewer"}`)
		w.same([]any{got["name"], got["avatar_url"], got["email"], got["role"]},
			[]any{"Ann", "https://example.com/a.png", "ann@example.com", "owner"})
		w.same(w.ok(ann, "PATCH /me", `{}`)["name"], "Ann")
		w.same(w.ok(ann, "PATCH /me", `{"avatar_url":null}`)["avatar_url"], nil)
		w.same(w.ok(ann, "GET /users/"+ann.UserID, "")["name"], "Ann")
		for _, body := range []string{
			`{"name":""}`, `{"name":"a\u0000b"}`, `{"name":null}`, `{"avatar_url":"javascript:alert(1)"}`,
			`{"avatar_url":"https://user:pw@example.com/"}`,
			`{"avatar_url":"/a.png"}`, `{"avatar_url":7}`,
		} {
			w.refused(ann, "PATCH /me", body, fault.Invalid, "VALIDATION_ERROR")
		}
	})
}

func TestUpdateTenant(t *testing.T) {
	eachTown(t, func(w *town) {
		ann := w.tenant("Acme", "ann@example.com")
		w.tenant("Other", "")
		sql(t, w.db, `UPDATE tenants SET settings = '{"a":1,"b":2,"legal_hold":true}' WHERE tenant_id = ?`, ann.TenantID)
		got := w.ok(ann, "PUT /tenants/me", `{"name":" Acme Inc ","slug":"acme-inc","description":"Two\nlines","logo_url":"https://example.com/l.png",
			"settings":{"b":null,"c":{"d":[1]},"max_retention_days":1,"legal_hold":true},"branding":{"colour":"#d00000","x":1},
			"social_links":{"web":"https://example.com"},"plan":"gold","status":"suspended"}`)
		delete(got, "created_at")
		delete(got, "updated_at")
		w.same(got, map[string]any{
			"tenant_id": ann.TenantID, "name": "Acme Inc", "slug": "acme-inc", "status": "active", "plan": "self_hosted",
			"description": "Two\nlines", "logo_url": "https://example.com/l.png",
			"settings":     map[string]any{"a": 1.0, "c": map[string]any{"d": []any{1.0}}, "legal_hold": true},
			"branding":     map[string]any{"colour": "#d00000", "x": 1.0},
			"social_links": map[string]any{"web": "https://example.com"},
		})
		got = w.ok(ann, "PATCH /tenants/me", `{"description":null,"logo_url":null,"branding":{"x":null},"social_links":{}}`)
		w.same([]any{got["description"], got["logo_url"], got["branding"], got["social_links"], got["name"]},
			[]any{nil, nil, map[string]any{"colour": "#d00000"}, map[string]any{}, "Acme Inc"})
		w.same(w.ok(ann, "GET /tenants/me", "")["branding"], map[string]any{"colour": "#d00000"})
		w.refused(ann, "PATCH /tenants/me", `{"slug":"other"}`, fault.Conflict, "ALREADY_EXISTS")
		w.refused(ann, "PATCH /tenants/me", `{"settings":{"legal_hold":false}}`, fault.Forbidden, "FORBIDDEN")
		w.refused(ann, "PATCH /tenants/me", `{"settings":{"legal_hold":null}}`, fault.Forbidden, "FORBIDDEN")
		got = w.ok(ann, "PATCH /tenants/me", `{"branding":null,"social_links":null,"settings":null}`)
		w.same([]any{got["branding"], got["social_links"], got["settings"].(map[string]any)["a"]}, []any{map[string]any{}, map[string]any{}, 1.0})
		large := fmt.Sprintf(`{"settings":{"x":%q}}`, strings.Repeat("x", 64<<10))
		var many strings.Builder
		for i := range 101 {
			fmt.Fprintf(&many, `"k%d":1,`, i)
		}
		for _, body := range []string{
			`{"name":""}`, `{"name":null}`, `{"slug":""}`, `{"slug":"A"}`, `{"slug":null}`, `{"description":"\u0000"}`, `{"logo_url":"ftp://x/y"}`,
			`{"settings":[]}`, `{"branding":7}`, `{"social_links":{"x":"nonsense"}}`, `{"social_links":{"x":7}}`,
			large, `{"branding":{` + many.String() + `"last":1}}`,
			`{"social_links":{` + strings.ReplaceAll(many.String(), ":1", `:"https://example.com"`) + `"l":"https://example.com"}}`,
		} {
			w.refused(ann, "PATCH /tenants/me", body, fault.Invalid, "VALIDATION_ERROR")
		}
		admin, _ := w.member(ann, authz.Admin, "")
		w.refused(admin, "PATCH /tenants/me", `{}`, fault.Forbidden, "FORBIDDEN")
	})
}
