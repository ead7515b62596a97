package operator

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// refusedKeys puts bodies that are refused, each with the name of its key.
func refusedKeys(t *testing.T, n *apptest.Server, section string, bodies map[string]string) {
	t.Helper()
	for body, key := range bodies {
		if r := n.Do("PUT", configPath+section, body); r.StatusCode != 422 || !strings.Contains(string(r.Body), key) {
			t.Errorf("%s: %s is answered %d %s", section, body, r.StatusCode, r.Body)
		}
	}
}

// A node drives no more runs than the operator lets it, and more as soon as it may.
func TestWorkerPool(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var asked atomic.Int64
	sim := modeltest.New(t, modeltest.Respond(func(modeltest.Request) modeltest.Answer {
		asked.Add(1)
		<-release
		return modeltest.Answer{Text: "Done."}
	}))
	n := apptest.Start(t, sim)
	put(n, "worker-pool", object{"max_workers": 1})
	agent := n.CreateAgent(nil)
	first, second := n.StartRun(agent, "one", nil), n.StartRun(agent, "two", nil)
	apptest.Eventually(t, func() bool { return asked.Load() == 1 })
	for range 100 { // requests, in the time of which a second run would have begun
		n.Expect(200, "GET", "/api/v1/runs/"+second, nil)
	}
	if asked.Load() != 1 {
		t.Errorf("%d runs are driven", asked.Load())
	}
	put(n, "worker-pool", object{"max_workers": 10})
	n.StartRun(agent, "three", nil)
	apptest.Eventually(t, func() bool { return asked.Load() >= 2 })
	close(release)
	n.WaitRun(first)
	n.WaitRun(second)
	refusedKeys(t, n, "worker-pool", map[string]string{`{"max_workers":0}`: "max_workers"})
}

// An endpoint that does not answer is left alone after as many calls, and for as long, as
// the operator says.
func TestLLMAdapters(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Status: http.StatusBadGateway, Error: "away"}))
	n := apptest.Start(t, sim)
	ref := n.Expect(200, "GET", "/api/v1/llm/models", nil)["default_model"]
	ask := func() int {
		before := sim.Calls()
		n.Do("POST", "/api/v1/llm/chat/completions", object{"model": ref, "messages": []object{{"role": "user", "content": "hello"}}})
		return sim.Calls() - before
	}
	put(n, "llm-adapters", object{"circuit_breaker_failures": 1, "circuit_breaker_pause_ms": 3600000, "circuit_breaker_max_pause_ms": 3600000})
	if made := ask(); made == 0 {
		t.Fatal("the model is not called")
	}
	if made := ask(); made != 0 {
		t.Errorf("an endpoint that is left alone is called %d times", made)
	}
	put(n, "llm-adapters", object{"circuit_breaker_pause_ms": 100, "circuit_breaker_max_pause_ms": 100})
	for range 4 { // without a bound the pauses would add up to minutes soon
		apptest.Eventually(t, func() bool { return ask() > 0 })
	}
	put(n, "llm-adapters", object{"circuit_breaker_failures": 1000, "circuit_breaker_pause_ms": 3600000, "circuit_breaker_max_pause_ms": 3600000})
	for range 3 {
		if ask() == 0 {
			t.Error("an endpoint is left alone before it failed as often as it may")
		}
	}
	refusedKeys(t, n, "llm-adapters", map[string]string{
		`{"circuit_breaker_max_pause_ms":100}`: "circuit_breaker_max_pause_ms", `{"circuit_breaker_failures":0}`: "circuit_breaker_failures",
	})
}

