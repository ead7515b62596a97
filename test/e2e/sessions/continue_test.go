package sessions

import (
	"strings"
	"sync/atomic"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// A turn that failed is continued as the same turn, also when others followed it
// (rule D22-continue-session).
func TestContinuedTurn(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if broken.Load() {
			return modeltest.Answer{Status: 400, Error: "no"}
		}
		return modeltest.Answer{Text: "You said " + r.Chat().Last(model.User)}
	}))
	n := apptest.Start(t, sim)
	session := n.CreateSession(n.CreateAgent(nil), nil)
	n.WaitRun(n.SendMessage(session, "one"))
	broken.Store(true)
	failed := n.SendMessage(session, "two")
	if r := n.WaitRun(failed); r["status"] != "failed" {
		t.Fatalf("the run is %v", r["status"])
	}
	broken.Store(false)
	n.WaitRun(n.SendMessage(session, "three"))
	path := "/api/v1/runs/" + failed + "/continue"
	next := n.Expect(202, "POST", path, object{})["run_id"].(string)
	if r := n.WaitRun(next); r["status"] != "completed" || r["session_id"] != session || r["continues_run_id"] != failed {
		t.Errorf("the new run is %v", r)
	}
	again := n.Do("POST", path, object{})
	if again.StatusCode != 409 || again.JSON["code"] != "ALREADY_CONTINUED" || again.JSON["run_id"] != next {
		t.Errorf("continuing twice: %d %v", again.StatusCode, again.JSON)
	}
	if steps := n.Expect(200, "GET", "/api/v1/runs/"+next+"/steps?inherited=true", nil)["steps"].([]any); len(steps) != 1 {
		t.Errorf("the steps are %v", steps)
	}
	var texts []string
	for _, m := range n.Expect(200, "GET", "/api/v1/sessions/"+session, nil)["conversation_history"].([]any) {
		texts = append(texts, m.(object)["content"].(string))
	}
	want := "one|You said one|two|You said two|three|You said three"
	if got := strings.Join(texts, "|"); got != want {
		t.Errorf("the conversation is %s, want %s", got, want)
	}
	if r := n.WaitRun(n.SendMessage(session, "four")); r["status"] != "completed" {
		t.Errorf("the next turn is %v", r["status"])
	}
}
