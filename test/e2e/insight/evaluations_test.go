package insight

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// script is a model that answers as the system prompt says: with the prompt "upper" in
// capital letters, and otherwise with the message as it is.
func script(r modeltest.Request) modeltest.Answer {
	chat := r.Chat()
	message := chat.Last(model.User)
	if strings.Contains(chat.Last(model.System), "upper") {
		message = strings.ToUpper(message)
	}
	return modeltest.Answer{Text: message}
}

// evaluate starts an evaluation and waits until it has ended.
func evaluate(t testing.TB, n *apptest.Server, agent string, body object) object {
	t.Helper()
	started := n.Expect(201, "POST", "/api/v1/agents/"+agent+"/evaluations", body)
	return ended(t, n, agent, started["eval_run_id"].(string))
}

func ended(t testing.TB, n *apptest.Server, agent, id string) (e object) {
	t.Helper()
	apptest.Eventually(t, func() bool {
		e = n.Expect(200, "GET", "/api/v1/agents/"+agent+"/evaluations/"+id, nil)
		return e["completed_at"] != nil
	})
	return e
}

// words makes a dataset whose cases expect the words in capital letters.
func words(n *apptest.Server, agent string, count int) string {
	var cases []object
	for i := range count {
		cases = append(cases, object{"input": object{"message": fmt.Sprintf("word%d", i)}, "expected_output": fmt.Sprintf("WORD%d", i)})
	}
	return n.Expect(201, "POST", "/api/v1/agents/"+agent+"/datasets", object{"name": "words", "cases": cases})["dataset_id"].(string)
}

func TestEvaluation(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(object{"model": apptest.EchoModel})
		set := n.Expect(201, "POST", "/api/v1/agents/"+agent+"/datasets", object{"name": "echoes", "cases": []object{
			{"input": "say: four", "expected_output": "four", "tags": []string{"easy"}},
			{"input": object{"message": "say: five"}, "expected_output": object{"text": "six"}},
			{"input": object{"message": "fail"}, "expected_output": "seven"},
		}})
		cases := set["cases"].([]any)
		if set["case_count"] != 3.0 || cases[0].(object)["input"].(object)["message"] != "say: four" {
			t.Fatalf("the dataset is %v", set)
		}
		e := evaluate(t, n, agent, object{"dataset_id": set["dataset_id"], "scorers": []string{"exact"}})
		sum := e["summary"].(object)
		if e["status"] != "completed" || sum["passed"] != 1.0 || sum["failed"] != 1.0 || sum["errored"] != 1.0 || sum["total_cases"] != 3.0 {
			t.Fatalf("the evaluation is %v", e)
		}
		if scores := sum["avg_scores"].(object); scores["exact"] != 0.5 {
			t.Errorf("the mean is %v", scores)
		}
		results := e["results"].([]any)
		for i, passed := range []bool{true, false, false} {
			r := results[i].(object)
			if r["passed"] != passed || r["case_id"] != cases[i].(object)["case_id"] {
				t.Errorf("result %d is %v", i, r)
			}
		}
		if all := e["errored_cases"].([]any); len(all) != 1 || all[0].(object)["case_id"] != cases[2].(object)["case_id"] {
			t.Errorf("errored are %v", all)
		}
		run := n.Expect(200, "GET", "/api/v1/runs/"+results[0].(object)["run_id"].(string), nil)
		if by := run["started_by"].(object); by["type"] != "evaluation" || by["id"] != e["eval_run_id"] {
			t.Errorf("the run was started by %v", by)
		}
	})
}

// An evaluation of a version that does worse than the one before is a regression, after
// which the agent has its old prompt again, and a webhook is sent.
func TestRegressionRollsBack(t *testing.T) {
	t.Parallel()
	var told atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) { told.Add(1) }))
	t.Cleanup(hook.Close)
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(script)), func(c *config.Config) { c.Security.EgressAllow = strings.TrimPrefix(hook.URL, "http://") })
	n.Expect(201, "POST", "/api/v1/webhooks", object{"url": hook.URL, "events": []string{"eval.auto_rollback"}})
	agent := n.CreateAgent(object{"prompts": object{"system": "upper"}})
	set := words(n, agent, 20)
	first := evaluate(t, n, agent, object{"dataset_id": set})
	if sum := first["summary"].(object); sum["pass_rate"] != 1.0 || sum["regression_detected"] != false || sum["regression"] != nil {
		t.Fatalf("the first evaluation: %v", sum)
	}
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"prompts": object{"system": "plain"}})
	second := evaluate(t, n, agent, object{"dataset_id": set, "auto_rollback_on_regression": true})
	sum := second["summary"].(object)
	if sum["pass_rate"] != 0.0 || sum["regression_detected"] != true {
		t.Fatalf("the second evaluation: %v", sum)
	}
	regression := sum["regression"].(object)
	if regression["baseline_eval_run_id"] != first["eval_run_id"] || regression["lost"] != 20.0 || regression["rolled_back_to_version"] != "1" {
		t.Errorf("the regression: %v", regression)
	}
	g := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil)
	if g["prompts"].(object)["system"] != "upper" || g["version"] != "3" {
		t.Errorf("the agent is %v", g)
	}
	apptest.Eventually(t, func() bool { return told.Load() == 1 })

	// Where the agent was changed since, nothing is rolled back.
	again := evaluate(t, n, agent, object{
		"dataset_id": set, "agent_version": "2", "auto_rollback_on_regression": true, "baseline_eval_run_id": first["eval_run_id"],
	})
	regression = again["summary"].(object)["regression"].(object)
	if regression["rolled_back_to_version"] != nil || regression["not_rolled_back"] == nil {
		t.Errorf("the regression of an old version: %v", regression)
	}
	if g := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil); g["version"] != "3" {
		t.Errorf("the agent is %v", g)
	}
}