// Processes of MCP servers are bounded, and end when nobody uses them.
func TestMCPLimits(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.CallTool("echo", `{"message":"hello"}`)), apptest.AllowStdioCommand(t))
	add := func(agents ...string) string {
		status, _ := n.CreateMCPServer(object{
			"transport": "stdio", "command": apptest.StdioCommand, "args": []string{"--metric"}, "assigned_agent_ids": agents,
		})["status"].(string)
		return status
	}
	agent := n.CreateAgent(nil)
	if got := add(agent); got != "active" {
		t.Skipf("no MCP server runs as a process here: it is %s", got)
	}
	use := func() { // leaves a process that waits for further calls
		t.Helper()
		if got := apptest.OutputText(n.WaitRun(n.StartRun(agent, "x", nil))); got != "It says: you said hello" {
			t.Fatalf("the answer is %q", got)
		}
	}
	for _, limit := range []string{"max_processes_per_tenant", "max_processes"} {
		put(n, "mcp", object{"max_processes": nil, "max_processes_per_tenant": nil})
		use()
		put(n, "mcp", object{limit: 1})
		if got := add(); got == "active" {
			t.Errorf("with %s = 1 a second process runs", limit)
		}
	}
	put(n, "mcp", object{"max_processes": nil, "max_processes_per_tenant": nil})
	use()
	put(n, "mcp", object{"max_processes": 1, "idle_timeout_seconds": 1})
	idle := time.Now() // whoever looks for the process would use it, or end it
	apptest.Eventually(t, func() bool { return time.Since(idle) > 4*time.Second })
	if got := add(); got != "active" {
		t.Errorf("a process that nobody uses is still there: another is %s", got)
	}
	refusedKeys(t, n, "mcp", map[string]string{`{"idle_timeout_seconds":0}`: "idle_timeout_seconds"})
}

// A receiver of webhooks is given as long as the operator says.
func TestWebhookTimeout(t *testing.T) {
	t.Parallel()
	var cut, whole atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // after which the server notices that the client left
		select {
		case <-r.Context().Done():
			cut.Add(1)
		case <-time.After(time.Second):
			whole.Add(1)
		}
	}))
	t.Cleanup(hook.Close)
	n := apptest.Start(t, nil, func(c *config.Config) { c.Security.EgressAllow = strings.TrimPrefix(hook.URL, "http://") })
	id := n.Expect(201, "POST", "/api/v1/webhooks", object{"url": hook.URL, "events": []string{"agent.created"}})["webhook_id"].(string)
	put(n, "webhooks", object{"delivery_timeout_ms": 100})
	n.Expect(200, "POST", "/api/v1/webhooks/"+id+"/test", nil)
	apptest.Eventually(t, func() bool { return cut.Load() > 0 })
	put(n, "webhooks", object{"delivery_timeout_ms": nil})
	n.Expect(200, "POST", "/api/v1/webhooks/"+id+"/test", nil)
	apptest.Eventually(t, func() bool { return whole.Load() > 0 })
	refusedKeys(t, n, "webhooks", map[string]string{`{"delivery_timeout_ms":1}`: "delivery_timeout_ms"})
}

