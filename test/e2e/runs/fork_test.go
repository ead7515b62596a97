package runs

import (
	"fmt"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// forked answers by the conversation so far: it calculates twice, refuses a product of
// 42, and otherwise repeats all that people and tools said.
func forked(r modeltest.Request) modeltest.Answer {
	c := r.Chat()
	var said []string
	results := 0
	for _, m := range c.Messages {
		switch m.Role {
		case string(model.Tool):
			results++
			said = append(said, m.Text())
		case string(model.User):
			said = append(said, m.Text())
		}
	}
	last := c.Messages[len(c.Messages)-1]
	switch {
	case last.Role == string(model.Tool) && last.Text() == "42":
		return modeltest.Answer{Status: 400, Error: "no 42"}
	case strings.Contains(c.Last(model.User), "Calculate") && results < 2:
		return modeltest.Answer{ToolCalls: []model.ToolCall{{
			ID: fmt.Sprint("call", results), Name: "calculator", Arguments: fmt.Sprintf(`{"expression":"%d*7"}`, 5+results),
		}}}
	}
	return modeltest.Answer{Text: strings.Join(said, " | ")}
}

// A run that failed is forked at the step that spoilt it, with another result of the
// tool; a completed one goes on with a message, or begins again with other input (rule
// X-fork).
func TestFork(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(forked))
	onEngines(t, sim, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
		failed := n.WaitRun(n.StartRun(agent, "Calculate.", object{"metadata": object{"order": "7"}}))
		id := failed["run_id"].(string)
		steps := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
		if failed["status"] != "failed" || len(steps) != 5 { // two calls with their results, and the refusal
			t.Fatalf("the run is %v with %d steps: %v", failed["status"], len(steps), failed["error"])
		}
		fork := func(of string, body object) (object, []any) {
			t.Helper()
			made := n.Expect(202, "POST", "/api/v1/runs/"+of+"/fork", body)
			if made["forked_from_run_id"] != of || made["continues_run_id"] != nil || made["run_id"] == of {
				t.Errorf("the fork is %v", made)
			}
			r := n.WaitRun(made["run_id"].(string))
			return r, n.Expect(200, "GET", "/api/v1/runs/"+r["run_id"].(string)+"/steps", nil)["steps"].([]any)
		}
		mended, own := fork(id, object{"step_seq": 4, "tool_result": object{"content": "43"}})
		text := mended["output"].(object)["text"]
		if mended["status"] != "completed" || text != "Calculate. | 35 | 43" || len(own) != 2 || mended["metadata"].(object)["order"] != "7" {
			t.Errorf("forked at the failing step: %v %v, own steps %v", mended["status"], text, own)
		}
		if r, _ := fork(id, object{"step_seq": 4}); r["status"] != "failed" { // the tool is called again
			t.Errorf("forked without a change: %v", r["status"])
		}
		if r, _ := fork(id, object{"step_seq": 3, "message": "Stop.", "metadata": object{"k": "v"}}); r["output"].(object)["text"] != "Calculate. | 35 | Stop." ||
			r["metadata"].(object)["k"] != "v" {
			t.Errorf("forked with a message: %v", r)
		}
		all := n.Expect(200, "GET", "/api/v1/runs/"+mended["run_id"].(string)+"/steps?inherited=true", nil)["steps"].([]any)
		if len(all) != 5 || all[0].(object)["inherited_from"] != id || all[3].(object)["inherited_from"] != nil {
			t.Errorf("the steps with the copied ones are %v", all)
		}
		again, _ := fork(mended["run_id"].(string), object{"step_seq": 6, "message": "And now?"})
		if text := again["output"].(object)["text"]; text != "Calculate. | 35 | 43 | And now?" {
			t.Errorf("a fork of a fork after its answer: %v", text)
		}
		other, _ := fork(id, object{"step_seq": 1, "input": object{"message": "Talk."}})
		if text := other["output"].(object)["text"]; text != "Talk." {
			t.Errorf("forked with other input: %v", text)
		}
		n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"prompts": object{"system": "Be kind."}})
		if r, _ := fork(id, object{"step_seq": 4, "tool_result": object{"content": "broken", "is_error": true}}); r["agent_version"] != 1.0 ||
			r["output"].(object)["text"] != "Calculate. | 35 | broken" {
			t.Errorf("forked with a failed call: %v", r)
		}
		r, _ := fork(id, object{"step_seq": 1, "version": 2, "input": object{"message": "Talk."}, "resource_limits": object{"max_steps": 3},
			"model_settings": object{"temperature": 0.25}})
		if r["agent_version"] != 2.0 || r["resource_limits"].(object)["max_steps"] != 3.0 {
			t.Errorf("forked with a version and limits: %v", r)
		}
		asked := sim.Requests()
		if last := asked[len(asked)-1]; last.Chat().Messages[0].Text() != "Be kind." || !strings.Contains(string(last.Body), `"temperature":0.25`) {
			t.Errorf("the model was asked %s", last.Body)
		}
		if r := n.Expect(200, "GET", "/api/v1/runs/"+id, nil); r["status"] != "failed" || r["step_seq"] != failed["step_seq"] {
			t.Errorf("the forked run became %v", r)
		}
	})
}

