package app_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/kernel/model/modeltest"
)

// Where a key may come, and which of several counts (interface.md section 5,
// decisions.md D3).
func TestCredentials(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	agent := n.agent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
	run := n.run(agent, "hello", nil)
	n.ended(run)
	const (
		bearer = "Bearer " + ownerKey
		cookie = "svc_auth_token=" + ownerKey
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
		{"bearer_lower_case", "GET", me, []string{"Authorization", "bearer " + ownerKey}, 200},
		{"bearer_spaces", "GET", me, []string{"Authorization", "Bearer  " + ownerKey + " "}, 200},
		{"nothing", "GET", me, nil, 401},
		{"empty", "GET", me, []string{"Authorization", ""}, 401},
		{"only_scheme", "GET", me, []string{"Authorization", "Bearer"}, 401},
		{"empty_key", "GET", me, []string{"Authorization", "Bearer "}, 401},
		{"no_scheme", "GET", me, []string{"Authorization", ownerKey}, 401},
		{"basic", "GET", me, []string{"Authorization", "Basic " + ownerKey}, 401},
		{"shorter", "GET", me, []string{"Authorization", bearer[:len(bearer)-1]}, 401},
		{"longer", "GET", me, []string{"Authorization", bearer + "a"}, 401},
		{"huge", "GET", me, []string{"Authorization", "Bearer " + strings.Repeat("a", 20_000)}, 401},
		{"upper_case_key", "GET", me, []string{"Authorization", "Bearer " + strings.ToUpper(ownerKey)}, 401},
		{"two_keys_in_one", "GET", me, []string{"Authorization", bearer + ", " + bearer}, 401},
		{"two_headers", "GET", me, []string{"Authorization", bearer, "Authorization", bearer}, 401},
		{"two_headers_wrong_second", "GET", me, []string{"Authorization", bearer, "Authorization", "Bearer " + wrong}, 401},

		{"cookie", "GET", me, []string{"Cookie", cookie}, 200},
		{"cookie_among_others", "GET", me, []string{"Cookie", "a=b; " + cookie + "; c=d"}, 200},
		{"cookie_wrong", "GET", me, []string{"Cookie", "svc_auth_token=" + wrong}, 401},
		{"cookie_of_another_name", "GET", me, []string{"Cookie", "auth_token=" + ownerKey}, 401},
		{"cookie_read_from_elsewhere", "GET", me, []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, 200},
		{"cookie_write_from_here", "POST", "/api/v1/agents", []string{"Cookie", cookie, "Sec-Fetch-Site", "same-origin"}, 201},
		{"cookie_write_by_no_browser", "POST", "/api/v1/agents", []string{"Cookie", cookie}, 201},
		{"cookie_write_from_elsewhere", "POST", "/api/v1/agents", []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, 403},
		{"cookie_write_from_a_sister", "POST", "/api/v1/agents", []string{"Cookie", cookie, "Sec-Fetch-Site", "same-site"}, 403},
		{"cookie_write_other_origin", "POST", "/api/v1/agents", []string{"Cookie", cookie, "Origin", "https://evil.example"}, 403},
		{"bearer_write_from_elsewhere", "POST", "/api/v1/agents", []string{"Authorization", bearer, "Sec-Fetch-Site", "cross-site"}, 201},

		{"query_on_stream", "GET", events + "?token=" + ownerKey, []string{"Accept", accept}, 200},
		{"query_on_stream_among_types", "GET", events + "?token=" + ownerKey, []string{"Accept", "text/html, Text/Event-Stream;q=0.9"}, 200},
		{"query_on_stream_without_accept", "GET", events + "?token=" + ownerKey, nil, 401},
		{"query_on_stream_wrong", "GET", events + "?token=" + wrong, []string{"Accept", accept}, 401},
		{"query_elsewhere", "GET", me + "?token=" + ownerKey, []string{"Accept", accept}, 401},
		{"query_on_write", "POST", "/api/v1/agents?token=" + ownerKey, []string{"Accept", accept}, 401},
		{"query_on_chat", "POST", "/v1/chat/completions?token=" + ownerKey, []string{"Accept", accept}, 401},
		{"x_api_key", "GET", me, []string{"X-Api-Key", ownerKey}, 401},
		{"x_api_key_on_chat", "GET", "/v1/models", []string{"X-Api-Key", ownerKey}, 401},

		{"wrong_header_right_cookie", "GET", me, []string{"Authorization", "Bearer " + wrong, "Cookie", cookie}, 401},
		{"empty_header_right_cookie", "GET", me, []string{"Authorization", "", "Cookie", cookie}, 401},
		{"right_header_wrong_cookie", "GET", me, []string{"Authorization", bearer, "Cookie", "svc_auth_token=" + wrong}, 200},
		{"wrong_header_right_query", "GET", events + "?token=" + ownerKey, []string{"Authorization", "Bearer " + wrong, "Accept", accept}, 401},
		{"wrong_cookie_right_query", "GET", events + "?token=" + ownerKey, []string{"Cookie", "svc_auth_token=" + wrong, "Accept", accept}, 401},
		{"right_cookie_wrong_query", "GET", events + "?token=" + wrong, []string{"Cookie", cookie, "Accept", accept}, 200},
		{"wrong_x_api_key_right_cookie", "GET", me, []string{"X-Api-Key", wrong, "Cookie", cookie}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := ""
			if c.method == "POST" {
				body = `{"name":"made with a credential"}`
				c.headers = append(c.headers, "Content-Type", "application/json")
			}
			r := n.send(c.method, c.path, body, c.headers...)
			switch {
			case c.status < 300 && r.StatusCode == c.status:
			case c.status == 401 && strings.HasPrefix(c.path, "/v1/"):
				(&operation{chat: true}).isRefused(t, r, 401, "AUTH_ERROR")
			case c.status == 401:
				checkCode(t, r, 401, "AUTH_ERROR")
			case c.status == 403:
				checkCode(t, r, 403, "FORBIDDEN")
			default:
				t.Errorf("status %d, want %d: %s", r.StatusCode, c.status, r.raw)
			}
			if strings.Contains(string(r.raw), "0123456789abcdefghij") {
				t.Errorf("the answer holds the secret: %s", r.raw)
			}
		})
	}
	for method, headers := range map[string][]string{"api_key": {"Authorization", bearer}, "cookie": {"Cookie", cookie}} {
		if got := n.send("GET", me, "", headers...).json["auth_method"]; got != method {
			t.Errorf("auth_method is %v, want %s", got, method)
		}
	}
}

