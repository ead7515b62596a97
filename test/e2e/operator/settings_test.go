package operator

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

func put(n *apptest.Server, section string, body object) object {
	return n.Expect(200, "PUT", configPath+section, body)
}

// max_steps ends a run that is under way already; the other caps end new runs, also those
// that ask for more (rule D18-runtime).
func TestRuntimeCaps(t *testing.T) {
	t.Parallel()
	var n *apptest.Server
	var calls atomic.Int64
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if len(r.Chat().Tools) == 0 {
			return modeltest.Answer{Text: "That was all."}
		}
		if calls.Add(1) == 2 { // the run is under way
			put(n, "runtime", object{"runtime": object{"max_steps": 3}})
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "c" + time.Now().String(), Name: "calculator", Arguments: `{"expression":"1+1"}`}}}
	}))
	n = apptest.Start(t, sim)
	agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
	r := n.WaitRun(n.StartRun(agent, "Go.", object{"resource_limits": object{"max_steps": 50}}))
	if out := r["output"].(object); r["status"] != "completed" || out["truncated"] != true || r["step_seq"].(float64) > 5 {
		t.Errorf("the run under way became %v", r)
	}
	put(n, "runtime", object{"max_steps": nil, "max_tool_calls": 1})
	r = n.WaitRun(n.StartRun(agent, "Go.", nil))
	if got := r["metrics"].(object)["tool_calls_count"]; got.(float64) > 2 || r["output"].(object)["truncated"] != true {
		t.Errorf("with one tool call: %v", r)
	}
	put(n, "runtime", object{"max_tool_calls": nil, "max_tokens_per_run": 1})
	if r = n.WaitRun(n.StartRun(agent, "Go.", nil)); r["output"].(object)["truncated"] != true {
		t.Errorf("with one token: %v", r)
	}
	put(n, "runtime", object{"max_tokens_per_run": nil, "max_duration_ms": 1000})
	slow := modeltest.New(t, modeltest.Respond(func(modeltest.Request) modeltest.Answer {
		return modeltest.Answer{Text: "Done.", Delay: 30 * time.Second}
	}))
	m := apptest.Start(t, slow)
	put(m, "runtime", object{"max_duration_ms": 1000})
	if r := m.WaitRun(m.StartRun(m.CreateAgent(nil), "Go.", nil)); r["status"] != "timeout" {
		t.Errorf("with a second: %v", r)
	}
	if got := n.Expect(200, "GET", configPath+"runtime", nil)["runtime"].(object); got["max_duration_ms"] != 1000.0 || got["max_steps"] != nil {
		t.Errorf("the section is %v", got)
	}
	for body, key := range map[string]string{`{"max_steps":0}`: "max_steps", `{"runtime":{"max_tool_calls":"x"}}`: "max_tool_calls"} {
		if r := n.Do("PUT", configPath+"runtime", body); r.StatusCode != 422 || !strings.Contains(string(r.Body), key) {
			t.Errorf("%s is answered %d %s", body, r.StatusCode, r.Body)
		}
	}
}

// A feature that is off answers 501, on every operation of it, until it is on again (rule
// D18-features).
func TestFeatureFlags(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	flags := n.Expect(200, "GET", configPath+"feature-flags", nil)["flags"].([]any)
	for _, f := range flags {
		if f.(object)["enabled"] != true {
			t.Errorf("%v is off from the start", f)
		}
	}
	paths := map[string]string{"commerce": "/api/v1/commerce/customers", "governance": "/api/v1/governance/ledger", "a2a": "/api/v1/a2a/tasks"}
	for name, path := range paths {
		n.Expect(200, "GET", path, nil)
		put(n, "feature-flags", object{"flags": []object{{"name": name, "enabled": false}}})
		n.Do("GET", path, nil).IsProblem(t, 501, "FEATURE_DISABLED")
	}
	put(n, "feature-flags", object{"flags": []object{{"name": "commerce", "enabled": true}}})
	n.Expect(200, "GET", paths["commerce"], nil)
	n.Do("GET", paths["a2a"], nil).IsProblem(t, 501, "FEATURE_DISABLED")
	if r := n.Do("PUT", configPath+"feature-flags", object{"flags": []object{{"name": "flying", "enabled": true}}}); r.StatusCode != 422 ||
		!strings.Contains(string(r.Body), "flags[0].name") || !strings.Contains(string(r.Body), "commerce") {
		t.Errorf("an unknown feature: %d %s", r.StatusCode, r.Body)
	}
}

