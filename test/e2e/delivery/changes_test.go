package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// watch reads a stream of changes in the background.
func watch(n *apptest.Server, query string, enough func(apptest.Frame) bool) (frames chan []apptest.Frame) {
	opened := make(chan struct{})
	frames = make(chan []apptest.Frame, 1)
	go func() {
		frames <- n.ReadStream("/api/v1/changes/stream"+query, "", func(f apptest.Frame) bool {
			if f.Name == "ready" {
				close(opened)
			}
			return enough(f)
		})
	}()
	select {
	case <-opened:
	case <-time.After(30 * time.Second):
		n.T.Error("the stream does not open")
	}
	return frames
}

// TestChangesStream follows a company: agents, a run with its state and its events,
// approvals, sessions, notifications and the counts of them.
func TestChangesStream(t *testing.T) {
	t.Parallel()
	answer := modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if req.Chat().Last("user") == "fail" {
			return modeltest.Answer{Status: 400, Error: "no"}
		}
		return modeltest.Answer{Text: "done"}
	})
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			followCompany(t, apptest.Start(t, modeltest.New(t, answer), apptest.OnEngine(t, engine)))
		})
	}
}

func followCompany(t *testing.T, n *apptest.Server) {
	t.Helper()
	var unread, completed, failed bool // in any order
	frames := watch(n, "", func(f apptest.Frame) bool {
		switch f.Name {
		case "ready":
			kinds := f.Object(t)["kinds"].([]any)
			for _, hidden := range []string{"agent_identity", "agent_version", "team_graph"} { // no list shows them
				if slices.Contains(kinds, any(hidden)) {
					t.Errorf("the stream shows the kind %s", hidden)
				}
			}
			if !slices.Contains(kinds, "agent") || !slices.Contains(kinds, "team") {
				t.Errorf("kinds: %v", kinds)
			}
		case "counts":
			counts, _ := f.Object(t)["unread"].(object)
			unread = counts["unread_count"] == 1.0
		case "changed":
			row, _ := f.Object(t)["row"].(object)
			completed = completed || row["status"] == "completed"
			failed = failed || row["status"] == "failed"
		}
		return unread && completed && failed
	})
	agent := n.CreateAgent(object{"name": "Watched", "metadata": object{"long": true}})
	session := n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent})["session_id"].(string)
	run := n.StartRun(agent, "hello", object{"session_id": session})
	n.WaitRun(run)
	n.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)
	idle := n.CreateAgent(nil)
	n.Expect(200, "POST", "/api/v1/agents/"+idle+"/suspend", nil)
	tell(n)
	seen := map[string]object{}
	for _, f := range <-frames {
		if f.Name == "changed" {
			c := f.Object(t)
			seen[c["kind"].(string)+" "+c["id"].(string)+" "+c["op"].(string)] = c
			if f.ID == "" {
				t.Errorf("a change without an id: %v", f)
			}
		}
	}
	row := func(key string) object {
		r, _ := seen[key]["row"].(object)
		if r == nil {
			t.Errorf("%s was not shown: %v", key, seen)
		}
		return r
	}
	if r := row("agent " + agent + " created"); r != nil && (r["name"] != "Watched" || len(r["metadata"].(object)) != 0) {
		t.Errorf("agent: %v", r)
	}
	if r := row("run " + run + " updated"); r != nil && (r["status"] != "completed" || r["agent_name"] != "Watched" || r["input"] != nil || r["input_preview"] != "hello") {
		t.Errorf("run: %v", r)
	}
	if r := row("session " + session + " updated"); r != nil && (r["agent_name"] != "Watched" || r["first_user_message"] != "hello") {
		t.Errorf("session: %v", r)
	}
	row("agent " + idle + " suspend")
	if d := seen["agent "+agent+" deleted"]; d == nil || d["row"] != nil {
		t.Errorf("deleted: %v", d)
	}
}

// tell makes an agent's run fail, of which everybody is notified.
func tell(n *apptest.Server) {
	n.T.Helper()
	n.WaitRun(n.StartRun(n.CreateAgent(nil), "fail", nil))
}

