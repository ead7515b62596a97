package delivery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// inbox is a receiver of webhooks. Its path says how it answers.
type inbox struct {
	url string

	mu   sync.Mutex
	got  []delivered
	seen map[string]int
}

// delivered is a request that a receiver got.
type delivered struct {
	path, raw string
	header    http.Header
	body      object
}

func newInbox(t *testing.T) *inbox {
	t.Helper()
	in := &inbox{seen: map[string]int{}}
	server := httptest.NewServer(in)
	t.Cleanup(server.Close)
	in.url = server.URL
	return in
}

// ServeHTTP answers with the status that stands in the path, the first time; a
// path /slow waits until the client gives up.
func (in *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	d := delivered{path: r.URL.Path, raw: string(raw), header: r.Header}
	_ = json.Unmarshal(raw, &d.body)
	in.mu.Lock()
	in.got = append(in.got, d)
	in.seen[r.URL.Path+r.Header.Get("X-SVC-Event-Id")]++
	first := in.seen[r.URL.Path+r.Header.Get("X-SVC-Event-Id")] == 1
	in.mu.Unlock()
	switch {
	case r.URL.Path == "/refuses":
		w.WriteHeader(http.StatusGone)
	case r.URL.Path == "/flaky" && first:
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}
}

// at returns the events of a type that arrived at a path.
func (in *inbox) at(path, kind string) (all []delivered) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, d := range in.got {
		if d.path == path && (kind == "" || d.header.Get("X-SVC-Event-Type") == kind) {
			all = append(all, d)
		}
	}
	return all
}

// hooked lets a node reach the receiver, and tries again at once.
func (in *inbox) hooked(c *config.Config) {
	c.Security.EgressAllow = strings.TrimPrefix(in.url, "http://")
	c.Webhooks.RetryWaits = "50ms,50ms,50ms,50ms"
}

