package accounts

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/identity"
	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
)

// linked returns the query of an invite's link.
func linked(t *testing.T, link any) url.Values {
	t.Helper()
	u, err := url.Parse(link.(string))
	if err != nil || u.Path != "/invite" {
		t.Fatalf("link %v: %v", link, err)
	}
	return u.Query()
}

// expectWithCookie makes requests as a browser with a session's cookie.
func expectWithCookie(n *apptest.Server, t *testing.T, cookie []string, status int, method, path, body string) object {
	t.Helper()
	headers := append([]string{"Content-Type", "application/json", "Sec-Fetch-Site", "same-origin"}, cookie...)
	r := n.SendHeaders(method, path, body, headers...)
	if r.StatusCode != status {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, r.StatusCode, status, r.Body)
	}
	return r.JSON
}

// Two companies, three people, and what becomes of them.
func TestPeople(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		beside := n.Admin()
		found := func(name, email string) (*apptest.Server, identity.Grant) {
			t.Helper()
			g, err := beside.Tenants.Create(t.Context(), name, email)
			if err != nil {
				t.Fatal(err)
			}
			return n.WithKey(string(g.RawKey)), g
		}
		ann, acme := found("Acme", "ann@example.com")
		bob, bobs := found("Bobs", "bob@example.com")

		// Ann invites Bob, who has an address that the operator vouches for, and
		// Cleo, whom nobody knows yet. No mail is configured: she gets the links.
		made := ann.Expect(201, "POST", "/api/v1/users/invites", object{"email": "Bob@example.com", "role": "developer"})
		if made["email_sent"] != false || made["status"] != "pending" {
			t.Errorf("invite %v", made)
		}
		apptest.CheckCode(t, ann.Do("POST", "/api/v1/users/invites", object{"email": "bob@example.com", "role": "viewer"}), 409, "ALREADY_EXISTS")
		cleo := ann.Expect(201, "POST", "/api/v1/users/invites", object{"email": "cleo@example.com", "role": "admin"})
		if total := ann.Expect(200, "GET", "/api/v1/users/invites", nil)["total"]; total != 2.0 {
			t.Errorf("%v invites wait", total)
		}
		mine := bob.Expect(200, "GET", "/api/v1/me/tenants", nil)
		pending := mine["pending_invites"].([]any)[0].(object)
		joined := bob.Expect(200, "POST", "/api/v1/me/invites/"+acme.TenantID+"/"+pending["invite_id"].(string)+"/accept", nil)
		bobThere := joined["user_id"].(string)

		link := linked(t, cleo["invite_url"])
		accept := "/api/v1/users/invites/" + link.Get("invite") + "/accept"
		apptest.CheckCode(t, n.SendHeaders("POST", accept, `{"token":"wrong"}`, "Content-Type", "application/json"), 403, "FORBIDDEN")
		entered := n.SendHeaders("POST", accept, `{"token":"`+link.Get("token")+`","name":"Cleo"}`, "Content-Type", "application/json")
		if entered.StatusCode != 200 || entered.JSON["role"] != "admin" {
			t.Fatalf("%d %s", entered.StatusCode, entered.Body)
		}
		cookie := []string{"Cookie", strings.SplitN(entered.Header.Get("Set-Cookie"), ";", 2)[0]}
		apptest.CheckCode(t, n.SendHeaders("POST", accept, `{"token":"`+link.Get("token")+`"}`, "Content-Type", "application/json"), 409, "INVALID_STATE_TRANSITION")
		who := expectWithCookie(n, t, cookie, 200, "GET", "/api/v1/me", "")
		if who["auth_method"] != "cookie" || who["user"].(object)["name"] != "Cleo" || who["user"].(object)["last_login_at"] == nil {
			t.Errorf("cleo is %v", who)
		}
		cleoID := who["user"].(object)["user_id"].(string)
		told := 0
		for _, item := range ann.Expect(200, "GET", "/api/v1/notifications", nil)["notifications"].([]any) {
			if one := item.(object); one["type"] == "invite.accepted" && one["user_id"] == acme.UserID {
				told++
			}
		}
		if told != 2 {
			t.Errorf("ann was told %d times", told)
		}

		// Bob works in both companies by browser.
		_, browser := beside.OpenBrowserSession(bobs.TenantID, bobs.UserID, identity.Device{Method: "otp"})
		agent := ann.CreateAgent(nil)
		if got := expectWithCookie(n, t, browser, 200, "GET", "/api/v1/me/agents/"+agent+"/locate", ""); got["tenant_id"] != acme.TenantID {
			t.Errorf("located %v", got)
		}
		apptest.CheckCode(t, n.SendHeaders("GET", "/api/v1/agents/"+agent, "", browser...), 404, "NOT_FOUND")
		expectWithCookie(n, t, browser, 200, "POST", "/api/v1/me/tenants/switch", `{"tenant_id":"`+acme.TenantID+`"}`)
		expectWithCookie(n, t, browser, 200, "PATCH", "/api/v1/agents/"+agent, `{"description":"bob was here"}`)
		apptest.CheckCode(t, bob.Do("POST", "/api/v1/me/tenants/switch", object{"tenant_id": acme.TenantID}), 403, "FORBIDDEN")

		// A role counts with the next request; a suspension ends open streams too.
		stream := n.OpenStream(t, "/api/v1/notifications/stream", browser...)
		expectWithCookie(n, t, cookie, 200, "PUT", "/api/v1/users/"+bobThere+"/role", `{"role":"viewer"}`)
		apptest.CheckCode(t, n.SendHeaders("PATCH", "/api/v1/agents/"+agent, `{"description":"again"}`, append([]string{"Content-Type", "application/json"}, browser...)...), 403, "MISSING_SCOPE")
		ann.Expect(200, "PUT", "/api/v1/users/"+bobThere+"/suspend", nil)
		since := time.Now()
		apptest.CheckCode(t, n.SendHeaders("GET", "/api/v1/me", "", browser...), 403, "MEMBER_SUSPENDED")
		ends(t, "a suspended member", stream, since)
		bob.Expect(200, "GET", "/api/v1/me", nil) // at home nothing happened
		ann.Expect(200, "PUT", "/api/v1/users/"+bobThere+"/unsuspend", nil)
		expectWithCookie(n, t, browser, 200, "GET", "/api/v1/me", "")

		// The company changes hands.
		apptest.CheckCode(t, n.SendHeaders("DELETE", "/api/v1/users/"+acme.UserID, "", cookie...), 403, "FORBIDDEN")
		apptest.CheckCode(t, ann.Do("DELETE", "/api/v1/me/memberships/"+acme.TenantID, nil), 409, "WOULD_ORPHAN")
		ann.Expect(200, "POST", "/api/v1/users/"+cleoID+"/transfer-ownership", nil)
		apptest.CheckCode(t, ann.Do("POST", "/api/v1/users/"+cleoID+"/transfer-ownership", nil), 403, "FORBIDDEN")
		expectWithCookie(n, t, cookie, 200, "PATCH", "/api/v1/tenants/me", `{"name":"Cleo Inc","slug":"cleo-inc"}`)
		apptest.CheckCode(t, ann.Do("PATCH", "/api/v1/tenants/me", object{"name": "Ann Inc"}), 403, "FORBIDDEN")

		// Bob leaves, Ann is taken out; both are somebody elsewhere.
		bob.Expect(200, "DELETE", "/api/v1/me/memberships/"+acme.TenantID, nil)
		apptest.CheckCode(t, n.SendHeaders("GET", "/api/v1/me", "", browser...), 401, "AUTH_ERROR")
		second := ann.Expect(201, "POST", "/api/v1/me/tenants/create", object{"name": "Second"})
		_, annBrowser := beside.OpenBrowserSession(second["tenant_id"].(string), second["user_id"].(string), identity.Device{})
		expectWithCookie(n, t, cookie, 200, "DELETE", "/api/v1/users/"+acme.UserID, "")
		apptest.CheckCode(t, ann.Do("GET", "/api/v1/me", nil), 401, "AUTH_ERROR")
		names := []string{}
		for _, m := range expectWithCookie(n, t, annBrowser, 200, "GET", "/api/v1/me/tenants", "")["memberships"].([]any) {
			names = append(names, m.(object)["name"].(string))
		}
		if diff := cmp.Diff([]string{"Second"}, names); diff != "" {
			t.Error(diff)
		}
		users := expectWithCookie(n, t, cookie, 200, "GET", "/api/v1/users", "")
		if users["total"] != 1.0 || users["items"].([]any)[0].(object)["role"] != "owner" {
			t.Errorf("users %v", users)
		}
		if left := beside.Query(`SELECT notification_id FROM notifications WHERE tenant_id = ? AND user_id = ?`, acme.TenantID, acme.UserID); len(left) > 0 {
			t.Errorf("notifications of somebody who is gone: %v", left)
		}

		// A suspended company lets nobody in, and takes nobody.
		waits := expectWithCookie(n, t, cookie, 201, "POST", "/api/v1/users/invites", `{"email":"dora@example.com","role":"viewer"}`)
		beside.Exec(`UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`, acme.TenantID)
		apptest.Eventually(t, func() bool {
			return n.SendHeaders("GET", "/api/v1/me", "", cookie...).JSON["code"] == "TENANT_SUSPENDED"
		})
		link = linked(t, waits["invite_url"])
		apptest.CheckCode(t, n.SendHeaders("POST", "/api/v1/users/invites/"+link.Get("invite")+"/accept", `{"token":"`+link.Get("token")+`"}`,
			"Content-Type", "application/json"), 403, "TENANT_SUSPENDED")
	})
}

