package runs

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// A run that delegates is shown with the runs that it started: on its steps, in
// lists, and on one timeline.
func TestFamilyOfARun(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(relatives(modeltest.Answer{Text: "done by a child"}))), func(t *testing.T, n *apptest.Server) {
		parent, child := createParent(n), createChild(n)
		id := n.StartRun(parent, `{"agent_id":"`+child+`","message":"do it"}`+"\n"+`{"agent_id":"`+child+`","message":"and that"}`, nil)
		n.WaitRun(id)

		var children []string
		steps := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)["steps"].([]any)
		for _, s := range steps {
			st := s.(object)
			started, _ := st["child_run_ids"].([]any)
			if want := st["type"] == "tool"; (len(started) == 1) != want {
				t.Errorf("step %v started %v", st["seq"], started)
			}
			for _, c := range started {
				r := n.Expect(200, "GET", "/api/v1/runs/"+c.(string), nil)
				if r["parent_run_id"] != id || r["root_run_id"] != id || r["parent_step_id"] != st["step_id"] || r["started_by"].(object)["type"] != "run" {
					t.Errorf("the child is %v", r)
				}
				children = append(children, c.(string))
			}
			one := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps/"+st["step_id"].(string), nil)
			if diff := gocmp.Diff(st, one); diff != "" {
				t.Errorf("(-of all +alone):\n%s", diff)
			}
		}
		if len(children) != 2 {
			t.Fatalf("children: %v", children)
		}
		if r := n.Expect(200, "GET", "/api/v1/runs/"+id, nil); r["parent_run_id"] != nil || r["root_run_id"] != nil || r["started_by"].(object)["type"] != "key" {
			t.Errorf("the parent is %v", r)
		}
		apptest.CheckProblem(t, n.Do("GET", "/api/v1/runs/"+children[0]+"/steps/"+steps[0].(object)["step_id"].(string), nil)) // another run's step
		for query, want := range map[string]int{"root_run_id": 2, "parent_run_id": 2, "started_by": 0} {
			if got := n.Expect(200, "GET", "/api/v1/runs?"+query+"="+id, nil)["items"].([]any); len(got) != want {
				t.Errorf("%s: %d runs", query, len(got))
			}
		}
		for asked, chain := range map[string][]string{id: {id}, children[1]: {id, children[1]}} {
			got := n.Expect(200, "GET", "/api/v1/admin/trace/"+asked, nil)
			var runs []string
			for _, r := range got["trace"].([]any) {
				runs = append(runs, r.(object)["run_id"].(string))
			}
			if diff := gocmp.Diff(chain, runs); diff != "" || got["trace_id"] != id || got["count"] != 3.0 || len(got["runs"].([]any)) != 3 {
				t.Errorf("the trace of %s: %s, %v", asked, diff, got)
			}
		}
		checkTimeline(t, n, id, len(children))
		checkSummaries(t, n, id, children[1])
	})
}

func checkTimeline(t *testing.T, n *apptest.Server, id string, children int) {
	t.Helper()
	whole := n.Expect(200, "GET", "/api/v1/runs/"+id+"/timeline", nil)
	if whole["truncated"] != false || whole["has_more"] != false {
		t.Errorf("%v", whole)
	}
	types, known := map[string]int{}, map[any]bool{}
	for i, s := range whole["items"].([]any) {
		span := s.(object)
		types[span["type"].(string)]++
		if i == 0 != (span["parent_id"] == nil) || i > 0 && !known[span["parent_id"]] {
			t.Errorf("span %d is part of %v: %v", i, span["parent_id"], span)
		}
		known[span["span_id"]] = true
		if span["type"] == "child" && (span["name"] != "child" || span["status"] != "completed" || span["end"] == nil) {
			t.Errorf("%v", span)
		}
		if span["step_type"] == "tool" && span["name"] != "delegate_to_agent" || span["step_type"] == "llm" && span["name"] != "sim-model" {
			t.Errorf("%v", span)
		}
	}
	// Two calls of the model and two of the tool by the parent, one of the model by each child.
	if diff := gocmp.Diff(map[string]int{"run": 1, "child": children, "step": 6}, types); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var paged []any
	for path := "/api/v1/runs/" + id + "/timeline?limit=2"; path != ""; {
		page := n.Expect(200, "GET", path, nil)
		paged = append(paged, page["items"].([]any)...)
		path = ""
		if cursor, ok := page["cursor"].(string); ok {
			path = "/api/v1/runs/" + id + "/timeline?limit=2&cursor=" + cursor
		}
	}
	if diff := gocmp.Diff(whole["items"], any(paged)); diff != "" {
		t.Errorf("pages (-whole +paged):\n%s", diff)
	}
}

func checkSummaries(t *testing.T, n *apptest.Server, id, child string) {
	t.Helper()
	rows := n.Expect(200, "GET", "/api/v1/runs?fields=summary&order=asc", nil)["items"].([]any)
	byID := map[any]object{}
	for _, r := range rows {
		byID[r.(object)["run_id"]] = r.(object)
	}
	r := byID[child]
	if r["agent_name"] != "child" || r["input_preview"] != "and that" || r["output_preview"] != "done by a child" || r["output"] != nil {
		t.Errorf("the child is %v", r)
	}
	if _, ok := r["input"]; ok {
		t.Errorf("a summary has the input: %v", r)
	}
	if by := byID[id]["started_by"].(object); by["type"] != "key" || strings.TrimSpace(by["name"].(string)) == "" {
		t.Errorf("started by %v", by)
	}
	for _, s := range n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps?fields=summary", nil)["steps"].([]any) {
		st := s.(object)
		if st["input"] != nil || st["output"] != nil || st["name"] == nil || st["type"] == "tool" && st["input_preview"] == nil {
			t.Errorf("the step is %v", st)
		}
	}
	apptest.CheckProblem(t, n.Do("GET", "/api/v1/runs?fields=some", nil))
}
