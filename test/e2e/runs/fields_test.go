package runs

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/mcp/mcptest"
	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/wire/wiretest"
	"agentd/internal/wire/wiretest/anthropictest"
)

// What the settings and prompts of an agent change in the calls of its model.
func TestFieldsOfAgents(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t)
	n := apptest.Start(t, sim)
	ask := func(settings object) string {
		t.Helper()
		agent := n.CreateAgent(object{
			"prompts":        object{"system": "You are the agent.", "developer": "Be kind."},
			"built_in_tools": []string{"calculator"}, "model_settings": settings,
		})
		if r := n.WaitRun(n.StartRun(agent, "Go.", nil)); r["status"] != "completed" {
			t.Fatalf("%v", r)
		}
		all := sim.Requests()
		return string(all[len(all)-1].Body)
	}
	plain := ask(nil)
	if !strings.Contains(plain, `You are the agent.\n\nBe kind.`) {
		t.Errorf("the prompts: %s", plain)
	}
	for field, settings := range map[string]object{
		`"frequency_penalty":0.5`:     {"frequency_penalty": 0.5},
		`"presence_penalty":0.25`:     {"presence_penalty": 0.25},
		`"parallel_tool_calls":false`: {"parallel_tool_calls": false},
	} {
		if asked := ask(settings); strings.Contains(plain, field) || !strings.Contains(asked, field) {
			t.Errorf("%v: %s", settings, asked)
		}
	}
}

// The model's provider is asked to cache the prompt, unless the agent's or the run's settings
// switch that off.
func TestPromptCache(t *testing.T) {
	t.Parallel()
	w := &wireUnderTest{name: "anthropic", protocol: anthropictest.Messages{}, provider: object{"api_key": "sk-ant-secret"}}
	n := startWires(t, w.at(t, wiretest.Reply{Answer: wiretest.Answer{Blocks: []wiretest.Block{{Text: "So."}}}}))
	for name, tt := range map[string]struct {
		agent, run object
		want       bool
	}{
		"plain":        {nil, nil, true},
		"auto":         {object{"prompt_cache": "auto"}, nil, true},
		"off":          {object{"prompt_cache": "off"}, nil, false},
		"off by a run": {object{"prompt_cache": "auto"}, object{"prompt_cache": "off"}, false},
	} {
		agent := n.CreateAgent(object{"model": object{"provider": "openai_compat", "model_ref": "anthropic/claude"}, "model_settings": tt.agent})
		start := object{"agent_id": agent, "input": object{"message": "Go."}}
		if tt.run != nil {
			start["model_settings"] = tt.run
		}
		if r := n.WaitRun(n.Expect(202, "POST", "/api/v1/runs", start)["run_id"].(string)); r["status"] != "completed" {
			t.Fatalf("%s: %v", name, r)
		}
		all := w.endpoint.Asked()
		if asked := all[len(all)-1].Body; strings.Contains(asked, "cache_control") != tt.want {
			t.Errorf("%s: %s", name, asked)
		}
	}
}

// What an agent's fields decide about its calls: who is asked before a tool, how long,
// and which model answers where the first does not.
func TestFieldsOfAgentsThatDecide(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		switch {
		case r.Chat().Model == "broken":
			return modeltest.Answer{Status: http.StatusBadRequest, Error: "down"}
		case r.Chat().Model == "spare":
			return modeltest.Answer{Text: "from the spare"}
		case r.Chat().Last("tool") != "":
			return modeltest.Answer{Text: "It says: " + r.Chat().Last("tool")}
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "c", Name: "calculator", Arguments: `{"expression":"6*7"}`}}}
	}))
	n := apptest.Start(t, sim)
	start := func(fields object) string {
		t.Helper()
		fields["built_in_tools"] = []string{"calculator"}
		return n.StartRun(n.CreateAgent(fields), "Go.", nil)
	}
	trust := func(level string) []object { return []object{{"tool_name": "calculator", "trust_level": level}} }
	asks := object{"tool_approvals": []object{{"tool_name": "calculator", "approval": "always"}}, "approval_timeout_ms": 1000}
	n.WaitStatus(start(object{"tool_overrides": trust("ask_first")}), "awaiting_approval")
	if r := n.WaitRun(start(object{"approval_required_tools": []string{"calculator"}, "tool_overrides": trust("always_allow")})); r["status"] != "completed" {
		t.Errorf("always allowed: %v", r)
	}
	if r := n.WaitRun(start(object{"tool_overrides": trust("never_allow")})); strings.Contains(fmt.Sprint(r["output"]), "42") {
		t.Errorf("never allowed: %v", r)
	}
	if r := n.WaitRun(start(object{"policies": asks})); r["error_code"] != "approval_expired" {
		t.Errorf("asked in vain for a second: %v", r)
	}
	named := func(ref string) object { return object{"provider": "openai_compat", "model_ref": ref} }
	if r := n.WaitRun(start(object{"model": named("broken"), "fallback_model": named("spare")})); !strings.Contains(fmt.Sprint(r["output"]), "from the spare") {
		t.Errorf("with a fallback: %v", r)
	}
}

// A command of a message is in the input of its run.
func TestFieldsOfMessages(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	session := n.CreateSession(n.CreateAgent(object{"model": apptest.EchoModel}), nil)
	reply := n.Expect(202, "POST", "/api/v1/sessions/"+session+"/messages", object{"content": "Go.", "command": "/summarize"})
	input := n.WaitRun(reply["run_id"].(string))["input"].(object)
	if input["command"] != "/summarize" || input["message"] != "Go." {
		t.Errorf("%v", input)
	}
}

// A server is renamed, and turned off and on by its status; a client that was
// registered by hand is the one that asks for authorization.
func TestFieldsOfMCPServers(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil, local)
	p := mcptest.NewProtected(t, mcptest.New())
	made := n.CreateMCPServer(object{
		"url": p.URL, "auth": object{"type": "oauth", "client_id": "registered by hand", "client_secret": "hush-hush"},
	})
	path := "/api/v1/mcp/servers/" + made["id"].(string)
	link := n.Expect(200, "POST", path+"/authorize", nil)["authorization_url"].(string)
	person := newPerson(t, n)
	person.authorize(link)
	if !slices.ContainsFunc(person.passed, func(u *url.URL) bool { return u.Query().Get("client_id") == "registered by hand" }) {
		t.Errorf("the person passed %v", person.passed)
	}
	off := n.Expect(200, "PATCH", path, object{"name": "Other", "status": "disabled"})
	if diff := cmp.Diff([]any{"Other", false, "disabled"}, []any{off["name"], off["enabled"], off["status"]}); diff != "" {
		t.Errorf("turned off (-want +got):\n%s", diff)
	}
	if on := n.Expect(200, "PATCH", path, object{"status": "active"}); on["enabled"] != true {
		t.Errorf("turned on: %v", on)
	}
}
