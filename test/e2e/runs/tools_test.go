package runs

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	gocmp "github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

func TestToolHTTPFetch(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
		_, _ = io.WriteString(w, "<title>Caf\xe9</title><h1>Menu</h1><a href=/tea>tea</a>")
	}))
	t.Cleanup(site.Close)
	sim := modeltest.New(t, modeltest.Respond(apptest.CallOnce("http_fetch", fmt.Sprintf(`{"url":%q}`, site.URL+"/"))))
	allowed := apptest.Start(t, sim, func(c *config.Config) { c.Security.EgressAllow = strings.TrimPrefix(site.URL, "http://") })
	want := fmt.Sprintf(`{"url":"%s/","status":200,"content_type":"text/html","title":"Café","content":"# Menu\n\n[tea](%s/tea)"}`, site.URL, site.URL)
	if text, step := allowed.RunTool("http_fetch"); text != want || step["status"] != "completed" {
		t.Errorf("%s, %v; want %s", text, step, want)
	}
	guarded := apptest.Start(t, sim)
	if text, step := guarded.RunTool("http_fetch"); !strings.Contains(text, "not a public one") || step["status"] != "failed" {
		t.Errorf("a private address: %s, %v", text, step)
	}
}

func TestToolWebSearch(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(apptest.CallOnce("web_search", `{"query":"ducks","max_results":1}`)))
	on, off := apptest.Start(t, sim, apptest.WebSearch(t)), apptest.Start(t, sim)
	const want = `{"results":[{"title":"About ducks","url":"https://example.com/a","snippet":"one"}],"provider":"searxng"}`
	if text, _ := on.RunTool("web_search"); text != want {
		t.Errorf("%s; want %s", text, want)
	}
	if text, step := off.RunTool("web_search"); !strings.Contains(text, "No search provider is configured") || step["status"] != "failed" {
		t.Errorf("without a provider: %s, %v", text, step)
	}

	const path = "/api/v1/tools/web_search"
	if diff := gocmp.Diff(2, len(on.Expect(200, "POST", path, object{"query": "ducks"})["results"].([]any))); diff != "" {
		t.Error(diff)
	}
	for body, status := range map[string]int{
		`{}`: 422, `{"query":""}`: 422, `{"query":" "}`: 422, `{"query":7}`: 422, `{"query":"x","max_results":0}`: 422,
		`{"query":"x","max_results":11}`: 422, `{"query":"x","max_results":"3"}`: 422, `{"query":"x","max_results":10}`: 200, `[]`: 422, `{"query":`: 400,
	} {
		if got := on.Do("POST", path, body); got.StatusCode != status {
			t.Errorf("%s: %d, want %d: %s", body, got.StatusCode, status, got.Body)
		}
	}
	for _, c := range []struct {
		n           *apptest.Server
		query, code string
		status      int
	}{
		{off, "ducks", "SEARCH_PROVIDER_NOT_CONFIGURED", 501}, {on, "broken", "SEARCH_UPSTREAM_FAILED", 502}, {on, "slow", "SEARCH_UPSTREAM_TIMEOUT", 504},
	} {
		got := c.n.Do("POST", path, object{"query": c.query})
		if got.StatusCode != c.status || got.JSON["code"] != c.code {
			t.Errorf("%s: %d %s", c.query, got.StatusCode, got.Body)
		}
		apptest.CheckProblem(t, got)
	}
}

// relatives answers as a parent that delegates to the agent named in the
// message and then repeats the result; children answer as their prompt says.
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

func createParent(n *apptest.Server) string {
	n.T.Helper()
	return n.CreateAgent(object{"name": "parent", "prompts": object{"system": "parent"}, "built_in_tools": []string{"delegate_to_agent", "spawn_agent", "calculator"}})
}

func createChild(n *apptest.Server) string {
	n.T.Helper()
	return n.CreateAgent(object{"name": "child", "prompts": object{"system": "child"}})
}