// A fall within max_drop that may be chance is no regression.
func TestMaxDrop(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if a := script(r); a.Text != "WORD0" || !strings.Contains(string(r.Body), "worse") {
			return a
		}
		return modeltest.Answer{Text: "nothing"}
	})))
	agent := n.CreateAgent(object{"prompts": object{"system": "upper"}})
	set := words(n, agent, 10)
	evaluate(t, n, agent, object{"dataset_id": set})
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"prompts": object{"system": "upper worse"}})
	for _, c := range []struct {
		drop      any
		regressed bool
	}{{nil, true}, {0.2, false}, {0.05, true}} {
		body := object{"dataset_id": set}
		if c.drop != nil {
			body["max_drop"] = c.drop
		}
		if sum := evaluate(t, n, agent, body)["summary"].(object); sum["regression_detected"] != c.regressed || sum["pass_rate"] != 0.9 {
			t.Errorf("%v: %v", c.drop, sum)
		}
	}
}

// An evaluation goes on where a server stopped in the middle of it, and runs no case twice.
func TestEvaluationSurvivesRestart(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		calls.Add(1)
		a := script(r)
		a.TTFT = 20 * time.Millisecond
		return a
	})))
	agent := n.CreateAgent(object{"prompts": object{"system": "upper"}})
	all := "/api/v1/agents/" + agent + "/evaluations"
	id := n.Expect(201, "POST", all, object{"dataset_id": words(n, agent, 60), "concurrency": 4})["eval_run_id"].(string)
	apptest.Eventually(t, func() bool { return n.Expect(200, "GET", all+"/"+id, nil)["ended_cases"].(float64) > 5 })
	n.Stop()
	again := apptest.Restart(t, n.Config)
	e := ended(t, again, agent, id)
	if sum := e["summary"].(object); e["status"] != "completed" || sum["passed"] != 60.0 || calls.Load() > 60+8 {
		t.Errorf("after %d calls: %v", calls.Load(), sum)
	}
}

// Scorers that hang, lie or answer too much give no score, and end nothing but their case.
func TestBadScorers(t *testing.T) {
	t.Parallel()
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hangs":
			_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is seen only then
			<-r.Context().Done()
		case "/lies":
			fmt.Fprint(w, `{"score": 7, "reason": "best of all"}`)
		case "/much":
			_, _ = w.Write(make([]byte, 10<<20))
		case "/fine":
			fmt.Fprint(w, `{"score": 0.75, "reason": "nearly"}`)
		}
	}))
	t.Cleanup(hook.Close)
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(script)), func(c *config.Config) { c.Security.EgressAllow = strings.TrimPrefix(hook.URL, "http://") })
	agent := n.CreateAgent(nil)
	set := words(n, agent, 2)
	all := "/api/v1/agents/" + agent + "/scorers"
	for _, name := range []string{"hangs", "lies", "much", "fine"} {
		n.Expect(201, "POST", all, object{"name": name, "config": object{"type": "webhook", "url": hook.URL + "/" + name, "timeout_ms": 300}})
	}
	for _, bad := range []string{"hangs", "lies", "much"} {
		e := evaluate(t, n, agent, object{"dataset_id": set, "scorers": []string{bad}})
		if sum := e["summary"].(object); e["status"] != "completed" || sum["errored"] != 2.0 {
			t.Errorf("%s: %v", bad, sum)
		}
		for _, c := range e["errored_cases"].([]any) {
			if why := c.(object)["error"].(string); !strings.Contains(why, "The scorer "+bad+" gave no score") {
				t.Errorf("%s: %s", bad, why)
			}
		}
	}
	e := evaluate(t, n, agent, object{"dataset_id": set, "scorers": []string{"fine"}})
	r := e["results"].([]any)[0].(object)
	if r["passed"] != true || r["scores"].(object)["fine"] != 0.75 || r["reasons"].(object)["fine"] != "nearly" {
		t.Errorf("the result is %v", r)
	}
	n.Expect(422, "POST", all, object{"name": "inside", "config": object{"type": "webhook", "url": "http://10.0.0.1/score"}})
	n.Expect(409, "POST", all, object{"name": "fine", "config": object{"type": "exact"}})
	n.Expect(422, "POST", all, object{"name": "odd", "config": object{"type": "regex", "url": "https://example.com/"}})
}
