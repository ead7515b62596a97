package app_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/config"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// signIn opens a browser session, as a sign-in does, and gives the header
// that the browser sends.
func (a *admin) signIn(tenant, user string, d identity.Device) (id string, cookie []string) {
	a.tb.Helper()
	var one identity.Session
	var raw identity.RawSession
	err := a.db.Write(a.tb.Context(), func(tx txn.Tx) (err error) {
		one, raw, err = a.OpenSession(tx, identity.Member{TenantID: tenant, UserID: user}, d)
		return err
	})
	if err != nil {
		a.tb.Fatal(err)
	}
	return one.SessionID, []string{"Cookie", "svc_session=" + string(raw)}
}

// me is who the node's key belongs to.
func (n *node) me() (tenant, user string) {
	who := n.want(200, "GET", "/api/v1/me", nil)
	return who["tenant"].(object)["tenant_id"].(string), who["user"].(object)["user_id"].(string)
}

// A signed-in browser does what its member may, shows among the devices, and
// is signed out for good.
func TestBrowserSessions(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		tenant, user := n.me()
		id, cookie := n.admin().signIn(tenant, user, identity.Device{Label: "Firefox", Method: "otp"})
		other, otherCookie := n.admin().signIn(tenant, user, identity.Device{Label: "Phone", Method: "otp"})

		who := n.send("GET", "/api/v1/me", "", cookie...)
		if who.StatusCode != 200 || who.json["auth_method"] != "cookie" || who.json["role"] != "owner" {
			t.Fatalf("%d %s", who.StatusCode, who.raw)
		}
		write := append([]string{"Content-Type", "application/json"}, cookie...)
		if made := n.send("POST", "/api/v1/agents", `{"name":"made in a browser"}`, append(write, "Sec-Fetch-Site", "same-origin")...); made.StatusCode != 201 {
			t.Errorf("%d %s", made.StatusCode, made.raw)
		}
		checkCode(t, n.send("POST", "/api/v1/agents", `{"name":"x"}`, append(write, "Sec-Fetch-Site", "cross-site")...), 403, "FORBIDDEN")
		made := n.send("POST", "/api/v1/tenants/me/keys", `{"name":"by hand"}`, append(write, "Idempotency-Key", "once")...)
		again := n.send("POST", "/api/v1/tenants/me/keys", `{"name":"by hand"}`, append(write, "Idempotency-Key", "once")...)
		if made.StatusCode != 201 || string(made.raw) != string(again.raw) {
			t.Errorf("%d %s, repeated %s", made.StatusCode, made.raw, again.raw)
		}

		list := n.send("GET", "/api/v1/me/sessions", "", cookie...).json["items"].([]any)
		current := 0
		for _, item := range list {
			if d := item.(object); d["is_current"] == true {
				current++
				if d["key_id"] != id || d["name"] != "Firefox" || d["kind"] != "session" {
					t.Errorf("this device is %v", d)
				}
			}
		}
		if len(list) != 4 || current != 1 { // two browsers, the first key and the one made by hand
			t.Errorf("devices %v", list)
		}

		if got := n.send("DELETE", "/api/v1/me/sessions/"+other, "", cookie...); got.StatusCode != 200 || got.json["key_id"] != other {
			t.Errorf("%d %s", got.StatusCode, got.raw)
		}
		checkCode(t, n.send("GET", "/api/v1/me", "", otherCookie...), 401, "AUTH_ERROR")
		out := n.send("POST", "/api/v1/auth/logout", "", cookie...)
		if out.StatusCode != 200 || string(out.raw) != `{"ok":true,"key_id":null}` || out.Header.Get("Set-Cookie") != "svc_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax" {
			t.Errorf("%d %s %q", out.StatusCode, out.raw, out.Header.Get("Set-Cookie"))
		}
		checkCode(t, n.send("GET", "/api/v1/me", "", cookie...), 401, "AUTH_ERROR")
		checkCode(t, n.send("POST", "/api/v1/auth/logout", "", cookie...), 401, "AUTH_ERROR")

		_, cookie = n.admin().signIn(tenant, user, identity.Device{})
		raw := strings.TrimPrefix(cookie[1], "svc_session=")
		for _, headers := range [][]string{
			{"Authorization", "Bearer " + raw}, {"Cookie", "svc_auth_token=" + raw}, {"Cookie", "svc_session=" + n.key},
		} {
			checkCode(t, n.send("GET", "/api/v1/me", "", headers...), 401, "AUTH_ERROR")
		}
	})
}

