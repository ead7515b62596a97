package compat

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

const chatPath = "/v1/chat/completions"

func say(role, text string) object { return object{"role": role, "content": text} }

func TestChatCompletion(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t)
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"prompts": object{"system": "You are the agent."}})
	for _, name := range []string{agent, "agent/" + agent} {
		r := n.Do("POST", chatPath, object{
			"model": name, "temperature": 0.5, "max_tokens": 33,
			"messages": []object{say("system", "Answer in rhyme."), say("user", "One?"), say("assistant", "One."), say("user", "Two?")},
		})
		if r.StatusCode != 200 {
			t.Fatalf("%d %s", r.StatusCode, r.Body)
		}
		choices := r.JSON["choices"].([]any)
		choice := choices[0].(object)
		if r.JSON["object"] != "chat.completion" || len(choices) != 1 || choice["finish_reason"] != "stop" || choice["message"].(object)["content"] != modeltest.Tokens(20) {
			t.Errorf("the answer is %s", r.Body)
		}
		if diff := cmp.Diff(object{"prompt_tokens": 10.0, "completion_tokens": 20.0, "total_tokens": 30.0}, r.JSON["usage"]); diff != "" {
			t.Errorf("usage (-want +got):\n%s", diff)
		}
		run := n.Expect(200, "GET", "/api/v1/runs/"+strings.TrimPrefix(r.JSON["id"].(string), "chatcmpl-"), nil)
		if run["status"] != "completed" || run["agent_id"] != agent || run["metadata"].(object)["source"] != "chat_completions" {
			t.Errorf("the run is %v", run)
		}
	}
	asked := sim.Requests()[0].Chat()
	var system, all []string
	for _, m := range asked.Messages {
		all = append(all, m.Role+": "+m.Text())
		if m.Role == "system" {
			system = append(system, m.Text())
		}
	}
	if len(system) == 0 || !strings.Contains(system[0], "You are the agent.") || strings.Contains(system[0], "rhyme") {
		t.Errorf("the agent's own prompt: %q", system)
	}
	last := all[max(0, len(all)-2):]
	if !strings.Contains(strings.Join(last, "\n"), "rhyme") || !strings.HasSuffix(all[len(all)-1], "Two?") {
		t.Errorf("the caller's instruction does not stand with the last message: %q", all)
	}
	for _, want := range []string{`"temperature":0.5`, `33`} {
		if !strings.Contains(string(sim.Requests()[0].Body), want) {
			t.Errorf("the model was not asked with %s: %s", want, sim.Requests()[0].Body)
		}
	}
}

// streamChat returns the data lines of a streamed completion.
func streamChat(n *apptest.Server, body object) (lines []string) {
	n.T.Helper()
	body["stream"] = true
	r := n.Do("POST", chatPath, body)
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/event-stream" {
		n.T.Fatalf("%d %s %s", r.StatusCode, r.Header.Get("Content-Type"), r.Body)
	}
	for line := range strings.Lines(string(r.Body)) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			lines = append(lines, data)
		}
	}
	return lines
}

func TestChatCompletionStreamed(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	body := object{"model": n.CreateAgent(nil), "messages": []object{say("user", "Hello?")}}
	for _, withUsage := range []bool{false, true} {
		if withUsage {
			body["stream_options"] = object{"include_usage": true}
		}
		lines := streamChat(n, body)
		if lines[len(lines)-1] != "[DONE]" {
			t.Fatalf("the stream ends with %s", lines[len(lines)-1])
		}
		text, finish, usage := "", "", 0
		for _, line := range lines[:len(lines)-1] {
			var chunk struct {
				Object  string `json:"object"`
				Choices []struct {
					Delta struct {
						Content string `json:"content"`
					} `json:"delta"`
					FinishReason *string `json:"finish_reason"`
				} `json:"choices"`
				Usage *object `json:"usage"`
			}
			if err := json.Unmarshal([]byte(line), &chunk); err != nil || chunk.Object != "chat.completion.chunk" {
				t.Fatalf("%v: %s", err, line)
			}
			if chunk.Usage != nil {
				usage++
			}
			for _, c := range chunk.Choices {
				text += c.Delta.Content
				if c.FinishReason != nil {
					finish += *c.FinishReason
				}
			}
		}
		if text != modeltest.Tokens(20) || finish != "stop" || (usage == 1) != withUsage {
			t.Errorf("the chunks say %q, finish %q, %d with usage", text, finish, usage)
		}
	}
}

