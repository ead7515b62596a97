package accounts

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/authz"
	"agentd/internal/kernel/model/modeltest"
)

// Where a key may be sent, and which of several is used.
func TestCredentials(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
	run := n.StartRun(agent, "hello", nil)
	n.WaitRun(run)
	const (
		bearer = "Bearer " + apptest.OwnerKey
		cookie = "svc_auth_token=" + apptest.OwnerKey
		wrong  = "svc_wrongkey_0123456789abcdefghijklmnopqrstuv"
		me     = "/api/v1/me"
		accept = "text/event-stream"
	)
	events := "/api/v1/runs/" + run + "/events"
	for _, c := range []struct {
		name, method, path string
		headers            []string
		status             int
	}{
		{"bearer", "GET", me, []string{"Authorization", bearer}, 200},
		{"bearer_lower_case", "GET", me, []string{"Authorization", "bearer " + apptest.OwnerKey}, 200},
		{"bearer_spaces", "GET", me, []string{"Authorization", "Bearer  " + apptest.OwnerKey + " "}, 200},
		{"nothing", "GET", me, nil, 401},
		{"empty", "GET", me, []string{"Authorization", ""}, 401},
		{"only_scheme", "GET", me, []string{"Authorization", "Bearer"}, 401},
		{"empty_key", "GET", me, []string{"Authorization", "Bearer "}, 401},
		{"no_scheme", "GET", me, []string{"Authorization", apptest.OwnerKey}, 401},
		{"basic", "GET", me, []string{"Authorization", "Basic " + apptest.OwnerKey}, 401},
		{"shorter", "GET", me, []string{"Authorization", bearer[:len(bearer)-1]}, 401},
		{"longer", "GET", me, []string{"Authorization", bearer + "a"}, 401},
		{"huge", "GET", me, []string{"Authorization", "Bearer " + strings.Repeat("a", 20_000)}, 401},
		{"upper_case_key", "GET", me, []string{"Authorization", "Bearer " + strings.ToUpper(apptest.OwnerKey)}, 401},
		{"two_keys_in_one", "GET", me, []string{"Authorization", bearer + ", " + bearer}, 401},
		{"two_headers", "GET", me, []string{"Authorization", bearer, "Authorization", bearer}, 401},
		{"two_headers_wrong_second", "GET", me, []string{"Authorization", bearer, "Authorization", "Bearer " + wrong}, 401},

		{"cookie", "GET", me, []string{"Cookie", cookie}, 200},
		{"cookie_among_others", "GET", me, []string{"Cookie", "a=b; " + cookie + "; c=d"}, 200},
		{"cookie_wrong", "GET", me, []string{"Cookie", "svc_auth_token=" + wrong}, 401},
		{"cookie_of_another_name", "GET", me, []string{"Cookie", "auth_token=" + apptest.OwnerKey}, 401},
		{"cookie_read_from_elsewhere", "GET", me, []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, 200},
		{"cookie_write_from_here", "POST", "/api/v1/agents", []string{"Cookie", cookie, "Sec-Fetch-Site", "same-origin"}, 201},
		{"cookie_write_by_no_browser", "POST", "/api/v1/agents", []string{"Cookie", cookie}, 201},
		{"cookie_write_from_elsewhere", "POST", "/api/v1/agents", []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, 403},
		{"cookie_write_from_a_sister", "POST", "/api/v1/agents", []string{"Cookie", cookie, "Sec-Fetch-Site", "same-site"}, 403},
		{"cookie_write_other_origin", "POST", "/api/v1/agents", []string{"Cookie", cookie, "Origin", "https://evil.example"}, 403},
		{"bearer_write_from_elsewhere", "POST", "/api/v1/agents", []string{"Authorization", bearer, "Sec-Fetch-Site", "cross-site"}, 201},

		{"query_on_stream", "GET", events + "?token=" + apptest.OwnerKey, []string{"Accept", accept}, 200},
		{"query_on_stream_among_types", "GET", events + "?token=" + apptest.OwnerKey, []string{"Accept", "text/html, Text/Event-Stream;q=0.9"}, 200},
		{"query_on_stream_without_accept", "GET", events + "?token=" + apptest.OwnerKey, nil, 401},
		{"query_on_stream_wrong", "GET", events + "?token=" + wrong, []string{"Accept", accept}, 401},
		{"query_elsewhere", "GET", me + "?token=" + apptest.OwnerKey, []string{"Accept", accept}, 401},
		{"query_on_write", "POST", "/api/v1/agents?token=" + apptest.OwnerKey, []string{"Accept", accept}, 401},
		{"query_on_chat", "POST", "/v1/chat/completions?token=" + apptest.OwnerKey, []string{"Accept", accept}, 401},
		{"x_api_key", "GET", me, []string{"X-Api-Key", apptest.OwnerKey}, 401},
		{"x_api_key_on_chat", "GET", "/v1/models", []string{"X-Api-Key", apptest.OwnerKey}, 401},

		{"wrong_header_right_cookie", "GET", me, []string{"Authorization", "Bearer " + wrong, "Cookie", cookie}, 401},
		{"empty_header_right_cookie", "GET", me, []string{"Authorization", "", "Cookie", cookie}, 401},
		{"right_header_wrong_cookie", "GET", me, []string{"Authorization", bearer, "Cookie", "svc_auth_token=" + wrong}, 200},
		{"wrong_header_right_query", "GET", events + "?token=" + apptest.OwnerKey, []string{"Authorization", "Bearer " + wrong, "Accept", accept}, 401},
		{"wrong_cookie_right_query", "GET", events + "?token=" + apptest.OwnerKey, []string{"Cookie", "svc_auth_token=" + wrong, "Accept", accept}, 401},
		{"right_cookie_wrong_query", "GET", events + "?token=" + wrong, []string{"Cookie", cookie, "Accept", accept}, 200},
		{"wrong_x_api_key_right_cookie", "GET", me, []string{"X-Api-Key", wrong, "Cookie", cookie}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := ""
			if c.method == "POST" {
				body = `{"name":"made with a credential"}`
				c.headers = append(c.headers, "Content-Type", "application/json")
			}
			r := n.SendHeaders(c.method, c.path, body, c.headers...)
			switch {
			case c.status < 300 && r.StatusCode == c.status:
			case c.status == 401 && strings.HasPrefix(c.path, "/v1/"):
				(&contracttest.Operation{ChatErrors: true}).CheckRefusal(t, r, 401, "AUTH_ERROR")
			case c.status == 401:
				apptest.CheckCode(t, r, 401, "AUTH_ERROR")
			case c.status == 403:
				apptest.CheckCode(t, r, 403, "FORBIDDEN")
			default:
				t.Errorf("status %d, want %d: %s", r.StatusCode, c.status, r.Body)
			}
			if strings.Contains(string(r.Body), "0123456789abcdefghij") {
				t.Errorf("the answer holds the secret: %s", r.Body)
			}
		})
	}
	for method, headers := range map[string][]string{"api_key": {"Authorization", bearer}, "cookie": {"Cookie", cookie}} {
		if got := n.SendHeaders("GET", me, "", headers...).JSON["auth_method"]; got != method {
			t.Errorf("auth_method is %v, want %s", got, method)
		}
	}
}

