package delivery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// signed is what another system sends: it knows the address and the secret, and
// nothing of us.
func signed(t *testing.T, made object, body string, headers ...string) (status int, answer object) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, made["url"].(string), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := made["secret"].(string); ok {
		mac := hmac.New(sha256.New, []byte(key))
		_, _ = io.WriteString(mac, body) // it never fails
		req.Header.Set("X-Sensor-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := apptest.HTTPClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatalf("%d %s: %v", resp.StatusCode, raw, err)
	}
	return resp.StatusCode, answer
}

func TestSensors(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}})
		made := n.Expect(201, "POST", contracttest.SensorsPath, object{"agent_id": agent, "instructions": "Look at it.", "max_triggers": 6})
		if made["url"] != n.URL+"/api/v1/webhooks/sensor/"+made["webhook_id"].(string) {
			t.Errorf("the address is %v", made["url"])
		}
		status, answer := signed(t, made, `{"pull": {"number": 7}}`, "Content-Type", "application/json", "X-GitHub-Event", "pull", "Cookie", "a=hush")
		if status != 200 || answer["received"] != true || answer["accepted"] != true || len(answer) != 3 {
			t.Fatalf("%d %v", status, answer)
		}
		run := n.WaitRun(answer["run_id"].(string))
		in, text := run["input"].(object), fmt.Sprint(run["output"])
		if run["status"] != "completed" || in["type"] != "webhook_received" || in["webhook_id"] != made["webhook_id"] || in["instructions"] != "Look at it." ||
			fmt.Sprint(in["payload"]) != "map[pull:map[number:7]]" || in["raw_body"] != nil || run["metadata"].(object)["source"] != "sensor" {
			t.Errorf("the run: %v", run)
		}
		if headers := in["headers"].(object); headers["x-github-event"] != "pull" || strings.Contains(fmt.Sprint(run), "hush") {
			t.Errorf("headers: %v", headers)
		}
		for _, part := range []string{"Look at it.", `{"pull": {"number": 7}}`, "x-github-event: pull"} {
			if !strings.Contains(text, part) {
				t.Errorf("the model did not read %q: %s", part, text)
			}
		}
		_, answer = signed(t, made, "a=1&b=\xff", "Content-Type", "application/x-www-form-urlencoded")
		if in := n.WaitRun(answer["run_id"].(string))["input"].(object); in["raw_body"] != "a=1&b=\uFFFD" || in["payload"] != nil {
			t.Errorf("%v", in)
		}
		sensorIsShown(t, n, made, 2)
		wrongCalls(t, n, made)
		lastTriggers(t, n, made)
		listeningEnds(t, n, agent)
	})
}

// sensorIsShown reads a sensor everywhere, and looks for its secret.
func sensorIsShown(t *testing.T, n *apptest.Server, made object, triggers float64) {
	t.Helper()
	list := n.Do("GET", contracttest.SensorsPath, nil)
	one := n.Do("GET", contracttest.SensorsPath+"/"+made["webhook_id"].(string), nil)
	if one.JSON["secret"] != "[redacted]" || one.JSON["triggers"] != triggers || one.JSON["status"] != "active" || list.JSON["total"] != 1.0 {
		t.Errorf("%s in %s", one.Body, list.Body)
	}
	all := string(list.Body) + string(one.Body) + strings.Join(n.Admin().Rows(n.TenantID()), "\n")
	if key := strings.TrimPrefix(made["secret"].(string), "whsec_"); strings.Contains(all, key) {
		t.Error("the secret is shown, or stored as it is")
	}
}

// wrongCalls are those that start nothing.
func wrongCalls(t *testing.T, n *apptest.Server, made object) {
	t.Helper()
	path := strings.TrimPrefix(made["url"].(string), n.URL)
	n.SendHeaders("POST", path, "{}").IsProblem(t, 401, "AUTH_ERROR")
	n.SendHeaders("POST", path, "{}", "X-Sensor-Signature", "sha256="+strings.Repeat("0", 64)).IsProblem(t, 401, "AUTH_ERROR")
	n.SendHeaders("POST", path, "{}", "Authorization", "Bearer "+n.Key).IsProblem(t, 401, "AUTH_ERROR") // a key is no signature
	for _, id := range []string{ident.New(), "nonsense", "..%2f"} {
		n.SendHeaders("POST", "/api/v1/webhooks/sensor/"+id, "{}").IsProblem(t, 404, "NOT_FOUND")
	}
	n.SendHeaders("GET", path, "").IsProblem(t, 405, "METHOD_NOT_ALLOWED")
	n.SendBytes("POST", "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 10485761\r\n\r\n").IsProblem(t, 413, "PAYLOAD_TOO_LARGE")
	n.SendHeaders("POST", path, "{}", "Content-Encoding", "gzip").IsProblem(t, 415, "UNSUPPORTED_MEDIA_TYPE")

	id, its := n.CreateTenant(object{"name": "Acme"})
	theirs := its.Expect(201, "POST", contracttest.SensorsPath, object{"agent_id": its.CreateAgent(nil)})
	n.Expect(200, "PUT", apptest.TenantsPath+"/"+id+"/suspend", object{})
	if status, answer := signed(t, theirs, "{}"); status != 403 || answer["code"] != "TENANT_SUSPENDED" {
		t.Errorf("of a suspended company: %d %v", status, answer)
	}
}

