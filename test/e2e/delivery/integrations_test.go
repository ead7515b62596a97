package delivery

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// callsItself lets tenants call this machine.
func callsItself(c *config.Config) { c.Security.EgressAllow = "127.0.0.0/8" }

// weather is a service with an OpenAPI document.
func weather(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/openapi.json" {
			_ = json.MarshalWrite(w, object{"openapi": "3.1.0", "paths": object{"/weather/{city}": object{
				"get":  object{"operationId": "getWeather", "parameters": []object{{"name": "city", "in": "path", "schema": object{"type": "string"}}}},
				"post": object{"operationId": "setWeather", "parameters": []object{{"name": "city", "in": "path", "schema": object{"type": "string"}}}},
			}}})
			return
		}
		_ = json.MarshalWrite(w, object{"asked": r.Method + " " + r.URL.Path})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// An agent calls the service that it is linked to; approvals hold for the tool as for any
// other, and the run remembers where it has read.
func TestIntegrationInARun(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		return apptest.CallOnce(r.Chat().Last("user"), `{"city":"Paris"}`)(r)
	}))
	n := apptest.Start(t, sim, callsItself)
	url := weather(t)
	agent := n.CreateAgent(object{"approval_required_tools": []string{"setWeather"}})
	made := n.Expect(201, "POST", "/api/v1/agents/"+agent+"/integrations",
		object{"connector_id": "http", "name": "Weather", "config": object{"spec_url": url + "/openapi.json", "base_url": url}})
	if made["status"] != "active" || made["tool_count"] != 2.0 {
		t.Fatalf("the integration is %v", made)
	}
	run := n.WaitRun(n.StartRun(agent, "getWeather", nil))
	if got := apptest.OutputText(run); !strings.Contains(got, "GET /weather/Paris") {
		t.Errorf("%v: %q", run["status"], got)
	}
	waits := n.StartRun(agent, "setWeather", nil)
	n.WaitStatus(waits, "awaiting_approval")
	n.Expect(200, "POST", "/api/v1/runs/"+waits+"/approve", object{})
	if got := apptest.OutputText(n.WaitRun(waits)); !strings.Contains(got, "POST /weather/Paris") {
		t.Errorf("after the approval: %q", got)
	}
	n.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)
	apptest.Eventually(t, func() bool {
		got := n.Expect(200, "GET", "/api/v1/integrations/"+made["id"].(string), nil)
		return len(got["assigned_agent_ids"].([]any)) == 0
	})
}

// The operator's OAuth clients are where people are sent; secrets are not shown; a
// connector that is switched off is gone, with its tools.
func TestSettingsOfIntegrations(t *testing.T) {
	t.Parallel()
	asked := make(chan http.Header, 1)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked <- http.Header{"Id": {r.PostForm.Get("client_id")}, "Secret": {r.PostForm.Get("client_secret")}}
		w.WriteHeader(400)
	}))
	defer provider.Close()
	n := apptest.Start(t, modeltest.New(t), callsItself)
	const path = "/api/v1/admin/config/integrations"
	set := n.Do("PUT", path, object{"providers": object{"github": object{
		"client_id": "our-client", "client_secret": "our-secret", "authorize_url": "https://git.example/authorize", "token_url": provider.URL,
	}}})
	if set.StatusCode != 200 || strings.Contains(string(set.Body), "our-secret") {
		t.Fatalf("the settings are %s", set.Body)
	}
	begun := n.Expect(200, "POST", "/api/v1/integrations/github/oauth/start", object{})
	if at := begun["auth_url"].(string); !strings.HasPrefix(at, "https://git.example/authorize?") || !strings.Contains(at, "client_id=our-client") {
		t.Errorf("people are sent to %s", at)
	}
	n.Do("POST", "/api/v1/integrations/github/oauth/complete", object{"state": begun["state"], "code": "a-code"}).IsProblem(t, 503, "OAUTH_FAILED")
	if got := <-asked; got.Get("Id") != "our-client" || got.Get("Secret") != "our-secret" {
		t.Errorf("the provider received %v", got)
	}
	page := n.Do("GET", "/api/v1/integrations/github/oauth/callback?state="+n.Expect(200, "POST", "/api/v1/integrations/github/oauth/start", object{})["state"].(string)+
		"&code=$(evil)", nil, "Accept", "text/html")
	if page.StatusCode != 200 || !strings.Contains(string(page.Body), "<form") || strings.Contains(string(page.Body), "integration complete") {
		t.Errorf("the page is %d %s", page.StatusCode, page.Body)
	}
	if r := n.Do("GET", "/api/v1/integrations/github/oauth/callback?state=x&code=y", nil); r.StatusCode != 400 {
		t.Errorf("a state that was made up: %d", r.StatusCode)
	}

	n.Expect(200, "PUT", path, object{"providers": object{"github": nil}, "disabled": []string{"github"}})
	n.Do("POST", "/api/v1/integrations", object{"connector_id": "github", "name": "x", "config": object{"token": "a"}}).IsProblem(t, 422, "VALIDATION_ERROR")
	for _, c := range n.Expect(200, "GET", path, nil)["integrations"].([]any) {
		if got := c.(object); got["enabled"] != (got["id"] != "github") {
			t.Errorf("the settings say %v", got)
		}
	}
	for name, body := range map[string]object{
		"unknown connector": {"disabled": []string{"nothing"}}, "no client": {"providers": object{"x": object{"client_id": ""}}},
		"bad address": {"providers": object{"x": object{"client_id": "a", "token_url": "file:///etc/passwd"}}}, "bad name": {"providers": object{"A b": object{"client_id": "a"}}},
	} {
		if r := n.Do("PUT", path, body); r.StatusCode != 422 {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.Body)
		}
	}
}
