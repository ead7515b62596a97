package insight

import (
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

func experimentEnds(t testing.TB, n *apptest.Server, agent, id string) (e object) {
	t.Helper()
	apptest.Eventually(t, func() bool {
		e = n.Expect(200, "GET", "/api/v1/agents/"+agent+"/experiments/"+id, nil)
		return e["status"] == "completed"
	})
	return e
}

// An experiment runs its variants on the same cases, and names the one that is better.
func TestExperiment(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(object{"model": apptest.EchoModel, "prompts": object{"system": "one"}})
		n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"prompts": object{"system": "two"}})
		set := n.Expect(201, "POST", "/api/v1/agents/"+agent+"/datasets", object{"name": "echoes", "cases": []object{
			{"input": "say: a", "expected_output": "a"}, {"input": "say: b", "expected_output": "c"}}})["dataset_id"]
		all := "/api/v1/agents/" + agent + "/experiments"
		made := n.Expect(201, "POST", all, object{"name": "prompts", "dataset_id": set, "scorers": []string{"exact"}, "variants": []object{
			{"version": "1"}, {"version": "2"}, {"model": apptest.EchoModel}}})
		e := experimentEnds(t, n, agent, made["experiment_id"].(string))
		c := e["comparison"].(object)
		variants := c["variants"].([]any)
		against := variants[1].(object)["against_baseline"].(object)
		if c["winner_eval_run_id"] != nil || against["cases"] != 2.0 || against["p_value"] != 1.0 || variants[0].(object)["against_baseline"] != nil ||
			variants[2].(object)["version"] != "2" || variants[0].(object)["summary"].(object)["pass_rate"] != 0.5 {
			t.Errorf("the experiment is %v", e)
		}
		if l := n.Expect(200, "GET", all, nil); l["total"] != 1.0 {
			t.Errorf("the list is %v", l)
		}
	})
}

// Of two versions the better one wins, also where their evaluations were made before.
func TestExperimentHasAWinner(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(script)))
	agent := n.CreateAgent(object{"prompts": object{"system": "plain"}})
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"prompts": object{"system": "upper"}})
	set := words(n, agent, 12)
	before := evaluate(t, n, agent, object{"dataset_id": set, "agent_version": "1"})["eval_run_id"]
	all := "/api/v1/agents/" + agent + "/experiments"
	made := n.Expect(201, "POST", all, object{"name": "prompts", "dataset_id": set, "concurrency": 8, "variants": []object{
		{"eval_run_id": before}, {"version": "2"}}})
	e := experimentEnds(t, n, agent, made["experiment_id"].(string))
	c := e["comparison"].(object)
	second := c["variants"].([]any)[1].(object)
	against := second["against_baseline"].(object)
	if c["baseline_eval_run_id"] != before || c["winner_eval_run_id"] != second["eval_run_id"] || against["gained"] != 12.0 || against["significant"] != true ||
		against["scores"].(object)["exact"].(object)["change"] != 1.0 {
		t.Errorf("the comparison is %v", c)
	}
	again := n.Expect(201, "POST", all, object{"name": "the same", "dataset_id": set, "variants": []object{
		{"eval_run_id": before}, {"eval_run_id": second["eval_run_id"]}}})
	if e := experimentEnds(t, n, agent, again["experiment_id"].(string)); e["comparison"].(object)["winner_eval_run_id"] != second["eval_run_id"] {
		t.Errorf("of the same evaluations: %v", e)
	}
	n.Expect(422, "POST", all, object{"name": "odd", "dataset_id": set, "variants": []object{{"eval_run_id": before, "version": "2"}, {}}})
	n.Expect(204, "DELETE", all+"/"+again["experiment_id"].(string), nil)
	n.Expect(404, "GET", all+"/"+again["experiment_id"].(string), nil)
}