// A key that signs out is revoked.
func TestLogoutOfAKey(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	made := n.want(201, "POST", "/api/v1/tenants/me/keys", object{"name": "short-lived"})
	k := n.as(made["raw_key"].(string))
	if got := k.want(200, "POST", "/api/v1/auth/logout", nil); got["key_id"] != made["key_id"] || got["ok"] != true {
		t.Errorf("%v", got)
	}
	checkCode(t, k.do("GET", "/api/v1/me", nil), 401, "AUTH_ERROR")
	n.want(200, "GET", "/api/v1/me", nil)
}

// Whatever is registered refuses what only opens streams, and who still owes a
// second factor; a role's session has a scope for whatever the role may do.
func TestEveryOperationKnowsItsCredentials(t *testing.T) {
	t.Parallel()
	heavy(t)
	n := start(t, nil)
	g := &gate{node: n}
	tenant, user := n.me()
	_, half := n.admin().signIn(tenant, user, identity.Device{NeedsFactor: true})
	_, whole := n.admin().signIn(tenant, user, identity.Device{})
	token := n.want(200, "POST", "/api/v1/auth/sse-tokens", nil)["token"].(string)
	for _, op := range n.operations() {
		if op.Public {
			continue
		}
		t.Run(op.name(), func(t *testing.T) {
			if got := g.knock(t, op, token); !op.streams || op.endless {
				op.isRefused(t, got, 403, "STREAM_TOKEN_ONLY")
			} else if got.StatusCode != 404 && got.StatusCode != 200 {
				t.Errorf("%s by a stream token: %d %s", op, got.StatusCode, got.raw)
			}
			if !op.HalfOpen {
				got := g.knock(t, op, "", half...)
				op.isRefused(t, got, 401, "mfa_required")
				if !op.chat && !op.says && !op.rpc && (got.json["mfa_required"] != true || got.json["reason"] != "stale") {
					t.Errorf("%s: %s", op, got.raw)
				}
			}
			op.isRefused(t, g.knock(t, op, strings.TrimPrefix(whole[1], "svc_session=")), 401, "AUTH_ERROR")
			for _, role := range allRoles {
				if slices.Contains(op.Scopes, authz.SuperScope) && !role.AtLeast(authz.Admin) {
					continue // the scope is an admin's (interface.md section 5, point 9)
				}
				who := authz.Caller{Role: role, Scopes: authz.ScopesOf(role)}
				if err := mayCall(who, op); err != nil && (op.Role == "" || role.AtLeast(op.Role)) {
					t.Errorf("%s: a %s who is signed in lacks its scope: %v", op, role, err)
				}
			}
		})
	}
	if got := n.send("GET", "/api/v1/me", "", half...); got.StatusCode != 200 {
		t.Errorf("who owes a factor may not even know who they are: %d %s", got.StatusCode, got.raw)
	}
	if got := n.send("POST", "/api/v1/auth/logout", "", half...); got.StatusCode != 200 {
		t.Errorf("who owes a factor cannot sign out: %d %s", got.StatusCode, got.raw)
	}
}

// open opens an event stream and leaves it open.
func (n *node) open(t *testing.T, path string, headers ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", n.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	return resp
}

// ends fails the test unless a stream ends within five seconds of a moment.
func ends(t *testing.T, what string, stream *http.Response, since time.Time) {
	t.Helper()
	_, _ = io.Copy(io.Discard, stream.Body)
	if took := time.Since(since); took > 5*time.Second {
		t.Errorf("the stream of %s ended after %v", what, took)
	}
}

