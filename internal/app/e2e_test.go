package app_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model/modeltest"
)

// The first minute of a new user: an agent, a run, its tokens as they come,
// its steps and what it cost.
func TestFirstMinute(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t)
	n := start(t, sim)
	agent := n.agent(object{"name": "helper", "prompts": object{"system": "Be brief."}})
	id := n.run(agent, "Hello?", nil)

	frames := n.stream("/api/v1/runs/"+id+"/events", "", nil)
	want := []string{"run.queued", "run.started", "step.started", "llm.chunk", "llm.completed", "step.completed", "run.completed", "done", "[DONE]"}
	if diff := cmp.Diff(want, names(frames)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	text := modeltest.Tokens(20)
	if got := said(t, frames); got != text {
		t.Errorf("the chunks say %q, want %q", got, text)
	}
	done := frames[len(frames)-2].object(t)
	if got := done["output"].(object)["text"]; got != text || done["status"] != "completed" {
		t.Errorf("done says %v", done)
	}
	r := n.want(200, "GET", "/api/v1/runs/"+id, nil)
	if r["status"] != "completed" || r["output"].(object)["text"] != text || r["completed_at"] == nil {
		t.Errorf("the run is %v", r)
	}
	steps := n.want(200, "GET", "/api/v1/runs/"+id+"/steps", nil)
	if steps["total"] != 1.0 || steps["steps"].([]any)[0].(object)["status"] != "completed" {
		t.Errorf("steps: %v", steps)
	}
	chat := sim.Requests()[0].Chat()
	if got := chat.Messages[0].Text(); !strings.Contains(got, "Be brief.") {
		t.Errorf("the system prompt is %q", got)
	}
}
