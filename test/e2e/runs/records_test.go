package runs

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// These tests prove over HTTP the rules that involve several packages;
// docs/conformance.md lists them.

func keys(o object) []string { return slices.Sorted(maps.Keys(o)) }

func TestRunAsItIsShown(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	agent := n.CreateAgent(object{"resource_limits": object{"max_steps": 50, "max_tool_calls": 3}})
	input := object{"message": "Hello?", "mood": "good", "deep": object{"a": []any{1.0, nil}}}
	metadata := object{"ticket": "T-1", "ünï": object{"x": true}}
	r := n.Expect(202, "POST", "/api/v1/runs", object{
		"agent_id": agent, "input": input, "metadata": metadata,
		"resource_limits": object{"max_duration_ms": 60000, "max_steps": 60, "max_tokens_per_run": 100000},
	})
	want := []string{
		"agent_id", "agent_version", "artifacts", "completed_at", "created_at", "error", "input", "metadata", "metrics", "output",
		"parent_run_id", "parent_step_id", "resource_limits", "root_run_id", "run_id", "session_id", "started_at", "started_by", "status", "step_seq", "team_run_id", "tenant_id",
	}
	if diff := cmp.Diff(want, keys(r)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if !ident.Valid(r["run_id"].(string)) || r["agent_id"] != agent || r["tenant_id"] == "" || r["status"] != "queued" {
		t.Errorf("the run is %v", r)
	}
	for _, name := range []string{"session_id", "team_run_id", "output", "error", "completed_at"} {
		if r[name] != nil {
			t.Errorf("%s is %v before anything happened", name, r[name])
		}
	}
	if _, err := time.Parse(time.RFC3339, r["created_at"].(string)); err != nil {
		t.Error(err)
	}
	limits := object{"max_duration_ms": 60000.0, "max_steps": 50.0, "max_tool_calls": 3.0, "max_tokens_per_run": 100000.0}
	kept := object{"input": input, "metadata": metadata, "artifacts": []any{}, "resource_limits": limits}
	for name, want := range kept {
		if diff := cmp.Diff(want, r[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	r = n.WaitRun(r["run_id"].(string))
	m := r["metrics"].(object)
	want = []string{
		"cache_write_tokens", "cached_tokens", "duration_ms", "guardrail_checks", "guardrail_violations", "input_tokens", "llm_calls_count", "memory_extractions",
		"memory_retrievals", "output_tokens", "steps_count", "thinking_tokens", "tool_calls_count", "total_cost_usd",
	}
	if diff := cmp.Diff(want, keys(m)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if m["total_cost_usd"] != nil || m["llm_calls_count"] != 1.0 || m["output_tokens"] != 20.0 || m["duration_ms"].(float64) <= 0 {
		t.Errorf("metrics: %v", m)
	}
	if r["status"] != "completed" || r["started_at"] == nil || r["completed_at"] == nil || r["step_seq"] != 1.0 {
		t.Errorf("the run ended as %v", r)
	}
	if diff := cmp.Diff(input, r["input"]); diff != "" || r["output"].(object)["text"] != modeltest.Tokens(20) {
		t.Errorf("input and output: %v %s", r["output"], diff)
	}
}

func TestRunsThatCannotStart(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	agent := n.CreateAgent(nil)
	hello := object{"message": "Hello?"}
	tests := map[string]struct {
		body   object
		status int
		fields []string
	}{
		"nothing":         {object{}, 422, []string{"agent_id"}},
		"wrong_message":   {object{"agent_id": agent, "input": object{"message": 1}}, 422, []string{"input.message"}},
		"wrong_types":     {object{"agent_id": 1, "input": hello, "metadata": "x", "resource_limits": object{"max_steps": -1, "max_tool_calls": "1"}}, 422, []string{"agent_id", "metadata", "resource_limits.max_steps", "resource_limits.max_tool_calls"}},
		"malformed_agent": {object{"agent_id": "7", "input": hello}, 422, []string{"agent_id"}},
		"unknown_agent":   {object{"agent_id": ident.New(), "input": hello}, 404, nil},
		"unknown_version": {object{"agent_id": agent, "version": 99, "input": hello}, 404, nil},
		"unknown_session": {object{"agent_id": agent, "session_id": ident.New(), "input": hello}, 404, nil},
	}
	for name, tt := range tests {
		p := n.Expect(tt.status, "POST", "/api/v1/runs", tt.body)
		var fields []string
		list, _ := p["errors"].([]any)
		for _, e := range list {
			fields = append(fields, e.(object)["field"].(string))
		}
		slices.Sort(fields)
		if diff := cmp.Diff(tt.fields, fields); diff != "" {
			t.Errorf("%s: wrong fields (-want +got):\n%s", name, diff)
		}
	}
	n.Expect(200, "POST", "/api/v1/agents/"+agent+"/suspend", object{})
	if p := n.Expect(409, "POST", "/api/v1/runs", object{"agent_id": agent, "input": hello}); !strings.Contains(p["detail"].(string), "suspended") {
		t.Errorf("a suspended agent: %v", p)
	}
	if page := n.Expect(200, "GET", "/api/v1/runs", nil); len(page["items"].([]any)) != 0 {
		t.Errorf("refused runs are listed: %v", page)
	}
}

// An agent whose prompt says it all needs no message.
func TestRunWithoutInput(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t)
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(nil)
	for _, body := range []object{{"agent_id": agent}, {"agent_id": agent, "input": object{}}} {
		id := n.Expect(202, "POST", "/api/v1/runs", body)["run_id"].(string)
		if r := n.WaitRun(id); r["status"] != "completed" {
			t.Errorf("%v ended as %v", body, r)
		}
	}
}

func TestRunIsCancelled(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "never", HangFirst: true}))
	n := apptest.Start(t, sim)
	id := n.StartRun(n.CreateAgent(nil), "Hello?", nil)
	first := n.Expect(200, "POST", "/api/v1/runs/"+id+"/cancel", nil)
	if diff := cmp.Diff(object{"cancelled": true, "run_id": id}, first); diff != "" {
		t.Errorf("cancelling (-want +got):\n%s", diff)
	}
	again := n.Expect(200, "POST", "/api/v1/runs/"+id+"/cancel", object{})
	if again["cancelled"] != false || again["message"] == nil || again["run_id"] != id {
		t.Errorf("cancelling again: %v", again)
	}
	r := n.Expect(200, "GET", "/api/v1/runs/"+id, nil)
	if r["status"] != "cancelled" || r["error_code"] != "RUN_CANCELLED" || r["completed_at"] == nil {
		t.Errorf("the run is %v", r)
	}
	n.Expect(404, "POST", "/api/v1/runs/"+ident.New()+"/cancel", nil)
	n.Expect(404, "POST", "/api/v1/runs/7/cancel", nil)
}

func TestStepsOfARun(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Script(
		modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "c1", Name: "calculator", Arguments: `{"expression":"6*7"}`}}},
		modeltest.Answer{Text: "It is 42."},
	))
	n := apptest.Start(t, sim)
	id := n.StartRun(n.CreateAgent(object{"built_in_tools": []string{"calculator"}}), "What is 6 times 7?", nil)
	n.WaitRun(id)
	page := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)
	if page["total"] != 3.0 {
		t.Fatalf("steps: %v", page)
	}
	types := ""
	for i, s := range page["steps"].([]any) {
		step := s.(object)
		types += step["type"].(string) + " "
		if step["seq"] != float64(i+1) || step["status"] != "completed" || step["run_id"] != id || step["started_at"] == nil ||
			step["completed_at"] == nil || step["input"] == nil || step["output"] == nil || step["metrics"] == nil || step["error"] != nil {
			t.Errorf("step %d: %v", i+1, step)
		}
	}
	if types != "llm tool llm " {
		t.Errorf("the steps are %s", types)
	}
	if some := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps?limit=2", nil); len(some["steps"].([]any)) != 2 || some["has_more"] != true || some["total"] != 3.0 {
		t.Errorf("a page of steps: %v", some)
	}
	frames := n.ReadStream("/api/v1/runs/"+id+"/events", "", nil)
	for _, f := range frames {
		switch f.Name {
		case "tool.call":
			if d := f.Object(t); d["tool_call_id"] != "c1" || d["name"] != "calculator" || d["arguments"].(object)["expression"] != "6*7" || d["stream_type"] != "tool" {
				t.Errorf("tool.call: %v", d)
			}
		case "tool.result":
			if d := f.Object(t); d["tool_call_id"] != "c1" || d["status"] != "done" || !strings.Contains(d["output"].(string), "42") || d["duration_ms"] == nil {
				t.Errorf("tool.result: %v", d)
			}
		}
	}
	if got := apptest.FrameNames(frames); !slices.Contains(got, "tool.call") || !slices.Contains(got, "tool.result") {
		t.Errorf("events: %v", got)
	}
}
