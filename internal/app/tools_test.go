package app_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	gocmp "github.com/google/go-cmp/cmp"

	"agentd/internal/base/config"
	"agentd/internal/goldentest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// searching is a simulated SearXNG, and a configuration that uses it.
func searching(t testing.TB) func(*config.Config) {
	t.Helper()
	hold := make(chan struct{})
	sim := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.FormValue("q") {
		case "broken":
			w.WriteHeader(500)
		case "slow":
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		default:
			_ = json.MarshalWrite(w, object{"results": []object{
				{"url": "https://example.com/a", "title": "About " + r.FormValue("q"), "content": "one"},
				{"url": "https://example.com/b", "title": "b", "content": "two"},
			}}, jsontext.AllowInvalidUTF8(true))
		}
	}))
	t.Cleanup(sim.Close)
	t.Cleanup(func() { close(hold) })
	return func(c *config.Config) { c.Search.Provider, c.Search.URL = "searxng", sim.URL }
}

// once has the model call one tool, and then say what the tool gave.
func once(name, arguments string) func(modeltest.Request) modeltest.Answer {
	return func(r modeltest.Request) modeltest.Answer {
		if result := r.Chat().Last(model.Tool); result != "" {
			return modeltest.Answer{Text: result}
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: name, Arguments: arguments}}}
	}
}

// said runs an agent with a tool, and gives its text and the tool's step.
func (n *node) used(tool string) (text string, step object) {
	n.t.Helper()
	id := n.run(n.agent(object{"built_in_tools": []string{tool}}), "Go.", nil)
	r := n.ended(id)
	if r["status"] != "completed" {
		n.t.Fatalf("the run is %v: %v", r["status"], r["error"])
	}
	for _, s := range n.want(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any) {
		if s.(object)["type"] == "tool" {
			step = s.(object)
		}
	}
	return r["output"].(object)["text"].(string), step
}

func TestToolHTTPFetch(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
		_, _ = io.WriteString(w, "<title>Caf\xe9</title><h1>Menu</h1><a href=/tea>tea</a>")
	}))
	t.Cleanup(site.Close)
	sim := modeltest.New(t, modeltest.Respond(once("http_fetch", fmt.Sprintf(`{"url":%q}`, site.URL+"/"))))
	allowed := start(t, sim, func(c *config.Config) { c.Security.EgressAllow = strings.TrimPrefix(site.URL, "http://") })
	want := fmt.Sprintf(`{"url":"%s/","status":200,"content_type":"text/html","title":"Café","content":"# Menu\n\n[tea](%s/tea)"}`, site.URL, site.URL)
	if text, step := allowed.used("http_fetch"); text != want || step["status"] != "completed" {
		t.Errorf("%s, %v; want %s", text, step, want)
	}
	guarded := start(t, sim)
	if text, step := guarded.used("http_fetch"); !strings.Contains(text, "not a public one") || step["status"] != "failed" {
		t.Errorf("a private address: %s, %v", text, step)
	}
}

func TestToolWebSearch(t *testing.T) {
	heavy(t)
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(once("web_search", `{"query":"ducks","max_results":1}`)))
	on, off := start(t, sim, searching(t)), start(t, sim)
	const want = `{"results":[{"title":"About ducks","url":"https://example.com/a","snippet":"one"}],"provider":"searxng"}`
	if text, _ := on.used("web_search"); text != want {
		t.Errorf("%s; want %s", text, want)
	}
	if text, step := off.used("web_search"); !strings.Contains(text, "No search provider is configured") || step["status"] != "failed" {
		t.Errorf("without a provider: %s, %v", text, step)
	}

	const path = "/api/v1/tools/web_search"
	if diff := gocmp.Diff(2, len(on.want(200, "POST", path, object{"query": "ducks"})["results"].([]any))); diff != "" {
		t.Error(diff)
	}
	for body, status := range map[string]int{
		`{}`: 422, `{"query":""}`: 422, `{"query":" "}`: 422, `{"query":7}`: 422, `{"query":"x","max_results":0}`: 422,
		`{"query":"x","max_results":11}`: 422, `{"query":"x","max_results":"3"}`: 422, `{"query":"x","max_results":10}`: 200, `[]`: 422, `{"query":`: 400,
	} {
		if got := on.do("POST", path, body); got.StatusCode != status {
			t.Errorf("%s: %d, want %d: %s", body, got.StatusCode, status, got.raw)
		}
	}
	for _, c := range []struct {
		n           *node
		query, code string
		status      int
	}{
		{off, "ducks", "SEARCH_PROVIDER_NOT_CONFIGURED", 501}, {on, "broken", "SEARCH_UPSTREAM_FAILED", 502}, {on, "slow", "SEARCH_UPSTREAM_TIMEOUT", 504},
	} {
		got := c.n.do("POST", path, object{"query": c.query})
		if got.StatusCode != c.status || got.json["code"] != c.code {
			t.Errorf("%s: %d %s", c.query, got.StatusCode, got.raw)
		}
		checkProblem(t, got)
	}
}