// childTasks are the runs that a run waits for, oldest first.
func childTasks(n *apptest.Server, parent string) (all []object) {
	n.T.Helper()
	for _, r := range n.Expect(200, "GET", "/api/v1/runs?limit=100&order=asc&parent_run_id="+parent, nil)["items"].([]any) {
		all = append(all, r.(object))
	}
	return all
}

func onEngines(t *testing.T, sim *modeltest.Server, test func(t *testing.T, n *apptest.Server)) {
	t.Helper()
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) { test(t, apptest.Start(t, sim, apptest.OnEngine(t, engine))) })
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
	onEngines(t, modeltest.New(t, modeltest.Respond(relatives(modeltest.Answer{Text: "done by a child"}))), func(t *testing.T, n *apptest.Server) {
		parent, one, two := createParent(n), createChild(n), createChild(n)
		id := n.StartRun(parent, task(one, "a")+"\n"+task(two, "b")+"\n"+task(parent, "c"), nil)
		r := n.WaitRun(id)
		want := "done by a child|done by a child|An agent cannot delegate to itself. Do the task, or delegate to another agent."
		if got := r["output"].(object)["text"]; got != want {
			t.Errorf("%v; want %s", got, want)
		}
		tasks := childTasks(n, id)
		if len(tasks) != 2 {
			t.Fatalf("%d tasks", len(tasks))
		}
		for _, task := range tasks {
			m := task["metadata"].(object)
			if m["source"] != "delegation" || m["depth"] != 1.0 || task["status"] != "completed" || task["run_id"].(string) <= id {
				t.Errorf("%v", task)
			}
			checkMandate(n, task)
		}
		deep := n.WaitRun(n.StartRun(parent, task(one, "x"), object{"metadata": object{"source": "delegation", "depth": 5}}))
		if got := deep["output"].(object)["text"].(string); !strings.Contains(got, "handed on 5 times") {
			t.Errorf("too deep: %s", got)
		}
		n.Expect(200, "POST", "/api/v1/agents/"+two+"/suspend", object{})
		if got := n.WaitRun(n.StartRun(parent, task(two, "x"), nil))["output"].(object)["text"].(string); !strings.Contains(got, "suspended") {
			t.Errorf("to a suspended agent: %s", got)
		}
		other, err := n.Admin().Tenants.Create(t.Context(), "Other", "o@example.com")
		if err != nil {
			t.Fatal(err)
		}
		foreign := createChild(n.WithKey(string(other.RawKey)))
		if got := n.WaitRun(n.StartRun(parent, task(foreign, "x"), nil))["output"].(object)["text"].(string); !strings.Contains(got, "no such agent") {
			t.Errorf("to another company's agent: %s", got)
		}
	})
}

