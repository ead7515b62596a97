package runs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// The first minute of a new user: an agent, a run, its tokens as they come,
// its steps and what it cost.
func TestFirstMinute(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t)
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"name": "helper", "prompts": object{"system": "Be brief."}})
	id := n.StartRun(agent, "Hello?", nil)

	frames := n.ReadStream("/api/v1/runs/"+id+"/events", "", nil)
	want := []string{"run.queued", "run.started", "step.started", "llm.chunk", "llm.completed", "step.completed", "run.completed", "done", "[DONE]"}
	if diff := cmp.Diff(want, apptest.FrameNames(frames)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	text := modeltest.Tokens(20)
	if got := apptest.ChunkText(t, frames); got != text {
		t.Errorf("the chunks say %q, want %q", got, text)
	}
	done := frames[len(frames)-2].Object(t)
	if got := done["output"].(object)["text"]; got != text || done["status"] != "completed" {
		t.Errorf("done says %v", done)
	}
	r := n.Expect(200, "GET", "/api/v1/runs/"+id, nil)
	if r["status"] != "completed" || r["output"].(object)["text"] != text || r["completed_at"] == nil {
		t.Errorf("the run is %v", r)
	}
	steps := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil)
	if steps["total"] != 1.0 || steps["steps"].([]any)[0].(object)["status"] != "completed" {
		t.Errorf("steps: %v", steps)
	}
	chat := sim.Requests()[0].Chat()
	if got := chat.Messages[0].Text(); !strings.Contains(got, "Be brief.") {
		t.Errorf("the system prompt is %q", got)
	}
}
