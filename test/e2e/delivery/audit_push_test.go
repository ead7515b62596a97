package delivery

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/base/ident"
	"agentd/internal/base/secret"
)

// New entries of every company reach the operator's receiver, those of an earlier
// life of the server and of the command line included, and nobody waits for it.
func TestAuditIsPushed(t *testing.T) {
	t.Parallel()
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			down, got := true, map[string]bool{}
			siem := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if down {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				var body struct {
					Entries []struct {
						Action, TenantID, TargetID string
					}
				}
				if err := json.UnmarshalRead(r.Body, &body, json.MatchCaseInsensitiveNames(true)); err != nil {
					t.Error(err)
				}
				for _, e := range body.Entries {
					got[e.TenantID+" "+e.Action+" "+e.TargetID] = true
				}
			}))
			t.Cleanup(siem.Close)
			n := apptest.Start(t, nil, apptest.OnEngine(t, engine), func(c *config.Config) {
				c.Observability.AuditPush = config.NewURL(siem.URL)
				c.Observability.AuditPushSecret = secret.New("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz")
			})
			id, acme := n.CreateTenant(object{"name": "Acme"})
			agent := acme.CreateAgent(nil)
			n.Stop()
			mu.Lock()
			down = false
			mu.Unlock()
			n2 := apptest.Restart(t, n.Config)
			key := n2.WithKey(acme.Key).Expect(201, "POST", "/api/v1/tenants/me/keys", object{"name": "k"})["key_id"].(string)
			apptest.Eventually(t, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return got[id+" agent.created "+agent] && got[id+" api_key.created "+key]
			})
			apptest.Eventually(t, func() bool { return len(n2.Admin().Query(`SELECT entry_id FROM audit_unsent`)) == 0 })
		})
	}
}

// An export is lines of JSON, can be resumed, and is in the log itself.
func TestAuditIsExported(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		id, acme := n.CreateTenant(object{"name": "Acme"})
		insert := `INSERT INTO audit_log (tenant_id, at, entry_id, action, actor_tenant_id, actor_user_id, actor_key_id, actor_session_id,
			method, target_type, target_id, details, ip_address, request_id) VALUES (?, ?, ?, 'a', ?, '', '', '', 'system', '', '', '{}', '', '')`
		for i := range 3 { // of long ago
			n.Admin().Exec(insert, id, i+1, ident.New(), id)
		}
		path := "/api/v1/admin/audit/export"
		read := func(query string) (lines []object) {
			t.Helper()
			got := acme.Do("GET", path+query, nil)
			if got.StatusCode != 200 || got.Header.Get("Content-Type") != "application/x-ndjson" {
				t.Fatalf("%d %v %s", got.StatusCode, got.Header, got.Body)
			}
			for line := range strings.Lines(string(got.Body)) {
				lines = append(lines, apptest.ParseObject(t, line))
			}
			return lines
		}
		all := read("")
		if len(all) != 3 {
			t.Fatalf("%v", all)
		}
		rest := read("?limit=1&after=" + url.QueryEscape(all[1]["cursor"].(string)))
		if len(rest) != 1 || rest[0]["entry_id"] != all[2]["entry_id"] {
			t.Errorf("%v", rest)
		}
		if none := read("?after=" + url.QueryEscape(all[2]["cursor"].(string))); len(none) != 0 {
			t.Errorf("%v", none)
		}
		acme.Do("GET", path+"?after=nonsense", nil).IsProblem(t, 422, "INVALID_CURSOR")
		acme.WithScopes("agents:read").Do("GET", path, nil).IsProblem(t, 403, "MISSING_SCOPE")
		acme.Do("GET", path+"?tenant_id="+n.TenantID(), nil).IsProblem(t, 403, "FORBIDDEN")
		if head := acme.Do("HEAD", path, nil); head.StatusCode != 200 || len(head.Body) > 0 {
			t.Errorf("HEAD: %d %s", head.StatusCode, head.Body)
		}
	})
}
