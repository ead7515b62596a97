package compat

import (
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// A team is a model on every compatible route: its answer comes whole and streamed, and
// it is in the list of models.
func TestTeamsAsModels(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		c := r.Chat()
		name, _, _ := strings.Cut(c.Messages[0].Text(), "\n")
		if strings.Contains(c.Last(model.User), "break") {
			return modeltest.Answer{Status: 400, Error: "broken"}
		}
		return modeltest.Answer{Text: name + "(" + c.Last(model.User) + ")"}
	})))
	agent := func(name string) string {
		return n.CreateAgent(object{"name": name, "prompts": object{"system": name}})
	}
	boss, ann, bob := agent("boss"), agent("ann"), agent("bob")
	id := n.Expect(201, "POST", "/api/v1/teams", object{"name": "desk", "topology": "pipeline", "supervisor_agent_id": boss,
		"workers": []object{{"agent_id": ann}, {"agent_id": bob}}})["team_id"].(string)
	name, answer := "team/"+id, "bob(ann(go))"

	listed := n.Expect(200, "GET", "/v1/models", nil)["data"].([]any)
	if last := listed[len(listed)-1].(object); last["id"] != name || last["display_name"] != "desk" {
		t.Errorf("the last model is %v", last)
	}
	if m := n.Expect(200, "GET", "/v1/models/"+name, nil); m["id"] != name || m["object"] != "model" {
		t.Errorf("%v", m)
	}
	n.Expect(404, "GET", "/v1/models/team/"+ann, nil)

	chat := object{"model": name, "messages": []object{{"role": "system", "content": "Be brief."}, {"role": "user", "content": "before"},
		{"role": "assistant", "content": "yes"}, {"role": "user", "content": "go"}}}
	r := n.Do("POST", "/v1/chat/completions", chat)
	if got := r.JSON["choices"].([]any)[0].(object)["message"].(object)["content"]; got != "bob(Be brief.\n\nann(Be brief.\n\ngo))" &&
		!strings.HasSuffix(got.(string), "go))") {
		t.Errorf("a chat completion: %v", got)
	}
	if r.JSON["usage"].(object)["completion_tokens"].(float64) < 2 || r.JSON["model"] != name {
		t.Errorf("%v", r.JSON)
	}
	shown := n.Expect(200, "GET", "/api/v1/teams/"+id+"/runs/"+r.Header.Get("X-Run-Id"), nil)
	if shown["status"] != "completed" || shown["message"] != "go" || shown["metadata"].(object)["source"] != "chat_completions" {
		t.Errorf("%v", shown)
	}
	plain := []object{{"role": "user", "content": "go"}}
	for path, c := range map[string]struct {
		body object
		want []string
	}{
		"/v1/chat/completions": {object{"messages": plain}, []string{`"content":"` + answer + `"`, "data: [DONE]"}},
		"/v1/responses":        {object{"input": "go"}, []string{"response.output_text.delta", answer, "response.completed"}},
		"/v1/messages":         {object{"messages": plain, "max_tokens": 100}, []string{answer, "message_stop"}},
	} {
		c.body["model"] = name
		if r := n.Do("POST", path, c.body); r.StatusCode != 200 || !strings.Contains(string(r.Body), answer) {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.Body)
		}
		c.body["stream"] = true
		r := n.Do("POST", path, c.body)
		for _, want := range c.want {
			if !strings.Contains(string(r.Body), want) {
				t.Errorf("%s, streamed: no %s in %s", path, want, r.Body)
			}
		}
		c.body["model"], c.body["stream"] = "team/"+ann, false
		n.Expect(404, "POST", path, c.body)
		c.body["model"] = "team/desk"
		n.Expect(404, "POST", path, c.body)
	}
	for what, body := range map[string]object{
		"tools":  {"messages": plain, "tools": []object{{"type": "function", "function": object{"name": "f"}}}},
		"format": {"messages": plain, "response_format": object{"type": "json_object"}},
		"turn":   {"messages": []object{{"role": "assistant", "content": "go"}}},
	} {
		body["model"] = name
		if r := n.Do("POST", "/v1/chat/completions", body); r.StatusCode != 422 {
			t.Errorf("%s: %d %s", what, r.StatusCode, r.Body)
		}
	}
	n.Expect(422, "POST", "/v1/responses", object{"model": name, "input": "go", "background": true})
	if r := n.Expect(200, "POST", "/v1/chat/completions", object{"model": name, "messages": []object{{"role": "user", "content": "break"}}}); !strings.Contains(
		r["choices"].([]any)[0].(object)["message"].(object)["content"].(string), "No member of the team") {
		t.Errorf("a team without an answer: %v", r)
	}
}