// Either of two scopes opens the events of a run.
func TestScopesOfRunStreams(t *testing.T) {
	t.Parallel()
	g := apptest.StartWithRoles(t)
	owner := g.WithKey(g.KeyFor(authz.Owner, authz.Wildcard))
	agent := owner.CreateAgent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
	run := owner.StartRun(agent, "hello", nil)
	owner.WaitRun(run)
	for _, scope := range []authz.Scope{"runs:read", "events:read"} {
		g.WithKey(g.KeyFor(authz.Viewer, scope)).ReadStream("/api/v1/runs/"+run+"/events", "", nil)
	}
	apptest.CheckCode(t, g.WithKey(g.KeyFor(authz.Viewer, "agents:read")).Do("GET", "/api/v1/runs/"+run+"/events", nil), 403, "MISSING_SCOPE")
	apptest.CheckCode(t, g.WithKey(g.KeyFor(authz.Viewer, "events:read")).Do("GET", "/api/v1/runs/"+run, nil), 403, "MISSING_SCOPE")
}

// A revoked key's open streams end within five seconds.
func TestRevocationEndsStreams(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	agent := n.CreateAgent(nil)
	run := n.StartRun(agent, "wait", nil)
	made := n.Expect(201, "POST", "/api/v1/tenants/me/keys", object{"name": "reader"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func(key string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, "GET", n.URL+"/api/v1/runs/"+run+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := apptest.HTTPClient.Do(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		return resp
	}
	read, kept := open(made["raw_key"].(string)), open(n.Key)
	defer read.Body.Close()
	defer kept.Body.Close()
	n.Expect(200, "DELETE", "/api/v1/tenants/me/keys/"+made["key_id"].(string), nil)
	revoked := time.Now()
	frames, err := io.ReadAll(read.Body)
	if took := time.Since(revoked); took > 5*time.Second {
		t.Errorf("the stream ended after %v (%v)", took, err)
	}
	if strings.Contains(string(frames), "[DONE]") {
		t.Errorf("the stream says that the run is done: %s", frames)
	}
	// Another key's stream of the same run goes on to the run's end.
	n.Expect(200, "POST", "/api/v1/runs/"+run+"/cancel", nil)
	if frames, err := io.ReadAll(kept.Body); err != nil || !strings.Contains(string(frames), "[DONE]") {
		t.Errorf("the other stream: %v %s", err, frames)
	}
}
