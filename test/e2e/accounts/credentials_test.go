package accounts

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A signed-in browser does what its member may, shows among the devices, and
// is signed out for good.
func TestBrowserSessions(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		tenant, user := n.Me()
		id, cookie := n.Admin().OpenBrowserSession(tenant, user, identity.Device{Label: "Firefox", Method: "otp"})
		other, otherCookie := n.Admin().OpenBrowserSession(tenant, user, identity.Device{Label: "Phone", Method: "otp"})

		who := n.SendHeaders("GET", "/api/v1/me", "", cookie...)
		if who.StatusCode != 200 || who.JSON["auth_method"] != "cookie" || who.JSON["role"] != "owner" {
			t.Fatalf("%d %s", who.StatusCode, who.Body)
		}
		write := append([]string{"Content-Type", "application/json"}, cookie...)
		if made := n.SendHeaders("POST", "/api/v1/agents", `{"name":"made in a browser"}`, append(write, "Sec-Fetch-Site", "same-origin")...); made.StatusCode != 201 {
			t.Errorf("%d %s", made.StatusCode, made.Body)
		}
		apptest.CheckCode(t, n.SendHeaders("POST", "/api/v1/agents", `{"name":"x"}`, append(write, "Sec-Fetch-Site", "cross-site")...), 403, "FORBIDDEN")
		made := n.SendHeaders("POST", "/api/v1/tenants/me/keys", `{"name":"by hand"}`, append(write, "Idempotency-Key", "once")...)
		again := n.SendHeaders("POST", "/api/v1/tenants/me/keys", `{"name":"by hand"}`, append(write, "Idempotency-Key", "once")...)
		if made.StatusCode != 201 || made.JSON["raw_key"] == nil || again.JSON["key_id"] != made.JSON["key_id"] ||
			again.JSON["raw_key"] != nil || again.JSON["secret_shown_once"] != true {
			t.Errorf("%d %s, repeated %s", made.StatusCode, made.Body, again.Body)
		}

		list := n.SendHeaders("GET", "/api/v1/me/sessions", "", cookie...).JSON["items"].([]any)
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

		if got := n.SendHeaders("DELETE", "/api/v1/me/sessions/"+other, "", cookie...); got.StatusCode != 200 || got.JSON["key_id"] != other {
			t.Errorf("%d %s", got.StatusCode, got.Body)
		}
		apptest.CheckCode(t, n.SendHeaders("GET", "/api/v1/me", "", otherCookie...), 401, "AUTH_ERROR")
		out := n.SendHeaders("POST", "/api/v1/auth/logout", "", cookie...)
		if out.StatusCode != 200 || string(out.Body) != `{"ok":true,"key_id":null}` || out.Header.Get("Set-Cookie") != "svc_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax" {
			t.Errorf("%d %s %q", out.StatusCode, out.Body, out.Header.Get("Set-Cookie"))
		}
		apptest.CheckCode(t, n.SendHeaders("GET", "/api/v1/me", "", cookie...), 401, "AUTH_ERROR")
		apptest.CheckCode(t, n.SendHeaders("POST", "/api/v1/auth/logout", "", cookie...), 401, "AUTH_ERROR")

		_, cookie = n.Admin().OpenBrowserSession(tenant, user, identity.Device{})
		raw := strings.TrimPrefix(cookie[1], "svc_session=")
		for _, headers := range [][]string{
			{"Authorization", "Bearer " + raw}, {"Cookie", "svc_auth_token=" + raw}, {"Cookie", "svc_session=" + n.Key},
		} {
			apptest.CheckCode(t, n.SendHeaders("GET", "/api/v1/me", "", headers...), 401, "AUTH_ERROR")
		}
	})
}

// A key that signs out is revoked.
func TestLogoutOfAKey(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	made := n.Expect(201, "POST", "/api/v1/tenants/me/keys", object{"name": "short-lived"})
	k := n.WithKey(made["raw_key"].(string))
	if got := k.Expect(200, "POST", "/api/v1/auth/logout", nil); got["key_id"] != made["key_id"] || got["ok"] != true {
		t.Errorf("%v", got)
	}
	apptest.CheckCode(t, k.Do("GET", "/api/v1/me", nil), 401, "AUTH_ERROR")
	n.Expect(200, "GET", "/api/v1/me", nil)
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
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		run := n.StartRun(n.CreateAgent(nil), "wait", nil)
		events := "/api/v1/runs/" + run + "/events"
		made := n.Expect(201, "POST", "/api/v1/tenants/me/keys", object{"name": "page", "scopes": []string{"runs:read", "memory:read"}})
		page := n.WithKey(made["raw_key"].(string))
		minted := page.Expect(200, "POST", "/api/v1/auth/sse-tokens", nil)
		token := minted["token"].(string)
		if expires, err := time.Parse(time.RFC3339, minted["expires_at"].(string)); err != nil || time.Until(expires) < 50*time.Second || time.Until(expires) > 61*time.Second {
			t.Errorf("%v", minted)
		}
		streams := map[string]*http.Response{
			"query":  n.OpenStream(t, events+"?token="+token),
			"header": n.OpenStream(t, events, "Authorization", "Bearer "+token),
			"cookie": n.OpenStream(t, events, "Cookie", "svc_auth_token="+token),
			"key":    n.OpenStream(t, events, "Authorization", "Bearer "+page.Key),
		}
		kept := n.OpenStream(t, events, "Authorization", "Bearer "+n.Key)

		by := n.WithKey(token)
		apptest.CheckCode(t, by.Do("GET", "/api/v1/notifications/stream", nil, "Accept", "text/event-stream"), 403, "MISSING_SCOPE")
		apptest.CheckCode(t, by.Do("GET", "/api/v1/runs/"+run, nil), 403, "STREAM_TOKEN_ONLY")
		apptest.CheckCode(t, by.Do("POST", "/api/v1/auth/sse-tokens", nil), 403, "STREAM_TOKEN_ONLY")
		apptest.CheckCode(t, by.Do("POST", "/api/v1/auth/logout", nil), 403, "STREAM_TOKEN_ONLY")
		apptest.CheckCode(t, n.WithKey(token+"x").Do("GET", events, nil), 401, "AUTH_ERROR")

		n.Expect(200, "DELETE", "/api/v1/tenants/me/keys/"+made["key_id"].(string), nil)
		revoked := time.Now()
		apptest.CheckCode(t, by.Do("GET", events, nil), 401, "AUTH_ERROR")
		for how, stream := range streams {
			ends(t, how, stream, revoked)
		}
		n.Expect(200, "POST", "/api/v1/runs/"+run+"/cancel", nil)
		if frames, err := io.ReadAll(kept.Body); err != nil || !strings.Contains(string(frames), "[DONE]") {
			t.Errorf("another key's stream: %v %s", err, frames)
		}
	})
}

