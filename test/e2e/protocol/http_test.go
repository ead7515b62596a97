package protocol

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

// A path that is not served is refused with a problem document.
func TestUnservedPaths(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(nil)
	for _, path := range []string{
		"//", "//x", "/x", "/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/nothing", "/v1", "/v1/nothing", "/v1/chat",
		"/api/v1//agents", "//api/v1/agents", "/api/v1/agents/", "/api/v1/agents//", "/api/v1/runs/", "/v1/models/", "/healthz/",
		"/API/V1/agents", "/api/v1/Agents", "/api/v2/agents", "/api/v1/agents/" + agent + "/", "/api/v1/agents/" + agent + "/nothing",
		"/api/v1/agents%2F" + agent, "/api/v1/./agents", "/api/v1/runs/../agents",
		"/api/v1/agents/../../../etc/passwd", "/api/v1/agents;a=b", "/*", "/{x}", "/%00", "/%ff", "/favicon.ico",
	} {
		for _, method := range apptest.Methods {
			apptest.CheckCode(t, n.SendHeaders(method, path, "", "Authorization", "Bearer "+n.Key), 404, "NOT_FOUND")
		}
	}
	// What takes the place of an id and is none is an absent thing.
	for _, id := range []string{
		"x", "{agentId}", agent + "%2Fversions", strings.ToUpper(agent), strings.ReplaceAll(agent, "-", ""), "%7B" + agent + "%7D",
		"urn:uuid:" + agent, agent + "%00", agent + "%20", "%ff", "0", "-1", "..%2f..", strings.Repeat("9", 5000), "'%20OR%20'1'='1",
	} {
		apptest.CheckCode(t, n.Do("GET", "/api/v1/agents/"+id, nil), 404, "NOT_FOUND")
		apptest.CheckCode(t, n.Do("POST", "/api/v1/runs/"+id+"/cancel", nil), 404, "NOT_FOUND")
		apptest.CheckCode(t, n.Do("DELETE", "/api/v1/tenants/me/keys/"+id, nil), 404, "NOT_FOUND")
	}
	// Nobody needs a key to learn that there is nothing.
	apptest.CheckCode(t, n.SendHeaders("GET", "/api/v1/nothing", ""), 404, "NOT_FOUND")
}

// HEAD is GET without the body.
func TestHead(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"model": apptest.EchoModel})
	run := n.StartRun(agent, "hello", nil)
	n.WaitRun(run)
	for _, path := range []string{
		"/healthz", "/api/v1/agents", "/api/v1/agents/" + agent, "/api/v1/agents/" + ident.New(), "/api/v1/nothing", "/v1/models",
		"/api/v1/runs/" + run + "/events", "/api/v1/runs/" + ident.New() + "/events", "/api/v1/runs/x/events",
	} {
		key := []string{"Authorization", "Bearer " + n.Key, "X-Request-Id", "same-for-both"}
		get, head := n.SendHeaders("GET", path, "", key...), n.SendHeaders("HEAD", path, "", key...)
		for _, name := range []string{"Date", "Content-Length"} {
			get.Header.Del(name)
			head.Header.Del(name)
		}
		if diff := cmp.Diff(get.Header, head.Header); diff != "" || head.StatusCode != get.StatusCode || len(head.Body) > 0 {
			t.Errorf("HEAD %s: %d %q, GET %d\n%s", path, head.StatusCode, head.Body, get.StatusCode, diff)
		}
	}
	if r := n.SendHeaders("HEAD", "/api/v1/agents", ""); r.StatusCode != 401 {
		t.Errorf("HEAD without a key: %d", r.StatusCode)
	}
}

// A caller's request id is kept if it is valid, and replaced otherwise.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	for _, id := range []string{"12345678", "a-b_c.d:e", "A" + strings.Repeat("z", 127), "0.......", ident.New()} {
		for _, path := range []string{"/api/v1/me", "/api/v1/nothing", "/healthz", "/v1/chat/completions"} {
			if r := n.Do("GET", path, nil, "X-Request-Id", id); r.Header.Get("X-Request-Id") != id {
				t.Errorf("%s: %q became %q", path, id, r.Header.Get("X-Request-Id"))
			}
		}
	}
	for _, id := range []string{"", "1234567", strings.Repeat("a", 129), "-2345678", ".2345678", "with space", "ünicode1", "semi;colon", "slash/slash", "1234567\t8", "<script>1"} {
		r := n.Do("GET", "/api/v1/nothing", nil, "X-Request-Id", id)
		if got := r.Header.Get("X-Request-Id"); got == id || !ident.Valid(got) {
			t.Errorf("%q became %q", id, got)
		}
		apptest.CheckCode(t, r, 404, "NOT_FOUND")
	}
}

