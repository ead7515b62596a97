package app_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
)

// linked gives the query of an invite's link.
func linked(t *testing.T, link any) url.Values {
	t.Helper()
	u, err := url.Parse(link.(string))
	if err != nil || u.Path != "/invite" {
		t.Fatalf("link %v: %v", link, err)
	}
	return u.Query()
}

// in makes requests as a browser with a session's cookie.
func (n *node) in(t *testing.T, cookie []string, status int, method, path, body string) object {
	t.Helper()
	headers := append([]string{"Content-Type", "application/json", "Sec-Fetch-Site", "same-origin"}, cookie...)
	r := n.send(method, path, body, headers...)
	if r.StatusCode != status {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, r.StatusCode, status, r.raw)
	}
	return r.json
}

// Two companies, three people, and what becomes of them.
func TestPeople(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		beside := n.admin()
		found := func(name, email string) (*node, identity.Grant) {
			t.Helper()
			g, err := beside.CreateTenant(t.Context(), name, email)
			if err != nil {
				t.Fatal(err)
			}
			return n.as(string(g.RawKey)), g
		}
		ann, acme := found("Acme", "ann@example.com")
		bob, bobs := found("Bobs", "bob@example.com")

		// Ann invites Bob, who has an address that the operator vouches for, and
		// Cleo, whom nobody knows yet. No mail is configured: she gets the links.
		made := ann.want(201, "POST", "/api/v1/users/invites", object{"email": "Bob@example.com", "role": "developer"})
		if made["email_sent"] != false || made["status"] != "pending" {
			t.Errorf("invite %v", made)
		}
		checkCode(t, ann.do("POST", "/api/v1/users/invites", object{"email": "bob@example.com", "role": "viewer"}), 409, "ALREADY_EXISTS")
		cleo := ann.want(201, "POST", "/api/v1/users/invites", object{"email": "cleo@example.com", "role": "admin"})
		if total := ann.want(200, "GET", "/api/v1/users/invites", nil)["total"]; total != 2.0 {
			t.Errorf("%v invites wait", total)
		}
		mine := bob.want(200, "GET", "/api/v1/me/tenants", nil)
		pending := mine["pending_invites"].([]any)[0].(object)
		joined := bob.want(200, "POST", "/api/v1/me/invites/"+acme.TenantID+"/"+pending["invite_id"].(string)+"/accept", nil)
		bobThere := joined["user_id"].(string)

		link := linked(t, cleo["invite_url"])
		accept := "/api/v1/users/invites/" + link.Get("invite") + "/accept"
		checkCode(t, n.send("POST", accept, `{"token":"wrong"}`, "Content-Type", "application/json"), 403, "FORBIDDEN")
		entered := n.send("POST", accept, `{"token":"`+link.Get("token")+`","name":"Cleo"}`, "Content-Type", "application/json")
		if entered.StatusCode != 200 || entered.json["role"] != "admin" {
			t.Fatalf("%d %s", entered.StatusCode, entered.raw)
		}
		cookie := []string{"Cookie", strings.SplitN(entered.Header.Get("Set-Cookie"), ";", 2)[0]}
		checkCode(t, n.send("POST", accept, `{"token":"`+link.Get("token")+`"}`, "Content-Type", "application/json"), 409, "INVALID_STATE_TRANSITION")
		who := n.in(t, cookie, 200, "GET", "/api/v1/me", "")
		if who["auth_method"] != "cookie" || who["user"].(object)["name"] != "Cleo" || who["user"].(object)["last_login_at"] == nil {
			t.Errorf("cleo is %v", who)
		}
		cleoID := who["user"].(object)["user_id"].(string)
		told := 0
		for _, item := range ann.want(200, "GET", "/api/v1/notifications", nil)["notifications"].([]any) {
			if one := item.(object); one["type"] == "invite.accepted" && one["user_id"] == acme.UserID {
				told++
			}
		}
		if told != 2 {
			t.Errorf("ann was told %d times", told)
		}

		// Bob works in both companies by browser.
		_, browser := beside.signIn(bobs.TenantID, bobs.UserID, identity.Device{Method: "otp"})
		agent := ann.agent(nil)
		if got := n.in(t, browser, 200, "GET", "/api/v1/me/agents/"+agent+"/locate", ""); got["tenant_id"] != acme.TenantID {
			t.Errorf("located %v", got)
		}
		checkCode(t, n.send("GET", "/api/v1/agents/"+agent, "", browser...), 404, "NOT_FOUND")
		n.in(t, browser, 200, "POST", "/api/v1/me/tenants/switch", `{"tenant_id":"`+acme.TenantID+`"}`)
		n.in(t, browser, 200, "PATCH", "/api/v1/agents/"+agent, `{"description":"bob was here"}`)
		checkCode(t, bob.do("POST", "/api/v1/me/tenants/switch", object{"tenant_id": acme.TenantID}), 403, "FORBIDDEN")

		// A role counts with the next request; a suspension ends open streams too.
		stream := n.open(t, "/api/v1/notifications/stream", browser...)
		n.in(t, cookie, 200, "PUT", "/api/v1/users/"+bobThere+"/role", `{"role":"viewer"}`)
		checkCode(t, n.send("PATCH", "/api/v1/agents/"+agent, `{"description":"again"}`, append([]string{"Content-Type", "application/json"}, browser...)...), 403, "MISSING_SCOPE")
		ann.want(200, "PUT", "/api/v1/users/"+bobThere+"/suspend", nil)
		since := time.Now()
		checkCode(t, n.send("GET", "/api/v1/me", "", browser...), 403, "MEMBER_SUSPENDED")
		ends(t, "a suspended member", stream, since)
		bob.want(200, "GET", "/api/v1/me", nil) // at home nothing happened
		ann.want(200, "PUT", "/api/v1/users/"+bobThere+"/unsuspend", nil)
		n.in(t, browser, 200, "GET", "/api/v1/me", "")

		// The company changes hands.
		checkCode(t, n.send("DELETE", "/api/v1/users/"+acme.UserID, "", cookie...), 403, "FORBIDDEN")
		checkCode(t, ann.do("DELETE", "/api/v1/me/memberships/"+acme.TenantID, nil), 409, "WOULD_ORPHAN")
		ann.want(200, "POST", "/api/v1/users/"+cleoID+"/transfer-ownership", nil)
		checkCode(t, ann.do("POST", "/api/v1/users/"+cleoID+"/transfer-ownership", nil), 403, "FORBIDDEN")
		n.in(t, cookie, 200, "PATCH", "/api/v1/tenants/me", `{"name":"Cleo Inc","slug":"cleo-inc"}`)
		checkCode(t, ann.do("PATCH", "/api/v1/tenants/me", object{"name": "Ann Inc"}), 403, "FORBIDDEN")

		// Bob leaves, Ann is taken out; both are somebody elsewhere.
		bob.want(200, "DELETE", "/api/v1/me/memberships/"+acme.TenantID, nil)
		checkCode(t, n.send("GET", "/api/v1/me", "", browser...), 401, "AUTH_ERROR")
		second := ann.want(201, "POST", "/api/v1/me/tenants/create", object{"name": "Second"})
		_, annBrowser := beside.signIn(second["tenant_id"].(string), second["user_id"].(string), identity.Device{})
		n.in(t, cookie, 200, "DELETE", "/api/v1/users/"+acme.UserID, "")
		checkCode(t, ann.do("GET", "/api/v1/me", nil), 401, "AUTH_ERROR")
		names := []string{}
		for _, m := range n.in(t, annBrowser, 200, "GET", "/api/v1/me/tenants", "")["memberships"].([]any) {
			names = append(names, m.(object)["name"].(string))
		}
		if diff := cmp.Diff([]string{"Second"}, names); diff != "" {
			t.Error(diff)
		}
		users := n.in(t, cookie, 200, "GET", "/api/v1/users", "")
		if users["total"] != 1.0 || users["items"].([]any)[0].(object)["role"] != "owner" {
			t.Errorf("users %v", users)
		}
		if left := beside.query(`SELECT notification_id FROM notifications WHERE tenant_id = ? AND user_id = ?`, acme.TenantID, acme.UserID); len(left) > 0 {
			t.Errorf("notifications of somebody who is gone: %v", left)
		}

		// A suspended company lets nobody in, and takes nobody.
		waits := n.in(t, cookie, 201, "POST", "/api/v1/users/invites", `{"email":"dora@example.com","role":"viewer"}`)
		beside.exec(`UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`, acme.TenantID)
		eventually(t, func() bool { return n.send("GET", "/api/v1/me", "", cookie...).json["code"] == "TENANT_SUSPENDED" })
		link = linked(t, waits["invite_url"])
		checkCode(t, n.send("POST", "/api/v1/users/invites/"+link.Get("invite")+"/accept", `{"token":"`+link.Get("token")+`"}`,
			"Content-Type", "application/json"), 403, "TENANT_SUSPENDED")
	})
}

