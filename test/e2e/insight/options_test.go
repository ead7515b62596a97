package insight

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// No more cases run at a time than an evaluation says, a case that takes too long is
// errored, and the runs use the model that is named.
func TestOptionsOfEvaluations(t *testing.T) {
	t.Parallel()
	var at, most atomic.Int64
	gate := make(chan struct{})
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		now := at.Add(1)
		defer at.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		<-gate
		return script(r)
	}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"prompts": object{"system": "upper"}})
	set := words(n, agent, 30)
	started := n.Expect(201, "POST", "/api/v1/agents/"+agent+"/evaluations", object{"dataset_id": set, "concurrency": 3})
	apptest.Eventually(t, func() bool { return at.Load() == 3 })
	close(gate)
	e := ended(t, n, agent, started["eval_run_id"].(string))
	if sum := e["summary"].(object); sum["passed"] != 30.0 || most.Load() > 3 {
		t.Errorf("%d ran at a time: %v", most.Load(), sum)
	}
	e = evaluate(t, n, agent, object{"dataset_id": set, "case_timeout_ms": 1})
	if sum := e["summary"].(object); sum["errored"] != 30.0 {
		t.Errorf("within a millisecond: %v", sum)
	}
	e = evaluate(t, n, agent, object{"dataset_id": set, "model": object{"provider": "custom", "model_ref": "builtin/echo"}})
	if r := e["results"].([]any)[0].(object); e["model"].(object)["model_ref"] != "builtin/echo" || !strings.Contains(r["output"].(string), "word0") {
		t.Errorf("of another model: %v", r)
	}
	n.Expect(404, "POST", "/api/v1/agents/"+agent+"/evaluations", object{"dataset_id": set, "agent_version": "7"})
	n.Expect(422, "POST", "/api/v1/agents/"+agent+"/evaluations", object{"dataset_id": set, "agent_version": "first"})
	n.Expect(422, "POST", "/api/v1/agents/"+agent+"/evaluations", object{"dataset_id": set, "scorers": []string{"fate"}})
	n.Expect(501, "POST", "/api/v1/agents/"+agent+"/evaluations", object{"dataset_id": set, "scorers": []string{"embedding"}})
}

// The runs of an evaluation spend no more together than it may.
func TestBudgetOfAnEvaluation(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(script))
	// A call reads 10 tokens, which is a dollar.
	n := apptest.Start(t, nil, apptest.WithModels(t, sim, `[{"id":"sim-model","input_usd_per_mtok":100000,"output_usd_per_mtok":0}]`))
	agent := n.CreateAgent(object{"prompts": object{"system": "upper"}})
	e := evaluate(t, n, agent, object{"dataset_id": words(n, agent, 40), "max_cost_usd": 15, "concurrency": 2})
	sum := e["summary"].(object)
	if e["status"] != "failed" || !strings.Contains(e["error"].(string), "max_cost_usd") || sum["total_cost_usd"].(float64) > 15 ||
		sum["passed"].(float64) < 1 || e["ended_cases"].(float64) >= 40 {
		t.Errorf("the evaluation is %v, %v", e["error"], sum)
	}
}

// A run that waits for a person is errored: in an evaluation nobody answers. In a sandbox
// it goes on without.
func TestSandboxedEvaluation(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{"model": apptest.EchoModel, "built_in_tools": []string{"calculator"}, "approval_required_tools": []string{"calculator"}})
	set := n.Expect(201, "POST", "/api/v1/agents/"+agent+"/datasets", object{"name": "asks", "cases": []object{
		{"input": `call calculator {"expression":"6*7"}`, "expected_output": "42"}}})["dataset_id"]
	e := evaluate(t, n, agent, object{"dataset_id": set, "scorers": []string{"contains"}})
	if all, _ := e["errored_cases"].([]any); len(all) != 1 || !strings.Contains(all[0].(object)["error"].(string), "waited for a person") {
		t.Errorf("the evaluation is %v", e)
	}
	e = evaluate(t, n, agent, object{"dataset_id": set, "scorers": []string{"contains"}, "sandbox": true})
	if all, _ := e["errored_cases"].([]any); len(all) != 0 {
		t.Errorf("in a sandbox: %v", e)
	}
}

// A cancelled evaluation ends its runs, and keeps what it has.
func TestCancelledEvaluation(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if strings.Contains(string(r.Body), "word0") {
			return script(r)
		}
		return modeltest.Answer{HangFirst: true}
	})))
	agent := n.CreateAgent(object{"prompts": object{"system": "upper"}})
	all := "/api/v1/agents/" + agent + "/evaluations"
	id := n.Expect(201, "POST", all, object{"dataset_id": words(n, agent, 10), "concurrency": 2})["eval_run_id"].(string)
	apptest.Eventually(t, func() bool { return n.Expect(200, "GET", all+"/"+id, nil)["ended_cases"] == 1.0 })
	n.Expect(202, "POST", all+"/"+id+"/cancel", nil)
	e := ended(t, n, agent, id)
	sum := e["summary"].(object)
	if e["status"] != "cancelled" || sum["passed"] != 1.0 || sum["errored"] != 2.0 {
		t.Errorf("the evaluation is %v", e)
	}
	n.Expect(409, "POST", all+"/"+id+"/cancel", nil)
	for _, r := range n.ListRuns(agent) {
		if s := r.(object)["status"]; s != "completed" && s != "cancelled" {
			t.Errorf("a run is %v", s)
		}
	}
	// With the agent goes all of it.
	n.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)
	beside := n.Admin()
	apptest.Eventually(t, func() bool {
		left := 0
		for _, table := range []string{"evaluations", "evaluation_results", "eval_cases"} {
			left += len(beside.Query("SELECT tenant_id FROM " + table))
		}
		return left == 0
	})
}

// Where the plan allows no run an evaluation is refused with 429, and where it allows no
// more it ends and says so.
func TestPlansLimitEvaluations(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plans.json")
	plans := `{"plans":[{"id":"some","name":"Some","limits":{"runs_per_month":5}},{"id":"none","name":"None","limits":{"runs_per_month":0}}],"default":"some"}`
	if err := os.WriteFile(file, []byte(plans), 0o600); err != nil {
		t.Fatal(err)
	}
	n := apptest.Start(t, nil, func(c *config.Config) { c.Tenancy.Plans = file })
	agent := n.CreateAgent(object{"model": apptest.EchoModel})
	e := evaluate(t, n, agent, object{"dataset_id": words(n, agent, 20), "concurrency": 1})
	if e["status"] != "failed" || !strings.Contains(e["error"].(string), "runs in a month") || e["ended_cases"].(float64) > 7 {
		t.Errorf("the evaluation is %v, %v", e["error"], e["ended_cases"])
	}
	_, poor := n.CreateTenant(object{"name": "Poor", "plan": "none"})
	agent = poor.CreateAgent(object{"model": apptest.EchoModel})
	poor.Expect(429, "POST", "/api/v1/agents/"+agent+"/evaluations", object{"dataset_id": words(poor, agent, 1)})
	if code := poor.Do("POST", "/api/v1/agents/"+agent+"/evaluations", object{"dataset_id": words(poor, agent, 1)}).JSON["code"]; code != "limit_reached" {
		t.Errorf("the code is %v", code)
	}
}