// Rate limits hold at once, of companies and of single operations, and go back to those of
// the environment (rule D18-rate-limits).
func TestRateLimits(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	_, other := n.CreateTenant(object{"name": "Other"})
	put(n, "rate-limits", object{"endpoints": []object{{"operation": "listAgents", "limit": "2/h"}}})
	for range 2 {
		other.Expect(200, "GET", "/api/v1/agents", nil)
	}
	if r := other.Do("GET", "/api/v1/agents", nil); r.StatusCode != 429 || r.Header.Get("X-RateLimit-Bucket") != "endpoint" {
		t.Errorf("the third call: %d %v", r.StatusCode, r.Header)
	}
	other.Expect(200, "GET", "/api/v1/me", nil)
	got := put(n, "rate-limits", object{"endpoints": []object{}, "key": "3/h", "endpoint": "1000/m", "tenant": "10000/m"})
	if diff := cmp.Diff(object{"endpoints": []any{}, "key": "3/h", "endpoint": "1000/m", "tenant": "10000/m"}, got); diff != "" {
		t.Error(diff)
	}
	for range 3 {
		other.Expect(200, "GET", "/api/v1/me", nil)
	}
	if r := other.Do("GET", "/api/v1/me", nil); r.StatusCode != 429 || r.Header.Get("X-RateLimit-Bucket") != "api_key" {
		t.Errorf("beyond the key's: %d %v", r.StatusCode, r.Header)
	}
	if got := n.Expect(200, "DELETE", configPath+"rate-limits", nil); got["cleared"] != true {
		t.Errorf("cleared: %v", got)
	}
	other.Expect(200, "GET", "/api/v1/me", nil)
	for body, key := range map[string]string{
		`{"key":"often"}`: "key", `{"tenant":"0/m"}`: "tenant", `{"endpoints":[{"operation":"fly","limit":"1/m"}]}`: "endpoints[0].operation",
		`{"endpoints":[{"operation":"listAgents","limit":""}]}`: "endpoints[0].limit",
	} {
		if r := n.Do("PUT", configPath+"rate-limits", body); r.StatusCode != 422 || !strings.Contains(string(r.Body), `"`+key+`"`) {
			t.Errorf("%s is answered %d %s", body, r.StatusCode, r.Body)
		}
	}
}

// A plan's limits hold at once; the plan of companies without one stays (rule D18-plans).
func TestPlans(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	put(n, "plans", object{"plans": object{"small": object{
		"name": "Small", "limits": object{"agents": 1}, "price_amount_cents": 900, "price_currency": "eur", "models": []string{"builtin/*"},
	}}})
	id, other := n.CreateTenant(object{"name": "Other", "plan": "small"})
	other.CreateAgent(nil)
	other.Expect(403, "POST", "/api/v1/agents", object{"name": "second"})
	put(n, "plans", object{"plans": object{"small": object{"limits": object{"agents": 2}}}})
	apptest.Eventually(t, func() bool { return other.Do("POST", "/api/v1/agents", object{"name": "second"}).StatusCode == 201 })
	for _, plan := range other.Expect(200, "GET", "/api/v1/billing/plans", nil)["plans"].([]any) {
		if p := plan.(object); p["plan_id"] == "small" && p["price_amount_cents"] != 900.0 {
			t.Errorf("the plan is %v", p)
		}
	}
	list := n.Expect(200, "GET", configPath+"plans", nil)["plans"].([]any)
	if last := list[len(list)-1].(object); last["id"] != "small" || last["quotas"].(object)["agents"] != 2.0 || last["price_currency"] != "eur" {
		t.Errorf("the plans are %v", list)
	}
	for body, key := range map[string]string{
		`{"plans":{"small":{"limits":{"agents":-1}}}}`: "plans.small.limits.agents", `{"plans":{"self_hosted":null}}`: "plans.self_hosted",
		`{"plans":{"small":{"models":["x"]}}}`: "plans.small.models[0]",
	} {
		if r := n.Do("PUT", configPath+"plans", body); r.StatusCode != 422 || !strings.Contains(string(r.Body), `"`+key+`"`) {
			t.Errorf("%s is answered %d %s", body, r.StatusCode, r.Body)
		}
	}
	put(n, "plans", object{"plans": object{"small": nil}})
	n.Expect(422, "PATCH", apptest.TenantsPath+"/"+id, object{"plan": "small"})
}

