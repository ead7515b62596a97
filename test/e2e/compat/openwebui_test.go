package compat

import (
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// openWebUIHeaders are what Open WebUI sends beside the key where it forwards who asks
// (ENABLE_FORWARD_USER_INFO_HEADERS).
var openWebUIHeaders = []string{
	"X-OpenWebUI-User-Name", url.PathEscape("Ada Lovelace"), "X-OpenWebUI-User-Id", "7c0f", "X-OpenWebUI-User-Email", "ada@example.com",
	"X-OpenWebUI-User-Role", "admin", "X-OpenWebUI-Chat-Id", "2f1d",
}

// Open WebUI's calls, as its source makes them (backend/open_webui/routers/openai.py
// and tasks.py): the check of a connection and the list of models, a chat with pictures
// and tools of its own, and its tasks in the background.
func TestOpenWebUI(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		switch said := r.Chat().Last("user"); {
		case strings.Contains(said, "### Task"):
			return modeltest.Answer{Text: `{"title": "Six times seven"}`}
		case r.Chat().Last("tool") != "":
			return modeltest.Answer{Text: "It says " + r.Chat().Last("tool")}
		case strings.Contains(said, "weather"):
			return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: "get_weather", Arguments: `{"city":"Bern"}`}}}
		}
		return modeltest.Answer{Text: "Forty-two.", Usage: &model.Usage{InputTokens: 10, OutputTokens: 3}}
	}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"name": "helper"})
	call := func(method, path string, body any) apptest.Reply {
		t.Helper()
		r := n.Do(method, path, body, openWebUIHeaders...)
		if r.StatusCode != 200 {
			t.Fatalf("%s %s: %d %s", method, path, r.StatusCode, r.Body)
		}
		return r
	}
	models := call("GET", "/v1/models", nil).JSON["data"].([]any)
	if !strings.Contains(fmt.Sprint(models), agent) {
		t.Fatalf("its picker shows %v", models)
	}

	chat := func(messages []object, more object) string {
		t.Helper()
		body := object{
			"stream": true, "model": agent, "messages": messages, "stream_options": object{"include_usage": true},
			"temperature": 0.7, "top_p": 0.9, "seed": 1, "stop": []string{"END"}, "reasoning": object{"effort": "low"},
		}
		maps.Copy(body, more)
		r := call("POST", chatPath, body)
		if got := r.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
			t.Errorf("the answer is %s", got)
		}
		return string(r.Body)
	}
	const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	streamed := chat([]object{
		say("system", "Answer briefly."), say("user", "Hello"), say("assistant", "Hello, Ada."),
		{"role": "user", "content": []object{
			{"type": "text", "text": "What is 6*7?", "cache_control": object{"type": "ephemeral"}}, {"type": "image_url", "image_url": object{"url": pixel}},
		}},
	}, nil)
	for _, want := range []string{`"content":"Forty`, `"finish_reason":"stop"`, `"usage":{`, "data: [DONE]"} {
		if !strings.Contains(streamed, want) {
			t.Errorf("no %s in\n%s", want, streamed)
		}
	}

	// Tools that Open WebUI runs itself: the model's call comes back to it, and its
	// result goes in with the next request.
	tools := object{"tools": []object{{"type": "function", "function": object{
		"name": "get_weather", "description": "Tells the weather.", "parameters": object{"type": "object", "properties": object{"city": object{"type": "string"}}},
	}}}}
	asks := say("user", "How is the weather?")
	if asked := chat([]object{asks}, tools); !strings.Contains(asked, `"get_weather"`) {
		t.Errorf("a call of its tool:\n%s", asked)
	}
	answered := chat([]object{
		asks,
		{"role": "assistant", "content": "", "tool_calls": []object{{
			"id": "call_1", "type": "function", "index": 0, "function": object{"name": "get_weather", "arguments": `{"city":"Bern"}`},
		}}},
		{"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
	}, tools)
	if !strings.Contains(answered, "sunny") {
		t.Errorf("with the result:\n%s", answered)
	}

	// Titles have a limit, follow-ups, tags and queries have none.
	for _, more := range []object{{"max_completion_tokens": 1000}, {}} {
		body := object{"model": agent, "messages": []object{say("user", "### Task:\nGenerate a title.")}, "stream": false}
		maps.Copy(body, more)
		r := call("POST", chatPath, body)
		message := r.JSON["choices"].([]any)[0].(object)["message"].(object)
		if diff := cmp.Diff(`{"title": "Six times seven"}`, message["content"]); diff != "" {
			t.Errorf("a task (-want +got):\n%s", diff)
		}
	}

	// What went wrong is shown from error.message, or detail.
	r := n.Do("POST", chatPath, object{"model": "gone", "messages": []object{asks}, "stream": true}, openWebUIHeaders...)
	if failure, _ := r.JSON["error"].(object); r.StatusCode != 404 || failure["message"] == "" {
		t.Errorf("an agent that is gone: %d %s", r.StatusCode, r.Body)
	}
}
