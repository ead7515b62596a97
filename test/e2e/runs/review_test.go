package runs

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/kernel/model/modeltest"
)

// lines parses lines of JSON.
func lines(t *testing.T, r apptest.Reply) (all []object) {
	t.Helper()
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("the export is %d %s", r.StatusCode, r.Body)
	}
	for line := range strings.Lines(string(r.Body)) {
		all = append(all, apptest.ParseObject(t, line))
	}
	return all
}

// The export of a run's events has the data of its stream, frame by frame (rule
// X-event-export).
func TestEventExport(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(forked)), func(t *testing.T, n *apptest.Server) {
		id := n.WaitRun(n.StartRun(n.CreateAgent(object{"built_in_tools": []string{"calculator"}}), "Hello.", nil))["run_id"].(string)
		var streamed []object
		for _, f := range n.ReadStream("/api/v1/runs/"+id+"/events", "", nil) {
			if f.ID != "" && f.Name != "done" {
				streamed = append(streamed, f.Object(t))
			}
		}
		path := "/api/v1/runs/" + id + "/events/export"
		got := lines(t, n.Do("GET", path, nil))
		if diff := cmp.Diff(streamed, got); diff != "" || len(got) < 5 {
			t.Errorf("streamed and exported differ:\n%s", diff)
		}
		rest := lines(t, n.Do("GET", path+"?after="+string(must(json.Marshal(got[2]["seq"]))), nil))
		if diff := cmp.Diff(got[3:], rest); diff != "" {
			t.Errorf("the rest differs:\n%s", diff)
		}
	})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// Runs are exported oldest first, by filter, and an export that was cut off goes on after
// its last line.
func TestRunExport(t *testing.T) {
	t.Parallel()
	onEngines(t, nil, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(nil)
		var ids []string
		for range 5 {
			ids = append(ids, n.WaitRun(n.StartRun(agent, "Hello.", nil))["run_id"].(string))
		}
		if all := lines(t, n.Do("GET", "/api/v1/runs/export", nil)); len(all) != 0 {
			t.Errorf("%d runs are exported before they are settled", len(all))
		}
		n.Admin().Exec(`UPDATE runs SET created_at = created_at - 60000000`)
		var got []string
		after := ""
		for range 4 {
			for _, line := range lines(t, n.Do("GET", "/api/v1/runs/export?limit=2&status=completed&after="+after, nil)) {
				got, after = append(got, line["run_id"].(string)), line["cursor"].(string)
				if apptest.OutputText(line) == "" {
					t.Errorf("the line %v has no result", line)
				}
			}
		}
		if diff := cmp.Diff(ids, got); diff != "" {
			t.Error(diff)
		}
		if all := lines(t, n.Do("GET", "/api/v1/runs/export?status=failed", nil)); len(all) != 0 {
			t.Errorf("the filter lets through %v", all)
		}
		n.Do("GET", "/api/v1/runs/export?after=nonsense", nil).IsProblem(t, 422, "INVALID_CURSOR")
	})
}

// A replay that verifies finds that events and steps agree, and where they do not; one
// that executes calls the model again and no tool (rule X-replay).
func TestReplay(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, apptest.CallTool("memory_save", `{"content": "The sky is blue.", "type": "fact"}`))
	onEngines(t, sim, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(object{"built_in_tools": []string{"memory_save"}, "approval_required_tools": []string{"memory_save"}})
		id := n.StartRun(agent, "Remember that.", nil)
		n.WaitStatus(id, "awaiting_approval")
		n.Do("POST", "/api/v1/runs/"+id+"/replay", nil).IsProblem(t, 409, "INVALID_STATE_TRANSITION")
		n.Expect(200, "POST", "/api/v1/runs/"+id+"/approve", nil)
		first := n.WaitRun(id)
		got := n.Expect(202, "POST", "/api/v1/runs/"+id+"/replay", nil)
		if got["deterministic"] != true || got["verified"] != "recorded_log" || len(got["step_comparisons"].([]any)) != 3 || got["events_replayed"].(float64) < 10 {
			t.Errorf("verified: %v", got)
		}
		kept := func() int {
			return len(n.Expect(200, "GET", "/api/v1/agents/"+agent+"/memory", nil)["items"].([]any))
		}
		before := kept()
		again := n.Expect(202, "POST", "/api/v1/runs/"+id+"/replay", object{"mode": "execute"})
		second := n.WaitRun(again["replay_run_id"].(string))
		if apptest.OutputText(second) != apptest.OutputText(first) || second["forked_from_run_id"] != id || kept() != before {
			t.Errorf("replayed: %v, and %d memories became %d", second, before, kept())
		}
		diff := n.Expect(200, "GET", "/api/v1/runs/"+id+"/diff?with="+second["run_id"].(string), nil)
		if diff["same"] != true || len(diff["steps"].([]any)) != 3 || diff["first_difference"] != nil {
			t.Errorf("the difference is %v", diff)
		}
		n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"prompts": object{"system": "Be kind."}})
		other := n.Expect(202, "POST", "/api/v1/runs/"+id+"/replay", object{"mode": "execute", "version": 2})
		if r := n.WaitRun(other["replay_run_id"].(string)); r["agent_version"] != 2.0 {
			t.Errorf("replayed with a version: %v", r)
		}
		n.Admin().Exec(`UPDATE runs SET status = 'failed' WHERE run_id = '` + id + `'`)
		got = n.Expect(202, "POST", "/api/v1/runs/"+id+"/replay", nil)
		if got["deterministic"] != false || !strings.Contains(got["divergence_reason"].(string), "and it is failed") {
			t.Errorf("verified after its status was changed: %v", got)
		}
		n.Admin().Exec(`DELETE FROM run_events WHERE run_id = '` + id + `'`)
		got = n.Expect(202, "POST", "/api/v1/runs/"+id+"/replay", nil)
		if last := got["step_comparisons"].([]any)[2].(object); got["events_replayed"] != 0.0 || last["matches"] != false {
			t.Errorf("verified without events: %v", got)
		}
	})
}