func createWebhook(n *apptest.Server, url string, events ...string) (id, secret string) {
	n.T.Helper()
	made := n.Expect(201, "POST", "/api/v1/webhooks", object{"url": url, "events": events})
	return made["webhook_id"].(string), made["secret"].(string)
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// wantSigned checks all three signatures of a request, as a receiver would.
func wantSigned(t *testing.T, d delivered, key string) {
	t.Helper()
	h := d.header
	at := h.Get("X-SVC-Timestamp")
	if want := "t=" + at + ",v1=sha256=" + hex.EncodeToString(mac([]byte(key), at+"."+d.raw)); h.Get("X-SVC-Signature-V2") != want {
		t.Errorf("V2 is %s, want %s", h.Get("X-SVC-Signature-V2"), want)
	}
	if want := "sha256=" + hex.EncodeToString(mac([]byte(key), d.raw)); h.Get("X-SVC-Signature") != want {
		t.Errorf("the older signature is %s, want %s", h.Get("X-SVC-Signature"), want)
	}
	plain, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
	if err != nil || len(plain) != 32 {
		t.Fatalf("the secret %s holds %d bytes, %v", key, len(plain), err)
	}
	text := h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "." + d.raw
	if want := "v1," + base64.StdEncoding.EncodeToString(mac(plain, text)); h.Get("webhook-signature") != want || h.Get("webhook-id") != d.body["event_id"] {
		t.Errorf("the standard signature is %s of %s, want %s", h.Get("webhook-signature"), h.Get("webhook-id"), want)
	}
	if h.Get("X-SVC-Event-Id") != d.body["event_id"] || h.Get("X-SVC-Event-Type") != d.body["event_type"] || !ident.Valid(h.Get("X-SVC-Delivery-Id")) || !strings.HasPrefix(h.Get("Content-Type"), "application/json") {
		t.Errorf("the headers are %v", h)
	}
	if stamp, err := time.Parse("2006-01-02T15:04:05.000Z", d.body["timestamp"].(string)); err != nil || time.Since(stamp) > time.Hour {
		t.Errorf("the timestamp is %v", d.body["timestamp"])
	}
}

// Events are delivered signed, with the resource that changed, retried until a
// delivery succeeds, and logged.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			if apptest.RaceEnabled && engine != sqldbtest.SQLite {
				t.Skip("played without the race detector")
			}
			in := newInbox(t)
			plans := filepath.Join(t.TempDir(), "plans.json")
			if err := os.WriteFile(plans, []byte(`{"plans":[{"id":"small","name":"Small","limits":{"runs_per_month":3,"webhooks":4}}],"default":"small"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel), apptest.OnEngine(t, engine), in.hooked, func(c *config.Config) { c.Tenancy.Plans = plans })
			tenant := n.TenantID()
			id, key := createWebhook(n, in.url+"/all", "run.completed", "run.failed", "agent.created", "agent.updated", "agent.deleted", "quota.threshold", "quota.exceeded", "guardrail.violated")
			flaky, _ := createWebhook(n, in.url+"/flaky", "agent.created")
			one := func(kind string) object {
				t.Helper()
				apptest.Eventually(t, func() bool { return len(in.at("/all", kind)) == 1 })
				d := in.at("/all", kind)[0]
				wantSigned(t, d, key)
				if d.body["tenant_id"] != tenant {
					t.Errorf("an event of %v", d.body["tenant_id"])
				}
				return d.body["data"].(object)
			}

			agent := n.CreateAgent(object{"name": "teller"})
			if diff := cmp.Diff(n.Expect(200, "GET", "/api/v1/agents/"+agent, nil), one("agent.created")); diff != "" {
				t.Errorf("agent.created (-read +told):\n%s", diff)
			}
			n.Expect(200, "POST", "/api/v1/agents/"+agent+"/suspend", nil)
			if told := one("agent.updated"); told["status"] != "suspended" {
				t.Errorf("agent.updated tells %v", told)
			}
			n.Expect(200, "POST", "/api/v1/agents/"+agent+"/activate", nil)
			run := n.WaitRun(n.StartRun(agent, "hello", nil))
			told := one("run.completed")
			delete(run, "artifacts")
			delete(run, "last_event_id")
			if diff := cmp.Diff(run, told); diff != "" {
				t.Errorf("run.completed (-read +told):\n%s", diff)
			}
			guard := n.CreateGuardrail(object{"name": "words", "kind": "keyword", "stage": "input", "action": "block", "config": object{"keywords": []string{"forbidden"}}})
			careful := n.CreateGuardedAgent(object{"input": apptest.GuardrailRef(guard)})
			blocked := n.WaitRun(n.StartRun(careful, "forbidden", nil))
			if told := one("run.failed"); told["status"] != "guardrail_blocked" || told["run_id"] != blocked["run_id"] {
				t.Errorf("run.failed tells %v", told)
			}
			if told := one("guardrail.violated"); told["run_id"] != blocked["run_id"] || told["guardrail_id"] != guard || told["stage"] != "input" || told["action"] != "block" || told["name"] != "words" {
				t.Errorf("guardrail.violated tells %v", told)
			}
			n.WaitRun(n.StartRun(agent, "hello", nil))
			for _, kind := range []string{"quota.threshold", "quota.exceeded"} {
				if told := one(kind); told["resource"] != "runs_per_month" || told["limit"] != 3.0 || told["percent"] != 100.0 || told["resets_at"] == nil {
					t.Errorf("%s tells %v", kind, told)
				}
			}
			n.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)
			if diff := cmp.Diff(object{"agent_id": agent, "name": "teller"}, one("agent.deleted")); diff != "" {
				t.Error(diff)
			}

			checkReceivesAgain(n, in, flaky)
			checkUnsubscribed(n, in, id)
		})
	}
}

// checkReceivesAgain checks what a receiver got that redirects what comes for the first
// time: that is no success, and is not followed; every attempt brings the same
// event under another delivery's id.
func checkReceivesAgain(n *apptest.Server, in *inbox, flaky string) {
	n.T.Helper()
	apptest.Eventually(n.T, func() bool { return len(in.at("/flaky", "")) == 4 }) // two agents
	byEvent := map[string][]delivered{}
	for _, d := range in.at("/flaky", "") {
		byEvent[d.header.Get("X-SVC-Event-Id")] = append(byEvent[d.header.Get("X-SVC-Event-Id")], d)
	}
	for _, tries := range byEvent {
		if len(tries) != 2 || tries[0].raw != tries[1].raw || tries[0].header.Get("X-SVC-Delivery-Id") == tries[1].header.Get("X-SVC-Delivery-Id") {
			n.T.Errorf("an event was sent as %v", tries)
		}
	}
	if len(in.at("/elsewhere", "")) > 0 {
		n.T.Error("a redirect was followed")
	}
	path := "/api/v1/webhooks/" + flaky
	apptest.Eventually(n.T, func() bool { return n.Expect(200, "GET", path, nil)["failure_count"] == 0.0 })
	// The outcome of the other event may be stored a moment later.
	apptest.Eventually(n.T, func() bool {
		return !strings.Contains(string(n.Do("GET", path+"/deliveries", nil).Body), `"pending"`)
	})
	log := n.Expect(200, "GET", path+"/deliveries", nil)
	states := map[string]int{}
	for _, entry := range log["deliveries"].([]any) {
		d := entry.(object)
		states[fmt.Sprintf("%v %v %v %v", d["attempt_number"], d["status"], d["response_status"], d["next_retry_at"] != nil)]++
	}
	if diff := cmp.Diff(map[string]int{"1 failed 302 true": 2, "2 success 200 false": 2}, states); diff != "" || log["total"] != 4.0 || log["truncated"] != false {
		n.T.Errorf("the log is %v: %s", log, diff)
	}
	if sub := n.Expect(200, "GET", path, nil); sub["status"] != "active" || sub["last_failure_at"] == nil || sub["secret"] != "[redacted]" {
		n.T.Errorf("the subscription is %v", sub)
	}
}

// checkUnsubscribed uses up the plan, and ends a subscription.
func checkUnsubscribed(n *apptest.Server, in *inbox, id string) {
	n.T.Helper()
	createWebhook(n, in.url+"/all", "run.cancelled")
	createWebhook(n, in.url+"/all", "run.cancelled")
	if r := n.Expect(403, "POST", "/api/v1/webhooks", object{"url": in.url, "events": []string{"run.failed"}}); r["code"] != "limit_reached" {
		n.T.Errorf("beyond the plan: %v", r)
	}
	if list := n.Do("GET", "/api/v1/webhooks", nil); strings.Contains(string(list.Body), "whsec_") {
		n.T.Errorf("the list tells secrets: %s", list.Body)
	}
	n.Expect(200, "DELETE", "/api/v1/webhooks/"+id, nil)
	if again := n.Expect(200, "DELETE", "/api/v1/webhooks/"+id, nil); again["deleted"] != true || again["webhook_id"] != id {
		n.T.Errorf("deleted again: %v", again)
	}
	for _, rest := range []string{"", "/deliveries"} {
		n.Expect(404, "GET", "/api/v1/webhooks/"+id+rest, nil)
	}
}

// What cannot be a subscription is refused with every field that is wrong.
func TestWebhookRefusals(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	for body, want := range map[string]string{
		`{}`: "events url",
		`{"url":"https://example.com/","events":[]}`:                                              "events",
		`{"url":"https://example.com/","events":["run.started"]}`:                                 "events",
		`{"url":"https://example.com/","events":["run.failed","company.ended"]}`:                  "events",
		`{"url":"https://example.com/","events":"run.failed"}`:                                    "events",
		`{"url":"ftp://example.com/","events":["run.failed"]}`:                                    "url",
		`{"url":"https://ann:secret@example.com/","events":["run.failed"]}`:                       "url",
		`{"url":"http://2130706433/","events":["run.failed"]}`:                                    "url",
		`{"url":"http://127.1/","events":["run.failed"]}`:                                         "url",
		`{"url":"http://0x7f000001/","events":["run.failed"]}`:                                    "url",
		`{"url":"http://10.0.0.1/","events":["run.failed"]}`:                                      "url",
		`{"url":"http://[::ffff:127.0.0.1]:80/","events":["run.failed"]}`:                         "url",
		`{"url":"http://169.254.169.254/latest","events":["run.failed"]}`:                         "url",
		`{"url":"http://localhost:8080/","events":["run.failed"]}`:                                "url",
		`{"url":"","events":["run.failed"]}`:                                                      "url",
		`{"url":"https://example.com/` + strings.Repeat("x", 2100) + `","events":["run.failed"]}`: "url",
	} {
		r := n.SendHeaders("POST", "/api/v1/webhooks", body, "Authorization", "Bearer "+n.Key, "Content-Type", "application/json")
		var problem struct {
			Errors []struct{ Field string }
		}
		if err := json.Unmarshal(r.Body, &problem, json.MatchCaseInsensitiveNames(true)); err != nil || r.StatusCode != 422 {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.Body)
			continue
		}
		fields := map[string]bool{}
		for _, e := range problem.Errors {
			name, _, _ := strings.Cut(e.Field, "[")
			name, _, _ = strings.Cut(name, ".")
			fields[name] = true
		}
		for f := range strings.FieldsSeq(want) {
			if !fields[f] || len(fields) != len(strings.Fields(want)) {
				t.Errorf("%s: named %v, want %s", body, fields, want)
			}
		}
	}
	legacy := n.Expect(201, "POST", "/api/v1/webhooks", object{"url": "http://example.com/", "events": []string{"company.goal_completed"}})
	if diff := cmp.Diff([]any{"initiative.goal_completed"}, legacy["events"]); diff != "" {
		t.Error(diff)
	}
}

// A receiver that refuses is disabled; the operator sees what it did not get,
// and it gets that once it is well.
func TestWebhooksThatAreGivenUp(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	n := apptest.Start(t, nil, in.hooked)
	id, _ := createWebhook(n, in.url+"/refuses", "agent.created")
	path := "/api/v1/webhooks/" + id
	sent := n.Expect(200, "POST", path+"/test", nil)
	if diff := cmp.Diff(object{"test_sent": true, "webhook_id": id, "event_type": "agent.created"}, sent); diff != "" {
		t.Error(diff)
	}
	apptest.Eventually(t, func() bool { return len(in.at("/refuses", "agent.created")) == 1 })
	if data := in.at("/refuses", "")[0].body["data"]; cmp.Diff(object{"test": true}, data) != "" {
		t.Errorf("a test sends %v", data)
	}
	for i := range 19 {
		n.CreateAgent(object{"name": fmt.Sprint("agent ", i)})
	}
	apptest.Eventually(t, func() bool { return n.Expect(200, "GET", path, nil)["status"] == "disabled" })
	if sub := n.Expect(200, "GET", path, nil); sub["failure_count"] != 20.0 {
		t.Errorf("disabled: %v", sub)
	}
	n.Expect(422, "POST", path+"/test", nil)

	page := n.Expect(200, "GET", path+"/deliveries?limit=15", nil)
	if len(page["deliveries"].([]any)) != 15 || page["truncated"] != true || page["total"] != 20.0 {
		t.Errorf("the first page: %v of %v, %v", len(page["deliveries"].([]any)), page["total"], page["truncated"])
	}
	page = n.Expect(200, "GET", path+"/deliveries?limit=15&cursor="+page["cursor"].(string), nil)
	last := page["deliveries"].([]any)
	if len(last) != 5 || page["truncated"] != false {
		t.Errorf("the second page: %v", page)
	}
	n.Expect(422, "GET", path+"/deliveries?cursor=guessed", nil)
	oldest := last[4].(object)
	if oldest["error_message"] != "The endpoint responded with status 410." || oldest["status"] != "failed" || oldest["next_retry_at"] != nil {
		t.Errorf("the oldest entry is %v", oldest)
	}
	entry := path + "/deliveries/" + oldest["delivery_id"].(string)
	if whole := n.Expect(200, "GET", entry, nil); whole["request_body"] != in.at("/refuses", "")[0].raw {
		t.Errorf("the entry says %v was sent", whole["request_body"])
	}
	n.Expect(422, "POST", entry+"/redeliver", nil)

	dead := n.Expect(200, "GET", "/api/v1/admin/webhooks/dlq?limit=7", nil)
	entries := dead["entries"].([]any)
	if len(entries) != 7 || dead["has_more"] != true {
		t.Fatalf("the dead letters are %v", dead)
	}
	letter := entries[0].(object)
	event := letter["eventId"].(string)
	if letter["eventType"] != "agent.created" || letter["payload"].(object)["event_id"] != event || letter["errorMessage"] == "" || letter["tenantId"] != n.TenantID() {
		t.Errorf("a dead letter is %v", letter)
	}
	if more := n.Expect(200, "GET", "/api/v1/admin/webhooks/dlq?cursor="+dead["cursor"].(string), nil); len(more["entries"].([]any)) != 13 {
		t.Errorf("the rest of the dead letters: %v", more)
	}
	replay := "/api/v1/admin/webhooks/dlq/" + event + "/replay"
	n.Expect(422, "POST", replay, nil) // it still is disabled
	n.Expect(404, "POST", "/api/v1/admin/webhooks/dlq/"+ident.New()+"/replay", nil)

	n.Expect(200, "POST", path+"/enable", nil)
	for range 2 { // again while nothing is wrong with it
		if sub := n.Expect(200, "POST", path+"/enable", nil); sub["status"] != "active" || sub["failure_count"] != 0.0 {
			t.Errorf("enabled: %v", sub)
		}
	}
	before := len(in.at("/refuses", ""))
	if done := n.Expect(200, "POST", replay, nil); done["success"] != true || done["eventId"] != event || done["action"] != "replayed" {
		t.Errorf("replayed: %v", done)
	}
	n.Expect(200, "POST", entry+"/redeliver", nil)
	apptest.Eventually(t, func() bool { return len(in.at("/refuses", "")) == before+2 })
	all := in.at("/refuses", "")[before:]
	if ids := map[any]bool{all[0].body["event_id"]: true, all[1].body["event_id"]: true}; !ids[event] || !ids[oldest["event_id"]] {
		t.Errorf("sent again were %v", ids)
	}
}

// An address that was public when it was saved is refused when it is not any
// more, whoever tells the name where it leads.
func TestWebhooksReachNothingPrivate(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	n := apptest.Start(t, nil, func(c *config.Config) { c.Webhooks.RetryWaits = "10ms" })
	id, _ := createWebhook(n, "https://example.com/", "agent.created")
	n.Admin().Exec(`UPDATE webhooks SET url = ?`, strings.Replace(in.url, "127.0.0.1", "localhost", 1))
	n.CreateAgent(nil)
	apptest.Eventually(t, func() bool {
		log := n.Expect(200, "GET", "/api/v1/webhooks/"+id+"/deliveries", nil)["deliveries"].([]any)
		return len(log) == 2 && log[0].(object)["status"] == "failed"
	})
	log := n.Do("GET", "/api/v1/webhooks/"+id+"/deliveries", nil)
	if len(in.at("/", "")) != 0 || strings.Contains(string(log.Body), "127.0.0.1") || !strings.Contains(string(log.Body), "public internet") {
		t.Errorf("%d requests came through; the log is %s", len(in.at("/", "")), log.Body)
	}
}