func TestChatThatFails(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Status: 400, Error: "no"}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(nil)
	body := object{"model": agent, "messages": []object{say("user", "Hello?")}}
	answer := n.Expect(200, "POST", chatPath, body)
	if c := answer["choices"].([]any)[0].(object); c["finish_reason"] != "error" || answer["run_error"].(object)["code"] != "model_error" {
		t.Errorf("a model that refuses: %v", answer)
	}
	lines := streamChat(n, body)
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, `"finish_reason":"error"`) }) || lines[len(lines)-1] != "[DONE]" {
		t.Errorf("streamed: %v", lines)
	}

	hello := []object{say("user", "Hello?")}
	tests := map[string]struct {
		method, path string
		body         any
		headers      []string
		status       int
		kind         string
	}{
		"no_key":         {"POST", chatPath, body, []string{"Authorization", "Bearer x"}, 401, "authentication_error"},
		"unknown_agent":  {"POST", chatPath, object{"model": ident.New(), "messages": hello}, nil, 404, "invalid_request_error"},
		"no_agent":       {"POST", chatPath, object{"model": "gpt-4", "messages": hello}, nil, 404, "invalid_request_error"},
		"no_messages":    {"POST", chatPath, object{"model": agent, "messages": []object{}}, nil, 422, "invalid_request_error"},
		"no_json":        {"POST", chatPath, `{"model":`, nil, 400, "invalid_request_error"},
		"other_verb":     {"DELETE", chatPath, nil, nil, 405, ""},
		"other_tenant":   {"POST", chatPath, body, []string{"X-Active-Tenant", "another"}, 400, "invalid_request_error"},
		"models_no_key":  {"GET", "/v1/models", nil, []string{"Authorization", ""}, 401, "authentication_error"},
		"models_tenant":  {"GET", "/v1/models", nil, []string{"X-Active-Tenant", "another"}, 400, "invalid_request_error"},
		"model_unknown":  {"GET", "/v1/models/" + ident.New(), nil, nil, 404, "invalid_request_error"},
		"unknown_suffix": {"GET", "/v1/models/" + agent + "/more", nil, nil, 404, ""},
	}
	for name, tt := range tests {
		r := n.Do(tt.method, tt.path, tt.body, tt.headers...)
		if r.StatusCode != tt.status {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.Body)
		}
		if tt.kind == "" {
			continue
		}
		e, _ := r.JSON["error"].(object)
		if e["type"] != tt.kind || e["message"] == "" || e["code"] == nil || len(r.JSON) != 1 {
			t.Errorf("%s: %s", name, r.Body)
		}
	}
	none := n.WithScopes("billing:read")
	if r := none.Do("POST", chatPath, body); r.StatusCode != 403 || r.JSON["error"].(object)["code"] != "MISSING_SCOPE" {
		t.Errorf("without the scope: %d %s", r.StatusCode, r.Body)
	}
}

func TestAgentsAreModels(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	var ids []string
	for _, name := range []string{"Ann", "Bob"} {
		ids = append(ids, n.CreateAgent(object{"name": name}))
	}
	n.Expect(200, "POST", "/api/v1/agents/"+ids[1]+"/suspend", object{})
	list := n.Expect(200, "GET", "/v1/models", nil)
	if list["object"] != "list" {
		t.Errorf("the list is %v", list)
	}
	shown := map[string]string{}
	for _, m := range list["data"].([]any) {
		e := m.(object)
		shown[e["id"].(string)], _ = e["display_name"].(string)
		if e["object"] != "model" || e["created"] == nil || e["owned_by"] == nil {
			t.Errorf("an entry is %v", e)
		}
	}
	if diff := cmp.Diff(map[string]string{ids[0]: "Ann", ids[1]: "Bob"}, shown); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	for _, id := range []string{ids[0], "agent/" + ids[1]} {
		if m := n.Expect(200, "GET", "/v1/models/"+id, nil); !strings.HasSuffix(id, m["id"].(string)) {
			t.Errorf("%s is %v", id, m)
		}
	}
}

// A client that goes away leaves its run running.
func TestChatClientThatLeaves(t *testing.T) {
	t.Parallel()
	pieces := strings.SplitAfter(modeltest.Tokens(20), " ")
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(20), Pieces: pieces, Delay: 5_000_000}))
	n := apptest.Start(t, sim)
	enc, err := json.Marshal(object{"model": n.CreateAgent(nil), "stream": true, "messages": []object{say("user", "Hello?")}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", n.URL+chatPath, strings.NewReader(string(enc)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := apptest.HTTPClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	r := n.WaitRun(resp.Header.Get("X-Run-Id"))
	if r["status"] != "completed" || r["output"].(object)["text"] != modeltest.Tokens(20) {
		t.Errorf("the run ended as %v", r)
	}
}