// What one node revokes does not count on another after a second, and its
// streams there end within five; with and without a hint between them.
func TestRevocationReachesEveryNode(t *testing.T) {
	t.Parallel()
	database := sqldbtest.Migrated(t, sqldbtest.Postgres)
	shared := func(c *config.Config) { c.Storage.DatabaseURL = config.NewURL(database.URL) }
	address := apptest.FreeAddress(t)
	sim := modeltest.New(t, apptest.HangingModel)
	a := apptest.Start(t, sim, shared, apptest.SharedSecretKey, func(c *config.Config) { c.Bus.NATSListen = address })
	b := apptest.Start(t, sim, shared, apptest.SharedSecretKey, func(c *config.Config) { c.Bus.NATSURL = config.NewURL("nats://" + address) })
	made, err := a.Admin().Tenants.Create(t.Context(), "Acme", "")
	if err != nil {
		t.Fatal(err)
	}
	tenant := made.TenantID
	for _, c := range []struct {
		name string
		code string
		kill func(on *apptest.Server, k identity.Grant, session string)
	}{
		{"key", "AUTH_ERROR", func(on *apptest.Server, k identity.Grant, _ string) {
			on.WithKey(string(k.RawKey)).Expect(200, "DELETE", "/api/v1/tenants/me/keys/"+k.KeyID, nil)
		}},
		{"session", "AUTH_ERROR", func(on *apptest.Server, k identity.Grant, session string) {
			on.WithKey(string(k.RawKey)).Expect(200, "DELETE", "/api/v1/me/sessions/"+session, nil)
		}},
		{"member", "MEMBER_SUSPENDED", func(on *apptest.Server, k identity.Grant, _ string) {
			on.Admin().Exec(`UPDATE users SET status = 'suspended' WHERE user_id = ?`, k.UserID)
		}},
		{"tenant", "TENANT_SUSPENDED", func(on *apptest.Server, k identity.Grant, _ string) {
			on.Admin().Exec(`UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`, tenant)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := a.Admin().CreateKey(tenant, authz.Admin, authz.Wildcard)
			session, cookie := a.Admin().OpenBrowserSession(tenant, key.UserID, identity.Device{})
			headers := []string{"Authorization", "Bearer " + string(key.RawKey)}
			if c.name == "session" {
				headers = cookie
			}
			stream := b.OpenStream(t, "/api/v1/notifications/stream", headers...)
			if got := b.SendHeaders("GET", "/api/v1/me", "", headers...); got.StatusCode != 200 {
				t.Fatalf("%d %s", got.StatusCode, got.Body)
			}
			c.kill(a, key, session)
			since := time.Now()
			apptest.Eventually(t, func() bool { return b.SendHeaders("GET", "/api/v1/me", "", headers...).JSON["code"] == c.code })
			if took := time.Since(since); took > 2*time.Second { // one, and what the polling takes
				t.Errorf("it took %v", took)
			}
			ends(t, c.name, stream, since)
		})
	}
}

// However busy a key is, no request that begins after its revocation was answered
// succeeds.
func TestRevokedKeysDoNothing(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		tenant := n.TenantID()
		for range 4 {
			key := n.Admin().CreateKey(tenant, authz.Admin, authz.Wildcard)
			by := n.WithKey(string(key.RawKey))
			var revoked atomic.Bool
			var before, after, wrong atomic.Int32
			var callers sync.WaitGroup
			for range 4 {
				callers.Go(func() {
					for after.Load() < 40 {
						late := revoked.Load()
						status := by.Do("GET", "/api/v1/agents", nil).StatusCode
						switch {
						case !late:
							before.Add(1)
						case status == http.StatusUnauthorized:
							after.Add(1)
						default:
							wrong.Add(1)
							after.Add(1)
						}
					}
				})
			}
			apptest.Eventually(t, func() bool { return before.Load() > 20 })
			by.Expect(200, "DELETE", "/api/v1/tenants/me/keys/"+key.KeyID, nil)
			revoked.Store(true)
			callers.Wait()
			if wrong.Load() > 0 {
				t.Errorf("%d of %d requests succeeded with a revoked key", wrong.Load(), after.Load())
			}
		}
	})
}