// The headers that every answer has.
func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
	run := n.StartRun(agent, "hello", nil)
	n.WaitRun(run)
	chat := func(stream bool) string {
		if stream {
			return `{"model":"` + agent + `","stream":true,"messages":[{"role":"user","content":"x"}]}`
		}
		return `{"model":"` + agent + `","messages":[{"role":"user","content":"x"}]}`
	}
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		contentType, cache       string
	}{
		{"read", "GET", "/api/v1/agents", "", 200, "application/json", "no-store"},
		{"created", "POST", "/api/v1/agents", `{"name":"x"}`, 201, "application/json", "no-store"},
		{"accepted", "POST", "/api/v1/runs", `{"agent_id":"` + agent + `","input":{"message":"x"}}`, 202, "application/json", "no-store"},
		{"refused", "POST", "/api/v1/agents", `{}`, 422, "application/problem+json", "no-store"},
		{"malformed", "POST", "/api/v1/agents", `{`, 400, "application/problem+json", "no-store"},
		{"absent", "GET", "/api/v1/runs/" + ident.New(), "", 404, "application/problem+json", "no-store"},
		{"no_path", "GET", "/nothing", "", 404, "application/problem+json", "no-store"},
		{"no_method", "PUT", "/api/v1/agents", "", 405, "application/problem+json", "no-store"},
		{"stream", "GET", "/api/v1/runs/" + run + "/events", "", 200, "text/event-stream", "no-cache"},
		{"chat", "POST", "/v1/chat/completions", chat(false), 200, "application/json", "no-store"},
		{"chat_stream", "POST", "/v1/chat/completions", chat(true), 200, "text/event-stream", "no-cache"},
		{"chat_refused", "POST", "/v1/chat/completions", `{}`, 422, "application/json", "no-store"},
		{"health", "GET", "/healthz", "", 200, "application/json", "no-store"},
		{"document", "GET", "/api/v1/openapi.json", "", 200, "application/json", "no-cache"},
	} {
		t.Run(c.name, func(t *testing.T) {
			headers := []string{"Authorization", "Bearer " + n.Key}
			if c.body != "" {
				headers = append(headers, "Content-Type", "application/json")
			}
			r := n.SendHeaders(c.method, c.path, c.body, headers...)
			if r.StatusCode != c.status {
				t.Fatalf("status %d, want %d: %s", r.StatusCode, c.status, r.Body)
			}
			apptest.CheckHeaders(t, r)
			if got := r.Header.Get("Content-Type"); got != c.contentType {
				t.Errorf("Content-Type is %q, want %q", got, c.contentType)
			}
			if got := r.Header.Get("Cache-Control"); got != c.cache {
				t.Errorf("Cache-Control is %q, want %q", got, c.cache)
			}
			for _, name := range []string{"Server", "X-Powered-By", "Strict-Transport-Security", "Deprecation"} {
				if got := r.Header.Get(name); got != "" {
					t.Errorf("%s is %q", name, got)
				}
			}
		})
	}
	// No version is negotiated (section 9.2).
	r := n.Do("GET", "/api/v1/me", nil, "X-Api-Version", "2020-01-01")
	apptest.CheckHeaders(t, r)
}

// Probes and metrics need no key.
func TestHealthNeedsNoKey(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	for path, status := range map[string]string{
		"/healthz": "healthy", "/health": "healthy", "/api/v1/health": "healthy", "/health/live": "ok",
		"/readyz": "ready", "/ready": "ready", "/health/ready": "ready",
	} {
		for _, headers := range [][]string{nil, {"Authorization", "Bearer wrong"}} {
			r := n.SendHeaders("GET", path, "", headers...)
			if r.StatusCode != 200 || r.JSON["status"] != status {
				t.Errorf("%s: %d %s", path, r.StatusCode, r.Body)
			}
		}
	}
	r := n.SendHeaders("GET", "/metrics", "")
	for _, series := range []string{"go_goroutines", "agentd_"} {
		if !strings.Contains(string(r.Body), series) {
			t.Errorf("/metrics has no %s", series)
		}
	}
	if doc := n.SendHeaders("GET", "/api/v1/openapi.json", ""); doc.JSON["openapi"] != "3.1.0" {
		t.Errorf("the document: %d %.100s", doc.StatusCode, doc.Body)
	}
}

func TestVersionIsNotNegotiated(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	for _, asked := range []string{"2020-01-01", "nonsense"} {
		r := n.Do("GET", "/api/v1/me", nil, "X-API-Version", asked)
		if r.StatusCode != 200 || r.Header.Get("X-API-Version") != "2026-09-10" {
			t.Errorf("asked for %s: %d %s", asked, r.StatusCode, r.Header.Get("X-API-Version"))
		}
	}
}

func TestStatusesOfWrites(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	made := n.Expect(201, "POST", "/api/v1/agents", object{"name": "a"})
	path := "/api/v1/agents/" + made["agent_id"].(string)
	if whole := n.Expect(200, "GET", path, nil); len(whole) != len(made) {
		t.Errorf("the create answers %d fields of %d", len(made), len(whole))
	}
	n.Expect(200, "POST", path+"/suspend", object{})
	if p := n.Expect(409, "POST", path+"/suspend", object{}); p["code"] != "INVALID_STATE_TRANSITION" {
		t.Errorf("suspending twice: %v", p)
	}
	n.Expect(200, "POST", path+"/activate", object{})
	if r := n.Do("DELETE", path, nil); r.StatusCode != 200 || r.JSON["deleted"] != true {
		t.Errorf("deleting: %d %s", r.StatusCode, r.Body)
	}
	n.Expect(404, "GET", path, nil)
}