// The events of a run open with either of two scopes (decisions.md D3).
func TestScopesOfRunStreams(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	owner := g.as(g.holding(authz.Owner, authz.Wildcard))
	agent := owner.agent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
	run := owner.run(agent, "hello", nil)
	owner.ended(run)
	for _, scope := range []authz.Scope{"runs:read", "events:read"} {
		g.as(g.holding(authz.Viewer, scope)).stream("/api/v1/runs/"+run+"/events", "", nil)
	}
	checkCode(t, g.as(g.holding(authz.Viewer, "agents:read")).do("GET", "/api/v1/runs/"+run+"/events", nil), 403, "MISSING_SCOPE")
	checkCode(t, g.as(g.holding(authz.Viewer, "events:read")).do("GET", "/api/v1/runs/"+run, nil), 403, "MISSING_SCOPE")
}

// A revoked key's open streams end within five seconds (decisions.md D3).
func TestRevocationEndsStreams(t *testing.T) {
	t.Parallel()
	n := start(t, modeltest.New(t, silent))
	agent := n.agent(nil)
	run := n.run(agent, "wait", nil)
	made := n.want(201, "POST", "/api/v1/tenants/me/keys", object{"name": "reader"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func(key string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, "GET", n.url+"/api/v1/runs/"+run+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := client.Do(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		return resp
	}
	read, kept := open(made["raw_key"].(string)), open(n.key)
	defer read.Body.Close()
	defer kept.Body.Close()
	n.want(200, "DELETE", "/api/v1/tenants/me/keys/"+made["key_id"].(string), nil)
	revoked := time.Now()
	frames, err := io.ReadAll(read.Body)
	if took := time.Since(revoked); took > 5*time.Second {
		t.Errorf("the stream ended after %v (%v)", took, err)
	}
	if strings.Contains(string(frames), "[DONE]") {
		t.Errorf("the stream says that the run is done: %s", frames)
	}
	// Another key's stream of the same run goes on to the run's end.
	n.want(200, "POST", "/api/v1/runs/"+run+"/cancel", nil)
	if frames, err := io.ReadAll(kept.Body); err != nil || !strings.Contains(string(frames), "[DONE]") {
		t.Errorf("the other stream: %v %s", err, frames)
	}
}