// Evaluations that do not say otherwise run as the operator says, and none runs more cases
// at a time than it may.
func TestEvaluationDefaults(t *testing.T) {
	t.Parallel()
	var asked, delay atomic.Int64
	release := make(chan struct{})
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(modeltest.Request) modeltest.Answer {
		asked.Add(1)
		<-release
		return modeltest.Answer{Text: "four", TTFT: time.Duration(delay.Load())}
	})))
	put(n, "evaluation", object{"default_concurrency": 1, "max_concurrency": 2})
	agent := n.CreateAgent(nil)
	all := "/api/v1/agents/" + agent
	set := n.Expect(201, "POST", all+"/datasets", object{"name": "words", "cases": []object{
		{"input": "one", "expected_output": "four"}, {"input": "two", "expected_output": "four"}, {"input": "three", "expected_output": "four"},
	}})["dataset_id"]
	n.Expect(422, "POST", all+"/evaluations", object{"dataset_id": set, "scorers": []string{"exact"}, "concurrency": 3})
	evaluate := func(meanwhile func()) (e object) {
		t.Helper()
		id := n.Expect(201, "POST", all+"/evaluations", object{"dataset_id": set, "scorers": []string{"exact"}})["eval_run_id"].(string)
		meanwhile()
		apptest.Eventually(t, func() bool {
			e = n.Expect(200, "GET", all+"/evaluations/"+id, nil)
			return e["completed_at"] != nil
		})
		return e["summary"].(object)
	}
	sum := evaluate(func() {
		apptest.Eventually(t, func() bool { return asked.Load() > 0 })
		for range 100 { // requests, in the time of which further cases would have begun
			n.Expect(200, "GET", all, nil)
		}
		if asked.Load() != 1 {
			t.Errorf("%d cases are run at a time", asked.Load())
		}
		close(release)
	})
	if sum["passed"] != 3.0 {
		t.Errorf("the cases became %v", sum)
	}
	put(n, "evaluation", object{"default_case_timeout_ms": 30})
	delay.Store(int64(300 * time.Millisecond))
	if sum = evaluate(func() {}); sum["errored"] != 3.0 {
		t.Errorf("with a time-out of 30 ms the cases became %v", sum)
	}
	refusedKeys(t, n, "evaluation", map[string]string{`{"default_concurrency":3}`: "max_concurrency"})
}

// Bodies may be as long as the operator says, and proxies that the operator trusts say who
// the client is.
func TestServerSettings(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	long := object{"name": "long", "description": strings.Repeat("x", 2000)}
	put(n, "server", object{"max_body_bytes": 1024})
	n.Do("POST", "/api/v1/agents", long).IsProblem(t, 413, "PAYLOAD_TOO_LARGE")
	put(n, "server", object{"max_body_bytes": nil})
	n.Expect(201, "POST", "/api/v1/agents", long)

	from := func() any {
		n.Expect(201, "POST", apptest.KeysPath, object{"name": "k"}, "X-Forwarded-For", "203.0.113.9")
		return n.Admin().Query(`SELECT ip_address FROM audit_log WHERE action = 'api_key.created' ORDER BY entry_id DESC LIMIT 1`)
	}
	if got := from(); strings.Contains(fmt.Sprint(got), "203.0.113.9") {
		t.Errorf("a proxy that nobody trusts is believed: %v", got)
	}
	put(n, "server", object{"trust_proxy": []string{"127.0.0.1", "10.0.0.0/8"}})
	if got := from(); !strings.Contains(fmt.Sprint(got), "203.0.113.9") {
		t.Errorf("the client is %v", got)
	}
	refusedKeys(t, n, "server", map[string]string{
		`{"trust_proxy":["10.0.0.0/8","nobody"]}`: "trust_proxy[1]", `{"max_body_bytes":20000000}`: "max_body_bytes",
	})
}

// What models cost is raised by the markup from the next call on, and no longer when it is
// taken back.
func TestMarkup(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "a", Usage: &model.Usage{InputTokens: 1000, OutputTokens: 500}})))
	agent := n.CreateAgent(nil)
	ref := n.Expect(200, "GET", "/api/v1/llm/models", nil)["default_model"].(string)
	put(n, "pricing", object{"models": object{ref: object{"input_usd_per_mtok": 100, "output_usd_per_mtok": 1000}}})
	for _, c := range []struct {
		body object
		cost float64
	}{
		{object{"percent": 0}, 0.6}, {object{"markup": object{"percent": 50}}, 0.9}, {object{"percent": 100}, 1.2}, {object{"percent": nil}, 0.6},
	} {
		put(n, "markup", c.body)
		cost, _ := n.WaitRun(n.StartRun(agent, "hello", nil))["metrics"].(object)["total_cost_usd"].(float64)
		if math.Abs(cost-c.cost) > 1e-9 {
			t.Errorf("with %v a run costs %v, want %v", c.body, cost, c.cost)
		}
	}
	refusedKeys(t, n, "markup", map[string]string{`{"percent":-1}`: "percent"})
}