// lastTriggers has more systems call at once than there are triggers.
func lastTriggers(t *testing.T, n *apptest.Server, made object) {
	t.Helper()
	var calls sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 10 {
		calls.Go(func() {
			status, _ := signed(t, made, "{}")
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	calls.Wait()
	if statuses[200] != 4 || statuses[410] != 6 {
		t.Errorf("10 calls for 4 triggers: %v", statuses)
	}
	if runs := n.ListRuns(made["agent_id"].(string)); len(runs) != 6 {
		t.Errorf("%d runs of 6 triggers", len(runs))
	}
	if got := n.Expect(200, "GET", contracttest.SensorsPath+"/"+made["webhook_id"].(string), nil); got["status"] != "spent" || got["triggers"] != 6.0 {
		t.Errorf("%v", got)
	}
}

// listeningEnds has an agent be suspended, and deleted.
func listeningEnds(t *testing.T, n *apptest.Server, agent string) {
	t.Helper()
	made := n.Expect(201, "POST", contracttest.SensorsPath, object{"agent_id": agent})
	n.Expect(200, "POST", "/api/v1/agents/"+agent+"/suspend", nil)
	if status, answer := signed(t, made, "{}"); status != 409 || answer["code"] != "INVALID_STATE_TRANSITION" {
		t.Errorf("of a suspended agent: %d %v", status, answer)
	}
	n.Expect(200, "POST", "/api/v1/agents/"+agent+"/activate", nil)
	_, first := signed(t, made, "{}", "Webhook-Id", "one")
	if status, again := signed(t, made, "{}", "Webhook-Id", "one"); status != 200 || again["run_id"] != first["run_id"] {
		t.Errorf("again: %d %v, not %v", status, again, first)
	}
	_, first = signed(t, made, "{}", "Idempotency-Key", "one")
	if status, another := signed(t, made, "{}", "Idempotency-Key", "one"); status != 200 || another["run_id"] == first["run_id"] {
		t.Errorf("the same Idempotency-Key: %d %v", status, another)
	}
	n.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)
	if status, answer := signed(t, made, "{}"); status != 410 || answer["code"] != "GONE" {
		t.Errorf("of a deleted agent: %d %v", status, answer)
	}
	one := contracttest.SensorsPath + "/" + made["webhook_id"].(string)
	apptest.Eventually(t, func() bool { return n.Expect(200, "GET", one, nil)["status"] == "ended" })
	for range 2 {
		if got := n.Expect(200, "DELETE", one, nil); got["deleted"] != true || got["webhook_id"] != made["webhook_id"] {
			t.Errorf("%v", got)
		}
	}
	if status, _ := signed(t, made, "{}"); status != 404 {
		t.Errorf("deleted: %d", status)
	}
}

// An agent makes an address for itself, hands it on, and is woken by it.
func TestListenWebhook(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if strings.Contains(r.Chat().Last(model.User), "called your webhook") {
			return modeltest.Answer{Text: "Woken by: " + r.Chat().Last(model.User)}
		}
		return apptest.CallOnce("listen_webhook", `{"instructions":"Greet whoever calls.","max_triggers":1}`)(r)
	}))
	n := apptest.Start(t, sim)
	text, step := n.RunTool("listen_webhook")
	var made object
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	status, answer := signed(t, made, "It is Ada.")
	if status != 200 {
		t.Fatalf("%d %v", status, answer)
	}
	woken := n.WaitRun(answer["run_id"].(string))
	said := fmt.Sprint(woken["output"])
	if woken["status"] != "completed" || !strings.Contains(said, "Greet whoever calls.") || !strings.Contains(said, "It is Ada.") {
		t.Errorf("%v", woken)
	}
	if status, _ := signed(t, made, "It is Ada."); status != 410 {
		t.Errorf("the second call: %d", status)
	}
	list := n.Expect(200, "GET", contracttest.SensorsPath, nil)["sensors"].([]any)
	if one := list[0].(object); len(list) != 1 || one["made_by_run_id"] != step["run_id"] || one["agent_id"] != woken["agent_id"] {
		t.Errorf("%v of %v", list, step)
	}
}

// Whoever floods a sensor is held back after some calls, wrong ones too, while the
// company goes on, and leaves one counted entry in its audit log.
func TestSensorsThatAreFlooded(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	made := n.Expect(201, "POST", contracttest.SensorsPath, object{"agent_id": n.CreateAgent(object{"model": apptest.EchoModel})})
	path := strings.TrimPrefix(made["url"].(string), n.URL)
	statuses := map[int]int{}
	var mu sync.Mutex
	var callers sync.WaitGroup
	begin := time.Now()
	for range 8 {
		callers.Go(func() {
			for range 250 {
				r := n.SendHeaders("POST", path, "{}", "X-Sensor-Signature", "sha256="+strings.Repeat("0", 64))
				if r.StatusCode == http.StatusTooManyRequests && r.Header.Get("Retry-After") == "" {
					t.Error("429 without Retry-After")
				}
				mu.Lock()
				statuses[r.StatusCode]++
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	// 1,200 at once, and those that come back meanwhile: 20 each second.
	admitted := 1200 + 20*int(time.Since(begin).Seconds()+1)
	if statuses[401]+statuses[429] != 2000 || statuses[401] < 1200 || statuses[401] > admitted {
		t.Errorf("statuses %v", statuses)
	}
	n.Expect(200, "GET", "/api/v1/agents", nil)
	n.Stop()
	entries := n.Admin().Query(`SELECT details FROM audit_log WHERE action = 'sensor.call_refused'`)
	if len(entries) == 0 || len(entries) > 5 { // one for each minute
		t.Errorf("%d entries", len(entries))
	}
}
