package protocol

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// savedAddress is a field in which a tenant saves an address that is called later.
type savedAddress struct {
	create, path string // method and path
	change       string // method of a change, PATCH by default
	item, id     string // path before the id, and the name of the id; "": it cannot be changed
	field        string // that a refusal names
	few          bool   // its creation is rate-limited
	body         func(url string) apptest.Object
}

func savedAddresses(agent string) map[string]savedAddress {
	type object = apptest.Object
	custom := func(url string) object {
		return object{"provider": "custom", "model_ref": "m", "endpoint_url": url}
	}
	return map[string]savedAddress{
		"webhook": {create: "POST", path: "/api/v1/webhooks", field: "url", body: func(url string) object {
			return object{"url": url, "events": []string{"run.completed"}}
		}},
		"agent": {create: "POST", path: "/api/v1/agents", item: "/api/v1/agents/", id: "agent_id", field: "model.endpoint_url",
			body: func(url string) object { return object{"name": "a", "model": custom(url)} }},
		"fallback": {create: "POST", path: "/api/v1/agents", item: "/api/v1/agents/", id: "agent_id", field: "fallback_model.endpoint_url",
			body: func(url string) object { return object{"name": "a", "fallback_model": custom(url)} }},
		"inline MCP server": {create: "POST", path: "/api/v1/agents", item: "/api/v1/agents/", id: "agent_id", field: "mcp.servers[0].url",
			body: func(url string) object {
				return object{"name": "a", "mcp": object{"servers": []object{{"id": "x", "transport": "http", "url": url}}}}
			}},
		"MCP server": {create: "POST", path: "/api/v1/mcp/servers", item: "/api/v1/mcp/servers/", id: "id", field: "url",
			body: func(url string) object { return object{"name": "x", "transport": "http", "url": url, "enabled": false} }},
		"guardrail": {create: "POST", path: "/api/v1/guardrails", item: "/api/v1/guardrails/", id: "guardrail_id", field: "webhook_url",
			body: func(url string) object {
				return object{"name": "g", "kind": "webhook", "stage": "input", "webhook_url": url}
			}},
		"guardrail's config": {create: "POST", path: "/api/v1/guardrails", field: "webhook_url", body: func(url string) object {
			return object{"name": "g", "kind": "webhook", "stage": "input", "config": object{"url": url}}
		}},
		"provider": {create: "PUT", path: "/api/v1/llm-credentials/ours", field: "endpoint_url", body: func(url string) object {
			return object{"api_key": "sk-1234567890", "endpoint_url": strings.TrimSuffix(url, "/") + "/v1"}
		}},
		"session": {create: "POST", path: "/api/v1/sessions", change: "PUT", item: "/api/v1/sessions/", id: "session_id",
			field: "model_override.endpoint_url",
			body:  func(url string) object { return object{"agent_id": agent, "model_override": custom(url)} }},
		"notification target": {create: "POST", path: "/api/v1/notifications/targets", field: "config.url", few: true,
			body: func(url string) object { return object{"label": "x", "config": object{"kind": "webhook", "url": url}} }},
	}
}

// refuses fails unless a save is 422, names the field and says what would be right.
func (a savedAddress) refuses(t *testing.T, n *apptest.Server, method, path, url, reason string) {
	t.Helper()
	r := n.Do(method, path, a.body(url))
	if r.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("%s %s with %s: %d %s", method, path, url, r.StatusCode, r.Body)
		return
	}
	if text := string(r.Body); !strings.Contains(text, `"`+a.field+`"`) || !strings.Contains(text, reason) {
		t.Errorf("%s %s with %s: want %s and %q in %s", method, path, url, a.field, reason, text)
	}
}

// Every address that is saved to be called later is checked when it is saved: in each
// form in which the inside can be written, and against the company's egress rules. An
// address that stays as it is is not checked again, and a name without an address is
// accepted.
func TestNothingInsideIsSaved(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(site.Close)
	address := strings.TrimPrefix(site.URL, "http://")
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		n := apptest.Start(t, modeltest.New(t), adjust, func(c *config.Config) { c.Security.EgressAllow = address })
		id, its := n.CreateTenant(apptest.Object{"name": "Acme"})
		settings := apptest.TenantsPath + "/" + id + "/settings"
		all := savedAddresses(its.CreateAgent(apptest.Object{}))
		saved := map[string]string{}
		for name, a := range all {
			forms := insides
			if a.few {
				forms = insides[:20]
			}
			for _, form := range forms {
				a.refuses(t, its, a.create, a.path, strings.ReplaceAll(form, "PORT", "9"), "")
			}
			a.refuses(t, its, a.create, a.path, "https://10.0.0.1/", "AGENTD_EGRESS_ALLOW")
			for _, good := range []string{"https://nowhere.invalid/", site.URL + "/"} {
				r := its.Do(a.create, a.path, a.body(good))
				if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusCreated {
					t.Errorf("%s at %s: %d %s", name, good, r.StatusCode, r.Body)
				} else if a.id != "" {
					saved[name] = r.Value().(apptest.Object)[a.id].(string)
				}
			}
		}

		n.Expect(200, "PATCH", settings, apptest.Object{"egress_allowlist": []string{"partner.invalid"}})
		for name, a := range all {
			a.refuses(t, its, a.create, a.path, "https://elsewhere.invalid/", "egress_allowlist")
			r := its.Do(a.create, a.path, a.body("https://partner.invalid/"))
			if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusCreated {
				t.Errorf("%s where the rules allow it: %d %s", name, r.StatusCode, r.Body)
			}
			if a.id == "" {
				continue
			}
			path := a.item + saved[name]
			change := cmp.Or(a.change, "PATCH")
			if r := its.Do(change, path, a.body(site.URL+"/")); r.StatusCode != http.StatusOK {
				t.Errorf("%s that stays as it is: %d %s", name, r.StatusCode, r.Body)
			}
			a.refuses(t, its, change, path, "https://elsewhere.invalid/", "egress_allowlist")
			a.refuses(t, its, change, path, "https://169.254.169.254/", a.field)
		}
	})
}

// A rollback brings no address back that the company may not reach any more.
func TestRollbackChecksAddresses(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	id, its := n.CreateTenant(apptest.Object{"name": "Acme"})
	own := its.CreateAgent(savedAddresses("")["agent"].body("https://old.invalid/v1"))
	its.Expect(200, "PATCH", "/api/v1/agents/"+own, savedAddresses("")["agent"].body("https://new.invalid/v1"))
	its.Expect(200, "PATCH", "/api/v1/agents/"+own, apptest.Object{"name": "b"})
	n.Expect(200, "PATCH", apptest.TenantsPath+"/"+id+"/settings", apptest.Object{"egress_allowlist": []string{"partner.invalid"}})
	rollback := "/api/v1/agents/" + own + "/rollback"
	r := its.Do("POST", rollback, apptest.Object{"version": 1})
	r.IsProblem(t, 422, "VALIDATION_ERROR")
	if !strings.Contains(string(r.Body), "model.endpoint_url") {
		t.Errorf("the field is not named: %s", r.Body)
	}
	its.Expect(200, "POST", rollback, apptest.Object{"version": 2}) // the address is the present one
}