// checkMandate fails unless the parent's agent signed the task of a run, as anyone can
// check with its public key.
func checkMandate(n *apptest.Server, task object) {
	n.T.Helper()
	parts := strings.Split(task["metadata"].(object)["signature"].(string), ".")
	decoded := make([][]byte, len(parts))
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.DecodeString(part); err != nil || len(parts) != 3 {
			n.T.Fatal(parts, err)
		}
	}
	var claims, header object
	if err := errors.Join(json.Unmarshal(decoded[0], &header), json.Unmarshal(decoded[1], &claims)); err != nil {
		n.T.Fatal(err)
	}
	parent := n.Expect(200, "GET", "/api/v1/runs/"+task["parent_run_id"].(string), nil)["agent_id"].(string)
	if header["alg"] != "EdDSA" || header["kid"] != parent || claims["iss"] != parent || claims["sub"] != task["agent_id"] || claims["jti"] != task["run_id"] {
		n.T.Errorf("%v signed %v", header, claims)
	}
	public, err := base64.StdEncoding.DecodeString(n.Expect(200, "GET", "/api/v1/agents/"+parent+"/identity", nil)["public_key"].(string))
	if err != nil || !ed25519.Verify(public, []byte(parts[0]+"."+parts[1]), decoded[2]) {
		n.T.Errorf("the signature does not fit the agent's key: %v", err)
	}
	if got := header["jwk"].(object)["x"]; got != base64.RawURLEncoding.EncodeToString(public) {
		n.T.Errorf("the key of the header is %v", got)
	}
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
	onEngines(t, sim, func(t *testing.T, n *apptest.Server) {
		mu.Lock()
		answer = modeltest.Answer{HangFirst: true}
		mu.Unlock()
		parent, child := createParent(n), createChild(n)
		begin := func() (id, task1 string) {
			id = n.StartRun(parent, task(child, "x"), nil)
			apptest.Eventually(t, func() bool { return len(childTasks(n, id)) == 1 })
			return id, childTasks(n, id)[0]["run_id"].(string)
		}
		id, waiting := begin()
		n.Expect(200, "POST", "/api/v1/runs/"+id+"/cancel", nil)
		if r := n.WaitRun(waiting); r["status"] != "cancelled" {
			t.Errorf("the task of a cancelled run is %v", r["status"])
		}

		id, waiting = begin()
		n.Stop()
		mu.Lock()
		answer = modeltest.Answer{Text: "done at last"}
		mu.Unlock()
		again := apptest.Restart(t, n.Config)
		if r := again.WaitRun(id); r["output"].(object)["text"] != "done at last" {
			t.Errorf("after a restart: %v", r)
		}
		if tasks := childTasks(again, id); len(tasks) != 1 || tasks[0]["run_id"] != waiting || tasks[0]["status"] != "completed" {
			t.Errorf("after a restart the tasks are %v", tasks)
		}
	})
}

func TestSpawning(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(relatives(modeltest.Answer{Text: "done by a child"}))), func(t *testing.T, n *apptest.Server) {
		parent := createParent(n)
		id := n.StartRun(parent, `{"name":"helper","prompt":"Help.","tools":["calculator"],"task":"help"}`+"\n"+`{"name":"thief","prompt":"x","tools":["http_fetch"]}`, nil)
		text := n.WaitRun(id)["output"].(object)["text"].(string)
		first, second, _ := strings.Cut(text, "|")
		var made object
		if err := json.Unmarshal([]byte(first), &made); err != nil || made["answer"] != "done by a child" {
			t.Fatalf("%s: %v", text, err)
		}
		if !strings.Contains(second, "only pass on tools that it has itself") {
			t.Errorf("%s", second)
		}
		child := n.Expect(200, "GET", "/api/v1/agents/"+made["agent_id"].(string), nil)
		want := object{"parent_agent_id": parent, "spawn_depth": 1.0, "spawned_by_run": id}
		if diff := gocmp.Diff(want, child["metadata"]); diff != "" || child["prompts"].(object)["system"] != "Help." {
			t.Errorf("%v (-want +got):\n%s", child, diff)
		}
		byHand := n.Expect(201, "POST", "/api/v1/agents/"+made["agent_id"].(string)+"/spawn", object{"name": "grandchild", "prompts": object{"system": "x"}, "task": "go"})
		if chain := byHand["lineage"].(object)["chain"].([]any); len(chain) != 3 || chain[0] != parent {
			t.Errorf("%v", chain)
		}
		if r := n.WaitRun(byHand["task_run_id"].(string)); r["output"].(object)["text"] != "done by a child" {
			t.Errorf("%v", r)
		}
		got := n.Do("POST", "/api/v1/agents/"+parent+"/spawn", object{"name": "x", "tools": []string{"web_search"}})
		if details, _ := got.JSON["details"].(object); got.StatusCode != 403 || got.JSON["code"] != "SPAWN_DENIED" || details["allowed"] != false {
			t.Errorf("%d %s", got.StatusCode, got.Body)
		}
		apptest.CheckProblem(t, got)
	})
}
