package runs

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// An agent's settings reach its model, those of a run and of a message take precedence
// member by member, and null clears. What the model refuses is left out with a warning in
// the step.
func TestModelSettings(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if strings.Contains(string(r.Body), `"seed"`) {
			return modeltest.Answer{Status: http.StatusBadRequest, Error: "Unknown parameter: 'seed'."}
		}
		return modeltest.Answer{Text: `{"a":1}`}
	}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"model_settings": object{
		"temperature": 0.25, "top_p": 0.5, "max_output_tokens": 77, "stop": []string{"END"}, "reasoning_effort": "low",
		"response_format": object{"type": "json_object"},
	}})
	sent := func() object {
		t.Helper()
		var body object
		all := sim.Requests()
		if err := json.Unmarshal(all[len(all)-1].Body, &body); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"model", "messages", "stream", "stream_options", "tools"} {
			delete(body, name)
		}
		return body
	}
	wide := object{
		"temperature": 0.25, "top_p": 0.5, "max_tokens": 77.0, "stop": []any{"END"}, "reasoning_effort": "low", "response_format": object{"type": "json_object"},
	}
	start := func(settings any) string {
		t.Helper()
		body := object{"agent_id": agent, "input": object{"message": "Go."}}
		if settings != nil {
			body["model_settings"] = settings
		}
		id := n.Expect(202, "POST", "/api/v1/runs", body)["run_id"].(string)
		if r := n.WaitRun(id); r["status"] != "completed" {
			t.Fatalf("%v", r)
		}
		return id
	}
	start(nil)
	if diff := cmp.Diff(wide, sent()); diff != "" {
		t.Errorf("the agent's (-want +got):\n%s", diff)
	}
	id := start(object{"temperature": 0, "top_p": nil, "stop": nil, "seed": 4, "response_format": nil, "reasoning_effort": nil})
	if diff := cmp.Diff(object{"temperature": 0.0, "max_tokens": 77.0}, sent()); diff != "" {
		t.Errorf("the run's (-want +got):\n%s", diff)
	}
	steps := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
	output := steps[0].(object)["output"].(object)
	if diff := cmp.Diff([]any{object{"code": "parameter_dropped", "parameter": "seed"}}, output["warnings"]); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	session := n.CreateSession(agent, nil)
	reply := n.Expect(202, "POST", "/api/v1/sessions/"+session+"/messages", object{"content": "Go.", "model_settings": object{"temperature": 1}})
	n.WaitRun(reply["run_id"].(string))
	wide["temperature"] = 1.0
	if diff := cmp.Diff(wide, sent()); diff != "" {
		t.Errorf("the message's (-want +got):\n%s", diff)
	}
	for _, wrong := range []any{object{"temperature": 3}, object{"response_format": object{"type": "xml"}}, 7} {
		apptest.CheckCode(t, n.Do("POST", "/api/v1/runs", object{"agent_id": agent, "model_settings": wrong}), 422, "VALIDATION_ERROR")
		apptest.CheckCode(t, n.Do("POST", "/api/v1/sessions/"+session+"/messages", object{"content": "Go.", "model_settings": wrong}), 422, "VALIDATION_ERROR")
	}
}