// The links of invites are no credentials but for what they are for, and
// nothing of them is stored or logged as it is.
func TestInvites(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	made := n.want(201, "POST", "/api/v1/users/invites", object{"email": "ann@example.com", "role": "viewer"}, "Idempotency-Key", "once")
	again := n.want(201, "POST", "/api/v1/users/invites", object{"email": "ann@example.com", "role": "viewer"}, "Idempotency-Key", "once")
	if diff := cmp.Diff(made, again); diff != "" {
		t.Errorf("a repeated invite is another: %s", diff)
	}
	token := linked(t, made["invite_url"]).Get("token")
	if text := n.do("GET", "/api/v1/users/invites", nil).raw; strings.Contains(string(text), token) {
		t.Errorf("the list has the token: %s", text)
	}
	tenant, _ := n.me()
	for _, row := range n.admin().rows(tenant) {
		if strings.Contains(row, token) {
			t.Errorf("stored as it is: %s", row)
		}
	}
	checkCode(t, n.as(token).do("GET", "/api/v1/me", nil), 401, "AUTH_ERROR")
	checkCode(t, n.do("POST", "/api/v1/users/invites/"+made["id"].(string)+"/resend", nil), 429, "rate_limit_exceeded")
	r := n.do("DELETE", "/api/v1/users/invites/"+made["id"].(string), nil)
	if r.StatusCode != http.StatusNoContent || len(r.raw) > 0 {
		t.Errorf("%d %s", r.StatusCode, r.raw)
	}
	checkCode(t, n.send("POST", "/api/v1/users/invites/"+made["id"].(string)+"/accept", `{"token":"`+token+`"}`,
		"Content-Type", "application/json"), 409, "INVALID_STATE_TRANSITION")
}

// What an admin loses while requests of theirs are under way is lost to those
// requests too, and there is always exactly one owner.
func TestPeopleAtOnce(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		g, err := n.admin().CreateTenant(t.Context(), "Acme", "")
		if err != nil {
			t.Fatal(err)
		}
		var heirs []identity.Grant
		for range 4 {
			heirs = append(heirs, n.admin().key(g.TenantID, authz.Admin, authz.Wildcard))
		}
		replies := make(chan int, 2*len(heirs))
		for _, heir := range heirs {
			for range 2 {
				go func() {
					replies <- n.as(string(g.RawKey)).do("POST", "/api/v1/users/"+heir.UserID+"/transfer-ownership", nil).StatusCode
				}()
			}
		}
		var all []int
		for range cap(replies) {
			all = append(all, <-replies)
		}
		slices.Sort(all)
		if diff := cmp.Diff([]int{200, 403, 403, 403, 403, 403, 403, 403}, all); diff != "" {
			t.Error(diff)
		}
		owners := n.admin().query(`SELECT user_id FROM users WHERE tenant_id = ? AND role = 'owner'`, g.TenantID)
		if len(owners) != 1 {
			t.Errorf("%d owners", len(owners))
		}
	})
}