// Only keys that may start runs execute replays.
func TestReplayRoles(t *testing.T) {
	t.Parallel()
	g := apptest.StartWithRoles(t)
	owner := g.WithKey(g.KeyFor(authz.Owner, "*"))
	id := owner.WaitRun(owner.StartRun(owner.CreateAgent(nil), "Hello.", nil))["run_id"].(string)
	path := "/api/v1/runs/" + id + "/replay"
	reader := g.WithKey(g.KeyFor(authz.Developer, "runs:read"))
	reader.Expect(202, "POST", path, nil)
	reader.Do("POST", path, object{"mode": "execute"}).IsProblem(t, 403, "MISSING_SCOPE")
	viewer := g.WithKey(g.KeyFor(authz.Viewer, "*"))
	viewer.Do("PUT", "/api/v1/runs/"+id+"/feedback", object{"message_id": id, "reaction": "up"}).IsProblem(t, 403, "FORBIDDEN")
}

// Two runs are compared step by step, and steps that only one has do not move the others.
func TestRunDiff(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(forked)), func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
		a := n.WaitRun(n.StartRun(agent, "Calculate.", nil))["run_id"].(string) // fails at 42
		made := n.Expect(202, "POST", "/api/v1/runs/"+a+"/fork", object{"step_seq": 4, "tool_result": object{"content": "43"}})
		b := n.WaitRun(made["run_id"].(string))["run_id"].(string)
		got := n.Expect(200, "GET", "/api/v1/runs/"+a+"/diff?with="+b, nil)
		var changes []any
		for _, p := range got["steps"].([]any) {
			changes = append(changes, p.(object)["change"])
		}
		if diff := cmp.Diff([]any{"same", "same", "same", "changed", "changed"}, changes); diff != "" {
			t.Error(diff)
		}
		third := got["steps"].([]any)[3].(object)
		if diff := cmp.Diff([]any{"result"}, third["differs"]); diff != "" || got["first_difference"] != 3.0 || got["same"] != false {
			t.Errorf("%v %v", got["first_difference"], diff)
		}
		if diff := cmp.Diff([]any{"status", "output", "steps"}, got["changed"]); diff != "" {
			t.Error(diff)
		}
		n.Do("GET", "/api/v1/runs/"+a+"/diff", nil).IsProblem(t, 422, "INVALID_QUERY")
		short := n.WaitRun(n.StartRun(agent, "Talk.", nil))["run_id"].(string)
		got = n.Expect(200, "GET", "/api/v1/runs/"+short+"/diff?with="+b, nil)
		if len(got["steps"].([]any)) < 5 || got["first_difference"] == nil {
			t.Errorf("a run of one step: %v", got["steps"])
		}
	})
}

// Checkpoints mark the last committed step of a run that goes on.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, apptest.CallTool("ask_user", `{"question": "Which one?"}`))
	onEngines(t, sim, func(t *testing.T, n *apptest.Server) {
		id := n.StartRun(n.CreateAgent(object{"built_in_tools": []string{"ask_user"}}), "Hello.", nil)
		n.WaitStatus(id, "paused")
		path := "/api/v1/runs/" + id
		made := n.Expect(201, "POST", path+"/checkpoint", nil)
		if made["step"] != 1.0 || made["status"] != "paused" || made["step_seq"] != 1.0 {
			t.Errorf("the checkpoint is %v", made)
		}
		list := n.Expect(200, "GET", path+"/checkpoints", nil)
		if diff := cmp.Diff([]any{made}, list["checkpoints"]); diff != "" || list["total"] != 1.0 {
			t.Error(diff)
		}
		n.Expect(200, "POST", path+"/respond", object{"response": "This."})
		n.WaitRun(id)
		n.Do("POST", path+"/checkpoint", nil).IsProblem(t, 409, "INVALID_STATE_TRANSITION")
	})
}

