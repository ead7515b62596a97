package accounts

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
)

// narrow returns a key of the member with a grant that carries some scopes only.
func narrow(n *apptest.Server, scopes ...string) *apptest.Server {
	n.T.Helper()
	made := n.Expect(201, "POST", "/api/v1/tenants/me/keys", object{"name": "narrow", "scopes": scopes})
	return n.WithKey(made["raw_key"].(string))
}

// A key acts in its company only, whatever its person is elsewhere; a key that may
// change members makes nobody who may do more than the key itself.
func TestKeysReachNoFurtherThanTheirCompany(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		beside := n.Admin()
		found := func(name string) (*apptest.Server, identity.Grant) {
			t.Helper()
			g, err := beside.Tenants.Create(t.Context(), name, "ann@example.com")
			if err != nil {
				t.Fatal(err)
			}
			return n.WithKey(string(g.RawKey)), g
		}
		first, here := found("First")
		second, there := found("Second")

		for _, key := range []*apptest.Server{narrow(first, "agents:read"), narrow(first, "admin"), narrow(first, "users:write", "api_keys:write")} {
			for _, request := range [][2]string{
				{"DELETE", "/api/v1/me/memberships/" + there.TenantID},
				{"DELETE", "/api/v1/me/memberships/" + here.TenantID},
				{"GET", "/api/v1/me/tenants"},
				{"GET", "/api/v1/me/agents/" + second.CreateAgent(nil) + "/locate"},
			} {
				apptest.CheckCode(t, key.Do(request[0], request[1], nil), 403, "MISSING_SCOPE")
			}
			apptest.CheckCode(t, key.Do("POST", "/api/v1/me/tenants/create", object{"name": "Third"}), 403, "MISSING_SCOPE")
			if all := key.Expect(200, "GET", "/api/v1/me", nil)["memberships"].([]any); len(all) != 1 {
				t.Errorf("a narrow key sees %v", all)
			}
		}
		if all := first.Expect(200, "GET", "/api/v1/me", nil)["memberships"].([]any); len(all) != 2 {
			t.Errorf("a key with the scope * sees %v", all)
		}
		second.Expect(200, "GET", "/api/v1/me", nil)

		admin := beside.CreateKey(here.TenantID, authz.Admin, authz.SuperScope)
		viewer := beside.CreateKey(here.TenantID, authz.Viewer)
		users := narrow(first, "users:write", "users:read")
		for _, role := range []string{"viewer", "developer", "admin"} {
			apptest.CheckCode(t, users.Do("POST", "/api/v1/users/invites", object{"email": role + "@example.com", "role": role}), 422, "SCOPE_NOT_HELD")
		}
		apptest.CheckCode(t, users.Do("PUT", "/api/v1/users/"+viewer.UserID+"/role", object{"role": "admin"}), 422, "SCOPE_NOT_HELD")
		users.Expect(200, "PUT", "/api/v1/users/"+admin.UserID+"/role", object{"role": "developer"}) // takes away
		users.Expect(200, "PUT", "/api/v1/users/"+admin.UserID+"/suspend", nil)
		apptest.CheckCode(t, users.Do("PUT", "/api/v1/users/"+admin.UserID+"/unsuspend", nil), 422, "SCOPE_NOT_HELD")
		apptest.CheckCode(t, users.Do("POST", "/api/v1/users/"+viewer.UserID+"/transfer-ownership", nil), 422, "SCOPE_NOT_HELD")
		super := narrow(first, "admin")
		apptest.CheckCode(t, super.Do("POST", "/api/v1/users/"+viewer.UserID+"/transfer-ownership", nil), 422, "SCOPE_NOT_HELD")
		apptest.CheckCode(t, super.Do("POST", "/api/v1/tenants/me/keys", object{"name": "more", "scopes": []string{"*"}}), 422, "SCOPE_NOT_HELD")
		super.Expect(201, "POST", "/api/v1/users/invites", object{"email": "dora@example.com", "role": "admin"})
	})
}