// Links that the service hands out have the address that is set.
func TestPlatformURLs(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(nil)
	put(n, "platform-urls", object{"public_base_url": "https://agents.example.com/", "webhook_base_url": "https://hooks.example.com"})
	session := n.CreateSession(agent, nil)
	share := n.Expect(200, "POST", "/api/v1/sessions/"+session+"/share", object{"role": "viewer"})
	if url := share["share_url"].(string); !strings.HasPrefix(url, "https://agents.example.com/") {
		t.Errorf("the link is %s", url)
	}
	sensor := n.Do("POST", "/api/v1/webhooks/sensors", object{"agent_id": agent})
	if !strings.Contains(string(sensor.Body), "https://hooks.example.com/") {
		t.Errorf("the sensor is %s", sensor.Body)
	}
	put(n, "platform-urls", object{"urls": object{"webhook_base_url": nil}}) // the other stays
	if urls := n.Expect(200, "GET", configPath+"platform-urls", nil)["urls"].(object); urls["webhook_base_url"] != nil || urls["public_base_url"] == nil {
		t.Errorf("after one was reset: %v", urls)
	}
	if r := n.Do("PUT", configPath+"platform-urls", object{"urls": object{"public_base_url": "agents"}}); r.StatusCode != 422 {
		t.Errorf("an address without a scheme: %d %s", r.StatusCode, r.Body)
	}
}

// Uploads, pages of other origins and webhooks keep to the policies.
func TestSecurityPolicies(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	upload := func(kind, data string) int {
		return n.Do("POST", "/api/v1/files", object{"filename": "f", "mime_type": kind, "data": data}).StatusCode
	}
	if got := upload("text/plain", "aGVsbG8="); got != 201 {
		t.Fatal(got)
	}
	put(n, "security-policies", object{"file_upload_max_size_bytes": 4, "file_upload_allowed_mime_types": []string{"image/*"}})
	if got := upload("image/png", "aGVsbG8="); got != 413 {
		t.Errorf("a large file: %d", got)
	}
	if got := upload("image/png", "aGVs"); got != 201 {
		t.Errorf("a small one: %d", got)
	}
	n.Do("POST", "/api/v1/files", object{"filename": "f.txt", "mime_type": "text/plain", "data": "aGVs"}).IsProblem(t, 422, "FILE_TYPE_NOT_ALLOWED")

	origin := func() string {
		return n.Do("GET", "/api/v1/me", nil, "Origin", "https://app.example.com").Header.Get("Access-Control-Allow-Origin")
	}
	if got := origin(); got != "" {
		t.Errorf("before: %q", got)
	}
	put(n, "security-policies", object{"cors_allowed_origins": []string{"https://app.example.com"}})
	if got := origin(); got != "https://app.example.com" {
		t.Errorf("after: %q", got)
	}
	var arrived atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	t.Cleanup(receiver.Close)
	m := apptest.Start(t, nil, func(c *config.Config) { c.Security.EgressAllow = "127.0.0.1" })
	hook := object{"url": receiver.URL, "events": []string{"run.completed"}}
	id := m.Expect(201, "POST", "/api/v1/webhooks", hook)["webhook_id"].(string)
	put(m, "security-policies", object{"webhook_url_denylist": []string{"127.0.0.1", "*.example.org"}})
	m.Expect(422, "POST", "/api/v1/webhooks", hook)
	m.Expect(422, "POST", "/api/v1/webhooks", object{"url": "https://a.example.org/", "events": []string{"run.completed"}})
	m.WaitRun(m.StartRun(m.CreateAgent(nil), "Hello.", nil))
	apptest.Eventually(t, func() bool {
		log := m.Expect(200, "GET", "/api/v1/webhooks/"+id+"/deliveries", nil)["deliveries"].([]any)
		return len(log) > 0 && strings.Contains(string(m.Do("GET", "/api/v1/webhooks/"+id+"/deliveries", nil).Body), "does not let webhooks go")
	})
	if arrived.Load() != 0 {
		t.Errorf("%d deliveries arrived", arrived.Load())
	}
	for _, body := range []object{
		{"cors_allowed_origins": []string{"example.com"}}, {"webhook_url_denylist": []string{"http://x"}}, {"file_upload_allowed_mime_types": []string{"text"}},
		{"file_upload_max_size_bytes": 1 << 40},
	} {
		n.Expect(422, "PUT", configPath+"security-policies", body)
	}
}