// A stream token opens what its maker may read, and lives and dies with it.
func TestStreamTokens(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		run := n.run(n.agent(nil), "wait", nil)
		events := "/api/v1/runs/" + run + "/events"
		made := n.want(201, "POST", "/api/v1/tenants/me/keys", object{"name": "page", "scopes": []string{"runs:read", "memory:read"}})
		page := n.as(made["raw_key"].(string))
		minted := page.want(200, "POST", "/api/v1/auth/sse-tokens", nil)
		token := minted["token"].(string)
		if expires, err := time.Parse(time.RFC3339, minted["expires_at"].(string)); err != nil || time.Until(expires) < 50*time.Second || time.Until(expires) > time.Minute {
			t.Errorf("%v", minted)
		}
		streams := map[string]*http.Response{
			"query":  n.open(t, events+"?token="+token),
			"header": n.open(t, events, "Authorization", "Bearer "+token),
			"cookie": n.open(t, events, "Cookie", "svc_auth_token="+token),
			"key":    n.open(t, events, "Authorization", "Bearer "+page.key),
		}
		kept := n.open(t, events, "Authorization", "Bearer "+n.key)

		by := n.as(token)
		checkCode(t, by.do("GET", "/api/v1/notifications/stream", nil, "Accept", "text/event-stream"), 403, "MISSING_SCOPE")
		checkCode(t, by.do("GET", "/api/v1/runs/"+run, nil), 403, "STREAM_TOKEN_ONLY")
		checkCode(t, by.do("POST", "/api/v1/auth/sse-tokens", nil), 403, "STREAM_TOKEN_ONLY")
		checkCode(t, by.do("POST", "/api/v1/auth/logout", nil), 403, "STREAM_TOKEN_ONLY")
		checkCode(t, n.as(token+"x").do("GET", events, nil), 401, "AUTH_ERROR")

		n.want(200, "DELETE", "/api/v1/tenants/me/keys/"+made["key_id"].(string), nil)
		revoked := time.Now()
		checkCode(t, by.do("GET", events, nil), 401, "AUTH_ERROR")
		for how, stream := range streams {
			ends(t, how, stream, revoked)
		}
		n.want(200, "POST", "/api/v1/runs/"+run+"/cancel", nil)
		if frames, err := io.ReadAll(kept.Body); err != nil || !strings.Contains(string(frames), "[DONE]") {
			t.Errorf("another key's stream: %v %s", err, frames)
		}
	})
}

// What one node revokes does not count on another after a second, and its
// streams there end within five; with and without a hint between them.
func TestRevocationReachesEveryNode(t *testing.T) {
	t.Parallel()
	database := sqldbtest.Config(t, sqldbtest.Postgres)
	shared := func(c *config.Config) { c.Storage.DatabaseURL = config.NewURL(database.URL) }
	address := freeAddress(t)
	sim := modeltest.New(t, silent)
	a := start(t, sim, shared, sharedSecret, func(c *config.Config) { c.Bus.NATSListen = address })
	b := start(t, sim, shared, sharedSecret, func(c *config.Config) { c.Bus.NATSURL = config.NewURL("nats://" + address) })
	made, err := a.admin().CreateTenant(t.Context(), "Acme", "")
	if err != nil {
		t.Fatal(err)
	}
	tenant := made.TenantID
	for _, c := range []struct {
		name string
		code string
		kill func(on *node, k identity.Grant, session string)
	}{
		{"key", "AUTH_ERROR", func(on *node, k identity.Grant, _ string) {
			on.as(string(k.RawKey)).want(200, "DELETE", "/api/v1/tenants/me/keys/"+k.KeyID, nil)
		}},
		{"session", "AUTH_ERROR", func(on *node, k identity.Grant, session string) {
			on.as(string(k.RawKey)).want(200, "DELETE", "/api/v1/me/sessions/"+session, nil)
		}},
		{"member", "MEMBER_SUSPENDED", func(on *node, k identity.Grant, _ string) {
			on.admin().exec(`UPDATE users SET status = 'suspended' WHERE user_id = ?`, k.UserID)
		}},
		{"tenant", "TENANT_SUSPENDED", func(on *node, k identity.Grant, _ string) {
			on.admin().exec(`UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`, tenant)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := a.admin().key(tenant, authz.Admin, authz.Wildcard)
			session, cookie := a.admin().signIn(tenant, key.UserID, identity.Device{})
			headers := []string{"Authorization", "Bearer " + string(key.RawKey)}
			if c.name == "session" {
				headers = cookie
			}
			stream := b.open(t, "/api/v1/notifications/stream", headers...)
			if got := b.send("GET", "/api/v1/me", "", headers...); got.StatusCode != 200 {
				t.Fatalf("%d %s", got.StatusCode, got.raw)
			}
			c.kill(a, key, session)
			since := time.Now()
			eventually(t, func() bool { return b.send("GET", "/api/v1/me", "", headers...).json["code"] == c.code })
			if took := time.Since(since); took > 2*time.Second { // one, and what the polling takes
				t.Errorf("it took %v", took)
			}
			ends(t, c.name, stream, since)
		})
	}
}