// A request that is meant for another company than the credential's does nothing:
// a tab of a browser does not see that another tab has switched.
func TestRequestsForAnotherCompany(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	beside := n.Admin()
	var grants [2]identity.Grant
	for i, name := range []string{"First", "Second"} {
		g, err := beside.Tenants.Create(t.Context(), name, "ann@example.com")
		if err != nil {
			t.Fatal(err)
		}
		grants[i] = g
	}
	first, second := grants[0].TenantID, grants[1].TenantID
	_, cookie := beside.OpenBrowserSession(first, grants[0].UserID, identity.Device{})
	tab := func(method, path, body string) apptest.Reply {
		t.Helper()
		return n.SendHeaders(method, path, body, append([]string{"Content-Type", "application/json", "X-Tenant-Id", first}, cookie...)...)
	}
	if got := tab("GET", "/api/v1/agents", ""); got.StatusCode != 200 || got.Header.Get("X-Tenant-Id") != first {
		t.Fatalf("%d %v", got.StatusCode, got.Header)
	}
	expectWithCookie(n, t, cookie, 200, "POST", "/api/v1/me/tenants/switch", `{"tenant_id":"`+second+`"}`)
	refused := tab("POST", "/api/v1/agents", `{"name":"lost"}`)
	apptest.CheckCode(t, refused, 409, "TENANT_SWITCHED")
	if refused.Header.Get("X-Tenant-Id") != second || refused.Header.Get("X-Should-Retry") != "false" ||
		refused.JSON["tenant_name"] != "Second" || refused.JSON["requested_tenant_name"] != "First" {
		t.Errorf("%v %s", refused.Header, refused.Body)
	}
	if left := beside.Query(`SELECT id FROM documents WHERE tenant_id IN (?, ?)`, first, second); len(left) > 0 {
		t.Errorf("there are %v", left)
	}
	key := n.WithKey(string(grants[0].RawKey))
	for _, path := range []string{"/api/v1/runs", "/v1/models", "/api/v1/notifications/stream", "/api/v1/me/tenants"} {
		if got := key.Do("GET", path, nil, "X-Tenant-Id", second); got.StatusCode != 409 {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.Body)
		}
	}
	stranger := n.Do("GET", "/api/v1/me", nil, "X-Tenant-Id", first) // of whom the operator is no member
	apptest.CheckCode(t, stranger, 409, "TENANT_SWITCHED")
	if stranger.JSON["requested_tenant_name"] != nil {
		t.Errorf("a stranger is told a name: %s", stranger.Body)
	}
}

// Links lead to the public address of the server, whatever host a request names: a
// forged one would send tokens of other people elsewhere.
func TestLinksIgnoreTheHost(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(nil)
	server := n.CreateMCPServer(object{"url": "https://example.com/mcp", "enabled": false})["id"].(string)
	for path, body := range map[string]object{
		"/api/v1/users/invites": {"email": "ann@example.com", "role": "viewer"},
		"/api/v1/sessions/" + n.CreateSession(agent, nil) + "/share": {},
		"/api/v1/webhooks/sensors":                                   {"agent_id": agent},
		"/api/v1/mcp/servers/" + server + "/authorize":               {},
	} {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		got := rawAnswer(t, n, "POST "+path+" HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\n"+
			"Forwarded: host=evil.example\r\nX-Original-Host: evil.example\r\nAuthorization: Bearer "+n.Key+
			"\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(text))+"\r\n\r\n"+string(text))
		if strings.Contains(got, "evil.example") || !strings.HasPrefix(got, "HTTP/1.1 20") {
			t.Errorf("%s: %s", path, got)
		}
		if !strings.Contains(got, `"`+n.URL+`/`) {
			t.Errorf("%s has no link to %s: %s", path, n.URL, got)
		}
	}
}

// rawAnswer sends bytes and returns those of the answer.
func rawAnswer(t *testing.T, n *apptest.Server, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", n.App.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}