// relatives answers as a parent that delegates to whom the message names, and
// then says what it was told; children answer as their prompt says.
func relatives(child modeltest.Answer) func(modeltest.Request) modeltest.Answer {
	return func(r modeltest.Request) modeltest.Answer {
		c := r.Chat()
		if c.Messages[0].Text() != "parent" {
			return child
		}
		if results := c.Messages[len(c.Messages)-1]; results.Role == string(model.Tool) {
			var all []string
			for _, m := range c.Messages {
				if m.Role == string(model.Tool) {
					all = append(all, m.Text())
				}
			}
			return modeltest.Answer{Text: strings.Join(all, "|")}
		}
		var calls []model.ToolCall
		for i, arguments := range strings.Split(c.Last(model.User), "\n") {
			name := "delegate_to_agent"
			if !strings.Contains(arguments, "agent_id") {
				name = "spawn_agent"
			}
			calls = append(calls, model.ToolCall{ID: fmt.Sprintf("call_%d", i), Name: name, Arguments: arguments})
		}
		return modeltest.Answer{ToolCalls: calls}
	}
}

func (n *node) parent() string {
	n.t.Helper()
	return n.agent(object{"name": "parent", "prompts": object{"system": "parent"}, "built_in_tools": []string{"delegate_to_agent", "spawn_agent", "calculator"}})
}

func (n *node) child() string {
	n.t.Helper()
	return n.agent(object{"name": "child", "prompts": object{"system": "child"}})
}

// tasks are the runs that a run waits for, oldest first.
func (n *node) tasks(parent string) (all []object) {
	n.t.Helper()
	for _, r := range n.want(200, "GET", "/api/v1/runs?limit=100&order=asc", nil)["items"].([]any) {
		if m := r.(object)["metadata"].(object); m["parent_run_id"] == parent {
			all = append(all, r.(object))
		}
	}
	return all
}

func onEngines(t *testing.T, sim *modeltest.Server, test func(t *testing.T, n *node)) {
	t.Helper()
	for _, engine := range engines() {
		t.Run(string(engine), func(t *testing.T) { test(t, start(t, sim, onEngine(t, engine))) })
	}
}

func task(agent, message string) string {
	b, err := json.Marshal(object{"agent_id": agent, "message": message}, json.Deterministic(true))
	if err != nil {
		panic(err) // strings are JSON
	}
	return string(b)
}

func TestDelegation(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(relatives(modeltest.Answer{Text: "done by a child"}))), func(t *testing.T, n *node) {
		parent, one, two := n.parent(), n.child(), n.child()
		id := n.run(parent, task(one, "a")+"\n"+task(two, "b")+"\n"+task(parent, "c"), nil)
		r := n.ended(id)
		want := "done by a child|done by a child|An agent cannot delegate to itself. Do the task, or delegate to another agent."
		if got := r["output"].(object)["text"]; got != want {
			t.Errorf("%v; want %s", got, want)
		}
		tasks := n.tasks(id)
		if len(tasks) != 2 {
			t.Fatalf("%d tasks", len(tasks))
		}
		for _, task := range tasks {
			m := task["metadata"].(object)
			if m["source"] != "delegation" || m["depth"] != 1.0 || task["status"] != "completed" || task["run_id"].(string) <= id {
				t.Errorf("%v", task)
			}
		}
		deep := n.ended(n.run(parent, task(one, "x"), object{"metadata": object{"source": "delegation", "depth": 5}}))
		if got := deep["output"].(object)["text"].(string); !strings.Contains(got, "handed on 5 times") {
			t.Errorf("too deep: %s", got)
		}
		n.want(200, "POST", "/api/v1/agents/"+two+"/suspend", object{})
		if got := n.ended(n.run(parent, task(two, "x"), nil))["output"].(object)["text"].(string); !strings.Contains(got, "suspended") {
			t.Errorf("to a suspended agent: %s", got)
		}
		other, err := n.admin().CreateTenant(t.Context(), "Other", "o@example.com")
		if err != nil {
			t.Fatal(err)
		}
		foreign := n.as(string(other.RawKey)).child()
		if got := n.ended(n.run(parent, task(foreign, "x"), nil))["output"].(object)["text"].(string); !strings.Contains(got, "no such agent") {
			t.Errorf("to another company's agent: %s", got)
		}
	})
}