// A delivery is repeated as often, and as late, as the policy says.
func TestWebhooksPolicy(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived.Add(1)
		w.WriteHeader(500)
	}))
	t.Cleanup(receiver.Close)
	n := apptest.Start(t, nil, func(c *config.Config) { c.Security.EgressAllow = "127.0.0.1" })
	if got := n.Expect(200, "GET", configPath+"webhooks-policy", nil); got["delivery_max_retries"] != 4.0 {
		t.Errorf("the policy is %v", got)
	}
	put(n, "webhooks-policy", object{"delivery_max_retries": 2, "delivery_backoff_base_ms": 1, "delivery_max_window_hours": 1})
	n.Expect(201, "POST", "/api/v1/webhooks", object{"url": receiver.URL, "events": []string{"run.completed"}})
	n.WaitRun(n.StartRun(n.CreateAgent(nil), "Hello.", nil))
	apptest.Eventually(t, func() bool {
		return len(n.Expect(200, "GET", "/api/v1/admin/webhooks/dlq", nil)["entries"].([]any)) == 1
	})
	if got := arrived.Load(); got != 3 {
		t.Errorf("%d attempts were made, want 3", got)
	}
	n.Expect(422, "PUT", configPath+"webhooks-policy", object{"delivery_max_retries": 31})
}