// TestChangesOfApprovals shows an approval with what is needed to decide it, its
// decision, and the events of a followed run.
func TestChangesOfApprovals(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if req.Chat().Last("tool") != "" {
			return modeltest.Answer{Text: "2"}
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: "calculator", Arguments: `{"expression":"1+1"}`}}}
	}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"name": "Careful", "built_in_tools": []string{"calculator"},
		"policies": object{"tool_approvals": []object{{"tool_name": "calculator", "approval": "always"}}}})
	shown := make(chan struct{})
	frames := watch(n, "?kinds=approval", func(f apptest.Frame) bool {
		if f.Name == "changed" && strings.Contains(f.Data, `"status":"pending"`) {
			close(shown)
		}
		return f.Name == "changed" && strings.Contains(f.Data, `"status":"approved"`)
	})
	run := n.StartRun(agent, "1+1?", nil)
	events := watch(n, "?kinds=none&follow=run:"+run, func(f apptest.Frame) bool { return f.Name == "done" })
	select {
	case <-shown:
	case <-time.After(30 * time.Second):
		t.Fatal("the pending approval is not shown")
	}
	n.Expect(200, "POST", "/api/v1/runs/"+run+"/approve", object{})
	var pending, approved object
	for _, f := range <-frames {
		if f.Name == "changed" {
			if row := f.Object(t)["row"].(object); row["status"] == "pending" {
				pending = row
			} else {
				approved = row
			}
		}
	}
	if pending["agent_name"] != "Careful" || pending["tool_name"] != "calculator" || pending["arguments"].(object)["expression"] != "1+1" || approved == nil {
		t.Errorf("pending %v, then %v", pending, approved)
	}
	var names []string
	for _, f := range <-events {
		names = append(names, f.Name)
		if f.ID != "" && f.Name != "ready" {
			t.Errorf("%s has an id of its own: %s", f.Name, f.ID)
		}
	}
	if all := strings.Join(names, " "); !strings.Contains(all, "run.awaiting_approval") || !strings.HasSuffix(all, "done") {
		t.Error(all)
	}

	_, other := n.CreateTenant(object{"name": "Other"})
	// Each kind needs the scope of its list; what is foreign is not found.
	narrow := n.WithKey(string(n.Admin().CreateKey(n.TenantID(), authz.Developer, "agents:read").RawKey))
	apptest.CheckCode(t, narrow.Do("GET", "/api/v1/changes/stream?kinds=run", nil), 403, "MISSING_SCOPE")
	apptest.CheckCode(t, narrow.Do("GET", "/api/v1/changes/stream?follow=run:"+run, nil), 403, "MISSING_SCOPE")
	apptest.CheckCode(t, n.Do("GET", "/api/v1/changes/stream?kinds=gadgets", nil), 400, "INVALID_QUERY")
	apptest.CheckCode(t, other.Do("GET", "/api/v1/changes/stream?follow=run:"+run, nil), 404, "NOT_FOUND")
}

// Missions, evaluations and webhooks, which are no kinds of resources, are seen too.
func TestChangesOfWhatIsAtWork(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	makeHook := func() string {
		body := object{"url": "https://example.com/hook", "events": []string{"eval.auto_rollback"}}
		return n.Expect(201, "POST", "/api/v1/webhooks", body)["webhook_id"].(string)
	}
	old := makeHook()
	wanted := map[string]bool{"mission created": true, "mission completed": true, "evaluation completed": true, "webhook created": true, "webhook deleted": true}
	frames := watch(n, "?kinds=mission,evaluation,webhook", func(f apptest.Frame) bool {
		if f.Name == "changed" {
			c := f.Object(t)
			row, _ := c["row"].(object)
			delete(wanted, fmt.Sprint(c["kind"], " ", c["op"]))
			delete(wanted, fmt.Sprint(c["kind"], " ", row["status"]))
		}
		return len(wanted) == 0
	})
	agent := n.CreateAgent(nil)
	session := n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent})["session_id"]
	n.Expect(201, "POST", "/api/v1/missions", object{
		"session_id": session, "goal": "A garden", "plan": object{"objectives": []object{{"title": "Dig"}}},
	})
	at := "/api/v1/agents/" + agent
	set := n.Expect(201, "POST", at+"/datasets", object{"name": "Echoes", "cases": []object{{"input": "say: one", "expected_output": "one"}}})
	n.Expect(201, "POST", at+"/evaluations", object{"dataset_id": set["dataset_id"]})
	makeHook()
	n.Do("DELETE", "/api/v1/webhooks/"+old, nil)
	<-frames
	if len(wanted) > 0 {
		t.Errorf("not seen: %v", wanted)
	}
}