// Who cancels a run cancels what it waits for; who stops a node does not: the
// task goes on, and the parent waits for the same one again.
func TestDelegationThatIsStopped(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	answer := modeltest.Answer{HangFirst: true}
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		mu.Lock()
		defer mu.Unlock()
		return relatives(answer)(r)
	}))
	onEngines(t, sim, func(t *testing.T, n *node) {
		mu.Lock()
		answer = modeltest.Answer{HangFirst: true}
		mu.Unlock()
		parent, child := n.parent(), n.child()
		begin := func() (id, task1 string) {
			id = n.run(parent, task(child, "x"), nil)
			eventually(t, func() bool { return len(n.tasks(id)) == 1 })
			return id, n.tasks(id)[0]["run_id"].(string)
		}
		id, waiting := begin()
		n.want(200, "POST", "/api/v1/runs/"+id+"/cancel", nil)
		if r := n.ended(waiting); r["status"] != "cancelled" {
			t.Errorf("the task of a cancelled run is %v", r["status"])
		}

		id, waiting = begin()
		n.stop()
		mu.Lock()
		answer = modeltest.Answer{Text: "done at last"}
		mu.Unlock()
		again := restart(t, n.cfg)
		if r := again.ended(id); r["output"].(object)["text"] != "done at last" {
			t.Errorf("after a restart: %v", r)
		}
		if tasks := again.tasks(id); len(tasks) != 1 || tasks[0]["run_id"] != waiting || tasks[0]["status"] != "completed" {
			t.Errorf("after a restart the tasks are %v", tasks)
		}
	})
}

func TestSpawning(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(relatives(modeltest.Answer{Text: "done by a child"}))), func(t *testing.T, n *node) {
		parent := n.parent()
		id := n.run(parent, `{"name":"helper","prompt":"Help.","tools":["calculator"],"task":"help"}`+"\n"+`{"name":"thief","prompt":"x","tools":["http_fetch"]}`, nil)
		text := n.ended(id)["output"].(object)["text"].(string)
		first, second, _ := strings.Cut(text, "|")
		var made object
		if err := json.Unmarshal([]byte(first), &made); err != nil || made["answer"] != "done by a child" {
			t.Fatalf("%s: %v", text, err)
		}
		if !strings.Contains(second, "only pass on tools that it has itself") {
			t.Errorf("%s", second)
		}
		child := n.want(200, "GET", "/api/v1/agents/"+made["agent_id"].(string), nil)
		want := object{"parent_agent_id": parent, "spawn_depth": 1.0, "spawned_by_run": id}
		if diff := gocmp.Diff(want, child["metadata"]); diff != "" || child["prompts"].(object)["system"] != "Help." {
			t.Errorf("%v (-want +got):\n%s", child, diff)
		}
		byHand := n.want(201, "POST", "/api/v1/agents/"+made["agent_id"].(string)+"/spawn", object{"name": "grandchild", "prompts": object{"system": "x"}, "task": "go"})
		if chain := byHand["lineage"].(object)["chain"].([]any); len(chain) != 3 || chain[0] != parent {
			t.Errorf("%v", chain)
		}
		if r := n.ended(byHand["task_run_id"].(string)); r["output"].(object)["text"] != "done by a child" {
			t.Errorf("%v", r)
		}
		got := n.do("POST", "/api/v1/agents/"+parent+"/spawn", object{"name": "x", "tools": []string{"web_search"}})
		if details, _ := got.json["details"].(object); got.StatusCode != 403 || got.json["code"] != "SPAWN_DENIED" || details["allowed"] != false {
			t.Errorf("%d %s", got.StatusCode, got.raw)
		}
		checkProblem(t, got)
	})
}

// The table of built-in tools is made from the registry of a running agentd.
func TestToolsAreDocumented(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	list := n.want(200, "GET", "/api/v1/admin/tools", nil)
	var table strings.Builder
	table.WriteString("| Tool | Arguments | After a crash | Time |\n|---|---|---|---|\n")
	for _, entry := range list["tools"].([]any) {
		e := entry.(object)
		parameters := e["parameters"].(object)
		var arguments []string
		required, _ := parameters["required"].([]any)
		for name, schema := range parameters["properties"].(object) {
			kind := fmt.Sprint(schema.(object)["type"])
			if kinds, several := schema.(object)["type"].([]any); several {
				kind = fmt.Sprint(kinds[0])
			}
			note := ", optional"
			if slices.Contains(required, any(name)) {
				note = ""
			}
			arguments = append(arguments, fmt.Sprintf("`%s` (%s%s)", name, kind, note))
		}
		slices.SortFunc(arguments, func(a, b string) int { // what is required first
			return cmp.Or(strings.Count(a, "optional")-strings.Count(b, "optional"), strings.Compare(a, b))
		})
		repeat := "reported as interrupted"
		switch {
		case e["read_only"] == true:
			repeat = "repeated: it only reads"
		case e["idempotent"] == true:
			repeat = "repeated: twice has the effect of once"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %v |\n", e["name"], strings.Join(arguments, ", "), repeat, time.Duration(e["timeout_ms"].(float64))*time.Millisecond)
	}
	const page = "../../docs/tools.md"
	goldentest.CheckPart(t, page, "<!-- tools: made by the tests -->", "<!-- end of tools -->", []byte(table.String()))
	doc, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list["tools"].([]any) {
		if name := e.(object)["name"].(string); strings.Count(string(doc), "`"+name+"`") < 2 {
			t.Errorf("docs/tools.md says nothing of %s beside the table", name)
		}
	}
}
