package compat

import (
	"fmt"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
)

// Every refusal of the chat routes comes in their envelope, with the type that
// OpenAI's clients know.
func TestChatRefusals(t *testing.T) {
	t.Parallel()
	g := apptest.StartWithRoles(t)
	owner := g.WithKey(g.KeyFor(authz.Owner, "*"))
	agent, asleep := owner.CreateAgent(object{"model": apptest.EchoModel}), owner.CreateAgent(nil)
	owner.Expect(200, "POST", "/api/v1/agents/"+asleep+"/suspend", nil)
	const path = "/v1/chat/completions"
	ask := func(model string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`
	}
	revoked := g.Admin.CreateKey(g.Tenant, authz.Owner, authz.Wildcard)
	g.WithKey(string(revoked.RawKey)).Expect(200, "DELETE", apptest.KeysPath+"/"+revoked.KeyID, nil)
	for _, c := range []struct {
		name, method, path, key, body string
		status                        int
		kind, code                    string
		param                         any
	}{
		{"no_key", "POST", path, "none", ask(agent), 401, "authentication_error", "AUTH_ERROR", nil},
		{"revoked_key", "POST", path, string(revoked.RawKey), ask(agent), 401, "authentication_error", "AUTH_ERROR", nil},
		{"no_scope", "POST", path, g.KeyFor(authz.Owner, "runs:read"), ask(agent), 403, "permission_error", "MISSING_SCOPE", nil},
		{"role", "POST", path, g.KeyFor(authz.Viewer, "*"), ask(agent), 403, "permission_error", "FORBIDDEN", nil},
		{"suspended_company", "GET", "/v1/models", apptest.SuspendedTenant(t, g.Admin), "", 403, "permission_error", "TENANT_SUSPENDED", nil},
		{"malformed", "POST", path, "", "{", 400, "invalid_request_error", "INVALID_REQUEST", nil},
		{"no_model", "POST", path, "", `{"messages":[{"role":"user","content":"x"}]}`, 422, "invalid_request_error", "VALIDATION_ERROR", "model"},
		{"no_messages", "POST", path, "", `{"model":"` + agent + `"}`, 422, "invalid_request_error", "VALIDATION_ERROR", "messages"},
		{"empty_messages", "POST", path, "", `{"model":"` + agent + `","messages":[]}`, 422, "invalid_request_error", "VALIDATION_ERROR", "messages"},
		{"role_of_message", "POST", path, "", `{"model":"` + agent + `","messages":[{"role":"king","content":"x"}]}`, 422, "invalid_request_error", "VALIDATION_ERROR", "messages[0].role"},
		{"nothing_said", "POST", path, "", `{"model":"` + agent + `","messages":[{"role":"user","content":""}]}`, 422, "invalid_request_error", "VALIDATION_ERROR", "messages"},
		{"absent_agent", "POST", path, "", ask(ident.New()), 404, "invalid_request_error", "model_not_found", nil},
		{"no_id", "POST", path, "", ask("gpt-4o"), 404, "invalid_request_error", "model_not_found", nil},
		{"empty_model", "POST", path, "", ask(""), 404, "invalid_request_error", "model_not_found", nil},
		{"suspended_agent", "POST", path, "", ask(asleep), 409, "invalid_request_error", "INVALID_STATE_TRANSITION", nil},
		{"absent_model", "GET", "/v1/models/" + ident.New(), "", "", 404, "invalid_request_error", "model_not_found", nil},
		{"absent_model_long", "GET", "/v1/models/agent/" + ident.New(), "", "", 404, "invalid_request_error", "model_not_found", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := c.key
			if key == "" {
				key = owner.Key
			}
			headers := []string{"Authorization", "Bearer " + key, "Content-Type", "application/json"}
			if c.key == "none" {
				headers = headers[2:]
			}
			r := g.SendHeaders(c.method, c.path, c.body, headers...)
			(&contracttest.Operation{ChatErrors: true}).CheckRefusal(t, r, c.status, c.code)
			if r.StatusCode != c.status {
				return
			}
			inner := r.JSON["error"].(object)
			if inner["type"] != c.kind || inner["param"] != c.param {
				t.Errorf("type %v, param %v; want %s, %v", inner["type"], inner["param"], c.kind, c.param)
			}
		})
	}
	// A streamed request is refused in the same way, before any frame.
	r := owner.Do("POST", path, `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	(&contracttest.Operation{ChatErrors: true}).CheckRefusal(t, r, 404, "model_not_found")
}

// X-Active-Tenant may name the key's own company and no other (section 4).
func TestActiveTenant(t *testing.T) {
	t.Parallel()
	g := apptest.StartWithRoles(t)
	n := g.WithKey(g.KeyFor(authz.Owner, "*"))
	for _, path := range []string{"/v1/models", "/v1/models/" + n.CreateAgent(nil)} {
		for _, own := range []string{g.Tenant, ""} {
			if r := n.Do("GET", path, nil, "X-Active-Tenant", own); r.StatusCode != 200 {
				t.Errorf("%s for %q: %d %s", path, own, r.StatusCode, r.Body)
			}
		}
		for _, other := range []string{ident.New(), "x", strings.ToUpper(g.Tenant), g.Tenant + "," + g.Tenant} {
			(&contracttest.Operation{ChatErrors: true}).CheckRefusal(t, n.Do("GET", path, nil, "X-Active-Tenant", other), 400, "INVALID_REQUEST")
		}
	}
}

// The company's agents, suspended ones included, as a list of models.
func TestModels(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	if r := n.Do("GET", "/v1/models", nil); fmt.Sprint(r.JSON["data"]) != "[]" || r.JSON["object"] != "list" {
		t.Errorf("without agents: %s", r.Body)
	}
	first, second := n.CreateAgent(object{"name": "first"}), n.CreateAgent(object{"name": "second"})
	n.Expect(200, "POST", "/api/v1/agents/"+first+"/suspend", nil)
	found := map[string]object{}
	for _, item := range n.Expect(200, "GET", "/v1/models", nil)["data"].([]any) {
		m := item.(object)
		found[m["id"].(string)] = m
	}
	if len(found) != 2 || found[first]["display_name"] != "first" || found[second]["display_name"] != "second" {
		t.Errorf("%v", found)
	}
	for id, m := range found {
		if m["object"] != "model" || m["owned_by"] == "" || m["created"].(float64) < 1e9 {
			t.Errorf("%v", m)
		}
		for _, path := range []string{id, "agent/" + id, "agent%2F" + id} {
			if got := n.Expect(200, "GET", "/v1/models/"+path, nil); got["id"] != id || got["display_name"] != m["display_name"] {
				t.Errorf("%s: %v", path, got)
			}
		}
	}
}