// A fork of a run of a session knows the turns before it, and is not part of it.
func TestForkInSession(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(forked)), func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(object{})
		session := n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent})["session_id"].(string)
		say := func(message string) string {
			id := n.Expect(202, "POST", "/api/v1/sessions/"+session+"/messages", object{"content": message})["run_id"].(string)
			n.WaitRun(id)
			return id
		}
		say("one")
		second := say("two")
		say("three")
		made := n.Expect(202, "POST", "/api/v1/runs/"+second+"/fork", object{"step_seq": 1, "input": object{"message": "other"}})
		r := n.WaitRun(made["run_id"].(string))
		if text := r["output"].(object)["text"]; text != "one | other" || r["session_id"] != nil {
			t.Errorf("the fork answered %v in the session %v", text, r["session_id"])
		}
		if s := n.Expect(200, "GET", "/api/v1/sessions/"+session, nil); len(s["runs"].([]any)) != 3 {
			t.Errorf("the session has %v", s["runs"])
		}
	})
}

// What cannot be forked is refused, and says why.
func TestForkRefused(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(forked)))
	agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
	failed, done := n.StartRun(agent, "Calculate.", nil), n.StartRun(agent, "Hello.", nil)
	n.WaitRun(failed)
	n.WaitRun(done)
	for _, c := range []struct {
		run    string
		body   object
		status int
		field  string
	}{
		{failed, object{}, 422, "step_seq"},
		{failed, object{"step_seq": 0}, 422, "step_seq"},
		{failed, object{"step_seq": 7}, 422, "step_seq"},
		{failed, object{"step_seq": 3, "tool_result": object{"content": "x"}}, 422, "tool_result"},
		{failed, object{"step_seq": 2, "tool_result": object{}}, 422, "tool_result.content"},
		{failed, object{"step_seq": 2, "input": object{"message": "x"}}, 422, "input"},
		{failed, object{"step_seq": 1, "input": object{"message": 7}}, 422, "input.message"},
		{done, object{"step_seq": 2}, 422, "message"},
		{failed, object{"step_seq": 1, "version": 9}, 404, ""},
		{"00000000-0000-7000-8000-000000000000", object{"step_seq": 1}, 404, ""},
	} {
		problem := n.Expect(c.status, "POST", "/api/v1/runs/"+c.run+"/fork", c.body)
		if c.field == "" {
			continue
		}
		if wrong := problem["errors"].([]any)[0].(object)["field"]; wrong != c.field {
			t.Errorf("%v: the refusal names %v", c.body, wrong)
		}
	}
}