// The links of invites are no credentials but for what they are for, and
// nothing of them is stored or logged as it is.
func TestInvites(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	made := n.Expect(201, "POST", "/api/v1/users/invites", object{"email": "ann@example.com", "role": "viewer"}, "Idempotency-Key", "once")
	again := n.Expect(201, "POST", "/api/v1/users/invites", object{"email": "ann@example.com", "role": "viewer"}, "Idempotency-Key", "once")
	shown := maps.Clone(made)
	delete(shown, "invite_url") // it is shown once
	shown["secret_shown_once"] = true
	if diff := cmp.Diff(shown, again); diff != "" {
		t.Errorf("a repeated invite is another: %s", diff)
	}
	token := linked(t, made["invite_url"]).Get("token")
	if text := n.Do("GET", "/api/v1/users/invites", nil).Body; strings.Contains(string(text), token) {
		t.Errorf("the list has the token: %s", text)
	}
	tenant, _ := n.Me()
	for _, row := range n.Admin().Rows(tenant) {
		if strings.Contains(row, token) {
			t.Errorf("stored as it is: %s", row)
		}
	}
	apptest.CheckCode(t, n.WithKey(token).Do("GET", "/api/v1/me", nil), 401, "AUTH_ERROR")
	apptest.CheckCode(t, n.Do("POST", "/api/v1/users/invites/"+made["id"].(string)+"/resend", nil), 429, "rate_limit_exceeded")
	r := n.Do("DELETE", "/api/v1/users/invites/"+made["id"].(string), nil)
	if r.StatusCode != http.StatusNoContent || len(r.Body) > 0 {
		t.Errorf("%d %s", r.StatusCode, r.Body)
	}
	apptest.CheckCode(t, n.SendHeaders("POST", "/api/v1/users/invites/"+made["id"].(string)+"/accept", `{"token":"`+token+`"}`,
		"Content-Type", "application/json"), 409, "INVALID_STATE_TRANSITION")
}

// What an admin loses while requests of theirs are under way is lost to those
// requests too, and there is always exactly one owner.
func TestPeopleAtOnce(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		g, err := n.Admin().Tenants.Create(t.Context(), "Acme", "")
		if err != nil {
			t.Fatal(err)
		}
		var heirs []identity.Grant
		for range 4 {
			heirs = append(heirs, n.Admin().CreateKey(g.TenantID, authz.Admin, authz.Wildcard))
		}
		replies := make(chan int, 2*len(heirs))
		for _, heir := range heirs {
			for range 2 {
				go func() {
					replies <- n.WithKey(string(g.RawKey)).Do("POST", "/api/v1/users/"+heir.UserID+"/transfer-ownership", nil).StatusCode
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
		owners := n.Admin().Query(`SELECT user_id FROM users WHERE tenant_id = ? AND role = 'owner'`, g.TenantID)
		if len(owners) != 1 {
			t.Errorf("%d owners", len(owners))
		}
	})
}
