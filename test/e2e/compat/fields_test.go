package compat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// What the fields of a chat change that no client in these tests sends: settings reach
// the model, words of the caller are kept with the run, and what is not supported is
// refused by its name.
func TestFieldsOfChat(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t)
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(nil)
	tool := object{"type": "function", "function": object{"name": "weather", "parameters": object{"type": "object"}, "strict": true}}
	messages := []object{
		{"role": "user", "content": "One?", "name": "ann"}, {"role": "assistant", "refusal": "I will not."}, say("user", "Two?"),
	}
	for field, value := range map[string]any{
		`"frequency_penalty":0.5`: 0.5, `"logit_bias":{"50256":-100}`: object{"50256": -100}, `"verbosity":"low"`: "low",
		`"parallel_tool_calls":false`: false, `"tool_choice":"required"`: "required",
	} {
		name := strings.Split(field, `"`)[1]
		body := object{"model": agent, "messages": messages, "tools": []object{tool}, name: value}
		if r := n.Do("POST", chatPath, body); r.StatusCode != 200 {
			t.Fatalf("%s: %d %s", field, r.StatusCode, r.Body)
		}
		all := sim.Requests()
		asked := string(all[len(all)-1].Body)
		for _, want := range []string{field, `"strict":true`, "ann", "I will not."} {
			if !strings.Contains(asked, want) {
				t.Errorf("%s: no %s in %s", field, want, asked)
			}
		}
	}
	r := n.Do("POST", chatPath, object{"model": agent, "messages": messages, "metadata": object{"ticket": "7"}, "user": "ann"})
	run := n.Expect(200, "GET", "/api/v1/runs/"+strings.TrimPrefix(r.JSON["id"].(string), "chatcmpl-"), nil)
	kept := run["metadata"].(object)
	if diff := cmp.Diff([]any{object{"ticket": "7"}, "ann"}, []any{kept["client_metadata"], kept["client_user"]}); diff != "" {
		t.Errorf("kept with the run (-want +got):\n%s", diff)
	}
	for field, path := range map[string]string{"functions": chatPath, "conversation": "/v1/responses", "prompt": "/v1/responses"} {
		body := object{"model": agent, "messages": messages, "input": "hi", field: []object{{"name": "f"}}}
		if field != "functions" {
			body[field] = object{"id": "x"}
		}
		r := n.Do("POST", path, body)
		if failure, _ := r.JSON["error"].(object); r.StatusCode != 422 || failure["param"] != field {
			t.Errorf("%s: %d %s", field, r.StatusCode, r.Body)
		}
	}
}
