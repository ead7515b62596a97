package accounts

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// Where a company has egress rules, its agents, its models and its webhooks reach
// what these name and nothing else, from the answer to a change on; another
// company is not concerned.
func TestEgressRules(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the page") }))
	t.Cleanup(site.Close)
	address := strings.TrimPrefix(site.URL, "http://")
	sim := modeltest.New(t, modeltest.Respond(apptest.CallOnce("http_fetch", fmt.Sprintf(`{"url":%q}`, site.URL+"/"))))
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		n := apptest.Start(t, sim, adjust, func(c *config.Config) { c.Security.EgressAllow = "127.0.0.0/8" })
		id, its := n.CreateTenant(object{"name": "Acme"})
		path := apptest.TenantsPath + "/" + id + "/settings"
		fetch := func(n *apptest.Server) string {
			text, _ := n.RunTool("http_fetch")
			return text
		}
		if text := fetch(its); !strings.Contains(text, "the page") {
			t.Fatalf("without rules: %s", text)
		}
		own := its.CreateAgent(object{"model": object{"provider": "custom", "endpoint_url": site.URL + "/v1", "model_ref": "m"}})

		r := n.Do("PATCH", path, object{"egress_allowlist": []string{"ok.example", "10.0.0.0/8"}})
		r.IsProblem(t, 422, "VALIDATION_ERROR")
		if body := string(r.Body); !strings.Contains(body, "egress_allowlist[1]") || !strings.Contains(body, "AGENTD_EGRESS_ALLOW") {
			t.Errorf("the entry is not named: %s", body)
		}
		n.Do("PATCH", path, object{"egress_allowlist": nil}).IsProblem(t, 422, "VALIDATION_ERROR")
		set := n.Expect(200, "PATCH", path, object{"egress_allowlist": []string{"partner.example", "*.partner.example:443"}})["settings"].(object)
		if fmt.Sprint(set["egress_allowlist"]) != "[partner.example *.partner.example:443]" || set["purge_protection"] != false {
			t.Errorf("the settings are %v", set)
		}

		if text := fetch(its); !strings.Contains(text, "egress") {
			t.Errorf("an agent reaches what its company may not: %s", text)
		}
		if text := fetch(n); !strings.Contains(text, "the page") {
			t.Errorf("another company is concerned: %s", text)
		}
		hook := its.Do("POST", "/api/v1/webhooks", object{"url": site.URL, "events": []string{"run.completed"}})
		if hook.IsProblem(t, 422, "VALIDATION_ERROR"); !strings.Contains(string(hook.Body), "egress_allowlist") {
			t.Errorf("a webhook elsewhere: %s", hook.Body)
		}
		if failed := its.WaitRun(its.StartRun(own, "Hi", nil)); failed["status"] != "failed" {
			t.Errorf("a model elsewhere: %v", failed)
		}

		n.Expect(200, "PATCH", path, object{"egress_allowlist": []string{address}})
		if text := fetch(its); !strings.Contains(text, "the page") {
			t.Errorf("what is allowed now: %s", text)
		}
		n.Expect(200, "PATCH", path, object{"egress_allowlist": []string{}})
		its.Expect(201, "POST", "/api/v1/webhooks", object{"url": site.URL, "events": []string{"run.completed"}})
	})
}