// The small sections act at once.
func TestSmallSections(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, apptest.CallTool("calculator", `{"expression":"6*7"}`))
	var log syncBuffer
	n := apptest.StartLogging(t, &log, sim)
	t.Run("auth", func(t *testing.T) {
		register := object{"email": "ann@example.com", "accept_terms": true, "accept_privacy": true}
		before := n.Do("POST", "/api/v1/register", register)
		put(n, "auth", object{"signup_enabled": true})
		if after := n.Do("POST", "/api/v1/register", register); !strings.Contains(string(before.Body), "Signing up is disabled") ||
			strings.Contains(string(after.Body), "Signing up is disabled") {
			t.Errorf("signing up: %d before, %d %s after", before.StatusCode, after.StatusCode, after.Body)
		}
	})
	t.Run("idempotency", func(t *testing.T) {
		put(n, "idempotency", object{"window_hours": 2})
		n.Do("POST", "/api/v1/agents", object{"name": "once"}, "Idempotency-Key", "one")
		rows := n.Admin().Query(`SELECT expires_at FROM idempotency`)
		left := time.Until(time.UnixMicro(rows[0]["expires_at"].(int64)))
		if left > 2*time.Hour || left < time.Hour {
			t.Errorf("the answer is kept for %v", left)
		}
	})
	t.Run("sse", func(t *testing.T) {
		agent := n.CreateAgent(object{"approval_required_tools": []string{"calculator"}, "built_in_tools": []string{"calculator"}})
		run := n.StartRun(agent, "Go.", nil)
		n.WaitStatus(run, "awaiting_approval")
		put(n, "sse", object{"streams_per_tenant": 1, "heartbeat_seconds": 1})
		open := n.OpenStream(t, "/api/v1/runs/"+run+"/events", "Authorization", "Bearer "+n.Key)
		defer open.Body.Close()
		if r := n.Do("GET", "/api/v1/runs/"+run+"/events", nil, "Accept", "text/event-stream"); r.StatusCode != 429 {
			t.Errorf("a second stream: %d", r.StatusCode)
		}
		start, buf, all := time.Now(), make([]byte, 4096), ""
		for !strings.Contains(all, "\n:") && time.Since(start) < 10*time.Second {
			k, err := open.Body.Read(buf)
			if all += string(buf[:k]); err != nil {
				break
			}
		}
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("no comment within %v", took)
		}
		put(n, "sse", object{"streams_per_tenant": 0})
		n.Expect(200, "POST", "/api/v1/runs/"+run+"/cancel", nil)
	})
	t.Run("tool-security", func(t *testing.T) {
		agent := n.CreateAgent(object{"built_in_tools": []string{"calculator", "current_time"}})
		put(n, "tool-security", object{"disabled_tools": []string{"calc*"}})
		r := n.WaitRun(n.StartRun(agent, "Go.", nil))
		if text := apptest.OutputText(r); !strings.Contains(text, "has switched off the tool calculator") {
			t.Errorf("the run said %q", text)
		}
		all := sim.Requests()
		if tools := all[len(all)-1].Chat().Tools; len(tools) != 1 {
			t.Errorf("the model was offered %v", tools)
		}
	})
	t.Run("logging", func(t *testing.T) {
		put(n, "logging", object{"level": "error"})
		n.Do("GET", "/api/v1/me", nil, "X-Request-Id", "while-only-errors")
		put(n, "logging", object{"level": nil})
		n.Do("GET", "/api/v1/me", nil, "X-Request-Id", "while-all-is-logged")
		apptest.Eventually(t, func() bool { return strings.Contains(log.String(), "while-all-is-logged") })
		if strings.Contains(log.String(), "while-only-errors") {
			t.Error("a request was logged while only errors are")
		}
		n.Expect(422, "PUT", configPath+"logging", object{"level": "loud"})
	})
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// What is set is exported without secrets, imported as a whole or not at all, audited with
// what it was, and only the operator's (rule D17-export).
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	if doc := n.Expect(200, "GET", configPath+"export", nil); doc["section_count"] != 0.0 {
		t.Errorf("at first: %v", doc)
	}
	put(n, "runtime", object{"max_steps": 7})
	put(n, "sse", object{"heartbeat_seconds": 9})
	n.Expect(201, "POST", "/api/v1/admin/providers", object{
		"id": "extra", "name": "Extra", "default_endpoint": "https://models.example.com/v1", "api_key": "sk-very-secret-words",
	})
	raw := n.Do("GET", configPath+"export", nil)
	doc := raw.JSON
	if strings.Contains(string(raw.Body), "very-secret") || doc["section_count"] != 3.0 || doc["sections"].(object)["runtime"].(object)["max_steps"] != 7.0 {
		t.Errorf("exported: %s", raw.Body)
	}
	m := apptest.Start(t, nil)
	sections := doc["sections"].(object)
	delete(sections, "providers")
	dry := m.Expect(200, "POST", configPath+"import", object{"sections": sections, "dry_run": true, "source": "other"})
	if dry["imported"] != 2.0 || m.Expect(200, "GET", configPath+"runtime", nil)["runtime"].(object)["max_steps"] != nil {
		t.Errorf("a dry run: %v", dry)
	}
	m.Expect(200, "POST", configPath+"import", object{"sections": sections, "format_version": 1})
	if got := m.Expect(200, "GET", configPath+"runtime", nil)["runtime"].(object)["max_steps"]; got != 7.0 {
		t.Errorf("imported: %v", got)
	}
	for _, c := range []struct {
		body object
		key  string
	}{
		{object{"sections": object{"runtime": object{"max_steps": 1}, "sse": object{"heartbeat_seconds": 0}}}, "sections.sse.heartbeat_seconds"},
		{object{"sections": object{"warp": object{}}}, "sections.warp"}, {object{"format_version": 2, "sections": object{}}, "format_version"},
	} {
		if r := m.Do("POST", configPath+"import", c.body); r.StatusCode != 422 || !strings.Contains(string(r.Body), `"`+c.key+`"`) {
			t.Errorf("%v is answered %d %s", c.body, r.StatusCode, r.Body)
		}
	}
	if got := m.Expect(200, "GET", configPath+"runtime", nil)["runtime"].(object)["max_steps"]; got != 7.0 {
		t.Errorf("a refused import changed the first section to %v", got)
	}
	entries := n.Expect(200, "GET", "/api/v1/admin/audit?action=setting.updated", nil)["entries"].([]any)
	details := entries[len(entries)-1].(object)["details"].(object)
	if details["before"].(object)["max_steps"] != nil || details["after"].(object)["max_steps"] != 7.0 {
		t.Errorf("the audit log says %v", details)
	}
	_, other := n.CreateTenant(object{"name": "Other"})
	if r := other.Do("GET", configPath+"runtime", nil); r.StatusCode != 403 && r.StatusCode != 404 {
		t.Errorf("another company: %d", r.StatusCode)
	}
}

// A setting acts on every node within two seconds.
func TestSettingsOnEveryNode(t *testing.T) {
	t.Parallel()
	database := sqldbtest.Config(t, sqldbtest.Postgres)
	shared := func(c *config.Config) { c.Storage.DatabaseURL = config.NewURL(database.URL) }
	here := apptest.Start(t, nil, shared, apptest.SharedSecretKey)
	there := apptest.Start(t, nil, shared, apptest.SharedSecretKey).WithKey(here.Key) // it hears no signals of the first
	put(here, "feature-flags", object{"flags": []object{{"name": "commerce", "enabled": false}}})
	start := time.Now()
	apptest.Eventually(t, func() bool { return there.Do("GET", "/api/v1/commerce/customers", nil).StatusCode == 501 })
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("the other node obeys after %v", took)
	}
}
