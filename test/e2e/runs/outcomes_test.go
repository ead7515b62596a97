package runs

import (
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// A run, a message of a session and an agent may have a rubric. builtin/echo works and
// judges: a criterion that quotes a text is met by a result, or a file, that has it, and the
// feedback, which echo repeats, has it.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	echo := object{"provider": "custom", "model_ref": "builtin/echo"}
	agent := n.CreateAgent(object{"model": echo, "built_in_tools": []string{"write_file"}})
	polite := object{"criteria": []object{{"name": "polite", "description": `It says "please".`}}}
	end := func(run string) object { return n.Expect(200, "GET", "/api/v1/runs/"+run+"/wait", nil) }
	start := func(agent, message string, outcome any) object {
		body := object{"agent_id": agent, "input": object{"message": message}}
		if outcome != nil {
			body["outcome"] = outcome
		}
		return end(n.Expect(202, "POST", "/api/v1/runs", body)["run_id"].(string))
	}

	t.Run("reached after feedback", func(t *testing.T) {
		got := start(agent, "Pass the salt.", polite)
		o := got["outcome"].(object)
		verdicts := o["verdicts"].([]any)
		if got["status"] != "completed" || o["status"] != "reached" || o["ended_by"] != "score" || o["score"] != 1.0 || len(verdicts) != 2 ||
			o["rubric"].(object)["min_score"] != 0.8 || verdicts[0].(object)["score"] != 0.0 {
			t.Fatalf("%v", got)
		}
		kinds := []string{}
		for _, s := range n.Expect(200, "GET", "/api/v1/runs/"+got["run_id"].(string)+"/steps", nil)["steps"].([]any) {
			kinds = append(kinds, s.(object)["type"].(string))
		}
		if strings.Join(kinds, " ") != "llm judge llm judge" {
			t.Errorf("the steps are %v", kinds)
		}
		row := n.Expect(200, "GET", "/api/v1/runs?fields=summary&agent_id="+agent, nil)["items"].([]any)[0].(object)["outcome"].(object)
		if row["status"] != "reached" || row["verdicts"] != nil || row["rubric"] != nil {
			t.Errorf("the summary has %v", row)
		}
	})
	t.Run("not reached", func(t *testing.T) {
		got := start(agent, "Pass the salt.\nsay: no", object{"criteria": []object{{"name": "long", "description": `It says "because".`, "weight": 2}, {"name": "any"}}, "max_iterations": 1})
		o := got["outcome"].(object)
		if got["status"] != "failed" || got["error_code"] != "outcome_not_reached" || o["status"] != "not_reached" || o["ended_by"] != "iterations" ||
			got["output"].(object)["text"] != "no" {
			t.Errorf("%v", got)
		}
	})
	t.Run("files", func(t *testing.T) {
		wanted := object{"criteria": []object{{"name": "sweet", "description": `The recipe has "marzipan".`}}, "max_iterations": 1}
		got := start(agent, "Write it.\ncall write_file {\"path\":\"cake.md\",\"content\":\"mar\\u007aipan\"}", wanted)
		if got["status"] != "completed" {
			t.Errorf("the judge does not see the file: %v", got)
		}
		got = start(agent, "Write it.\ncall write_file {\"path\":\".env\",\"content\":\"mar\\u007aipan\"}", wanted)
		if got["status"] != "failed" {
			t.Errorf("the judge sees a file of secrets: %v", got)
		}
	})
	t.Run("of the agent and of a message", func(t *testing.T) {
		strict := n.CreateAgent(object{"model": echo, "outcome": polite})
		if got := start(strict, "Pass the salt.", nil); got["outcome"] == nil || len(got["outcome"].(object)["verdicts"].([]any)) != 2 {
			t.Errorf("by the agent's rubric: %v", got)
		}
		session := n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": strict})["session_id"].(string)
		own := object{"criteria": []object{{"name": "own"}}}
		run := n.Expect(202, "POST", "/api/v1/sessions/"+session+"/messages", object{"content": "Pass the salt.", "outcome": own})["run_id"].(string)
		if got := end(run)["outcome"].(object); got["status"] != "reached" || len(got["verdicts"].([]any)) != 1 {
			t.Errorf("by the message's rubric: %v", got)
		}
		wrong := n.Do("POST", "/api/v1/agents", object{"name": "a", "outcome": object{"criteria": []object{{"name": "a", "weight": 0}}}})
		if wrong.StatusCode != 422 || !strings.Contains(string(wrong.Body), "the weights of all criteria are 0") {
			t.Errorf("%d %s", wrong.StatusCode, wrong.Body)
		}
	})
	t.Run("contradictions", func(t *testing.T) {
		one := []object{{"name": "a"}}
		for _, c := range []struct {
			outcome object
			says    string
		}{
			{object{"criteria": []object{}}, "outcome.criteria"},
			{object{"criteria": []object{{"name": "a"}, {"name": "a"}}}, "give each criterion a name of its own"},
			{object{"criteria": []object{{"name": "a", "weight": 0}}}, "give one of them a weight above 0"},
			{object{"criteria": one, "min_score": 1.5}, "outcome.min_score"},
			{object{"criteria": one, "max_iterations": 11}, "outcome.max_iterations"},
			{object{"criteria": []object{{"name": strings.Repeat("a", 101)}}}, "outcome.criteria[0].name"},
		} {
			got := n.Do("POST", "/api/v1/runs", object{"agent_id": agent, "outcome": c.outcome})
			if got.StatusCode != 422 || !strings.Contains(string(got.Body), c.says) {
				t.Errorf("%v: %d %s", c.outcome, got.StatusCode, got.Body)
			}
		}
	})
}