// The audit logs of runs and sessions have what was done to them, without addresses.
func TestAuditLogsOfRuns(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, apptest.CallTool("calculator", `{"expression": "6*7"}`))
	onEngines(t, sim, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}, "approval_required_tools": []string{"calculator"}})
		session := n.CreateSession(agent, nil)
		id := n.SendMessage(session, "Hello.")
		n.WaitStatus(id, "awaiting_approval")
		n.Expect(200, "POST", "/api/v1/runs/"+id+"/cancel", nil)
		n.Expect(200, "DELETE", "/api/v1/sessions/"+session, nil)
		got := n.Expect(200, "GET", "/api/v1/runs/"+id+"/audit-log", nil)
		entries := got["audit_log"].([]any)
		if got["total"] != 1.0 || entries[0].(object)["action"] != "run.cancelled" || entries[0].(object)["ip_address"] != nil || got["has_more"] != nil {
			t.Errorf("the log of the run is %v", got)
		}
		got = n.Expect(200, "GET", "/api/v1/sessions/"+session+"/audit-log?limit=1", nil)
		entries = got["audit_log"].([]any)
		if entries[0].(object)["action"] != "session.closed" || got["has_more"] != false {
			t.Errorf("the log of the session is %v", got)
		}
	})
}

// What a member thinks of a message is theirs, and replaced as a whole.
func TestFeedback(t *testing.T) {
	t.Parallel()
	onEngines(t, nil, func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(nil)
		session := n.CreateSession(agent, nil)
		id := n.WaitRun(n.SendMessage(session, "Hello."))["run_id"].(string)
		path, inSession := "/api/v1/runs/"+id+"/feedback", "/api/v1/sessions/"+session+"/runs/"+id+"/feedback"
		n.Expect(200, "PUT", path, object{"message_id": id + "-reply", "reaction": "down", "reason": "Too long."})
		n.Expect(200, "PUT", inSession, object{"message_id": id + "-reply", "reaction": "up"})
		got := n.Expect(200, "GET", inSession+"?message_id="+id+"-reply", nil)
		if got["reaction"] != "up" || got["reason"] != nil {
			t.Errorf("the opinion is %v", got)
		}
		if all := n.Expect(200, "GET", path, nil)["feedbacks"].([]any); len(all) != 1 {
			t.Errorf("the opinions are %v", all)
		}
		if got := n.Expect(200, "GET", path+"?message_id=other", nil); got["reaction"] != nil {
			t.Errorf("of another message: %v", got)
		}
		tenant, _ := n.Me()
		other := n.WithKey(string(n.Admin().CreateKey(tenant, authz.Developer, "*").RawKey))
		if all := other.Expect(200, "GET", path, nil)["feedbacks"]; all != nil && len(all.([]any)) != 0 {
			t.Errorf("another member sees as theirs %v", all)
		}
		if all := other.Expect(200, "GET", path+"?everyone=true", nil)["feedbacks"].([]any); len(all) != 1 {
			t.Errorf("everyone's opinions are %v", all)
		}
		for body, field := range map[string]string{`{"message_id":"x","reaction":"meh"}`: "reaction", `{"reaction":"up"}`: "message_id", `{"message_id":"x","reaction":null}`: "reaction"} {
			if r := n.Do("PUT", path, apptest.ParseObject(t, body)); r.StatusCode != 422 || !strings.Contains(string(r.Body), field) {
				t.Errorf("%s is answered %d %s", body, r.StatusCode, r.Body)
			}
		}
		n.Do("GET", inSession, nil).IsProblem(t, 400, "INVALID_QUERY")
		foreign := n.CreateSession(agent, nil)
		n.Do("PUT", "/api/v1/sessions/"+foreign+"/runs/"+id+"/feedback", object{"message_id": "x", "reaction": "up"}).IsProblem(t, 404, "NOT_FOUND")
		if r := n.Do("DELETE", path+"?message_id="+id+"-reply", nil); r.StatusCode != 204 {
			t.Errorf("withdrawn: %d %s", r.StatusCode, r.Body)
		}
		if got := n.Expect(200, "GET", path+"?message_id="+id+"-reply", nil); got["reaction"] != nil {
			t.Errorf("after it was withdrawn: %v", got)
		}
	})
}

// A queued turn of a session knows how many go first, and a run that is not queued has no
// place.
func TestQueuePosition(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, apptest.CallTool("ask_user", `{"question": "Which one?"}`))
	onEngines(t, sim, func(t *testing.T, n *apptest.Server) {
		session := n.CreateSession(n.CreateAgent(object{"built_in_tools": []string{"ask_user"}}), nil)
		first := n.SendMessage(session, "one")
		n.WaitStatus(first, "paused")
		second, third := n.SendMessage(session, "two"), n.SendMessage(session, "three")
		for i, id := range []string{first, second, third} {
			got := n.Expect(200, "GET", "/api/v1/runs/"+id+"/queue-position", nil)
			if want := []float64{0, 2, 3}[i]; got["queue_position"] != want {
				t.Errorf("the run %d is at %v, want %v", i, got["queue_position"], want)
			}
		}
	})
}
