package delivery

import (
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// TestInbox shows what waits of every kind, and decides it: each decision by itself.
func TestInbox(t *testing.T) {
	t.Parallel()
	answer := modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		chat := req.Chat()
		switch {
		case chat.Last("tool") != "":
			return modeltest.Answer{Text: "done"}
		case chat.Last("user") == "ask":
			return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "q", Name: "ask_user", Arguments: `{"question":"Which city?"}`}}}
		case chat.Last("user") == "fail":
			return modeltest.Answer{Status: 400, Error: "no"}
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "c", Name: "calculator", Arguments: `{"expression":"1+1"}`}}}
	})
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			waitForPeople(t, apptest.Start(t, modeltest.New(t, answer), apptest.OnEngine(t, engine)))
		})
	}
}

func waitForPeople(t *testing.T, n *apptest.Server) {
	t.Helper()
	agent := n.CreateAgent(object{"name": "Careful", "built_in_tools": []string{"calculator", "ask_user"},
		"policies": object{"tool_approvals": []object{{"tool_name": "calculator", "approval": "always"}}}})
	calls := []string{n.StartRun(agent, "call", nil), n.StartRun(agent, "call", nil)}
	asks, fails := n.StartRun(agent, "ask", nil), n.StartRun(agent, "fail", nil)
	proposal := n.Expect(201, "POST", "/api/v1/governance/voting/proposals", object{"title": "Answer in French", "proposal_type": "general"})["id"].(string)
	asked := n.Expect(201, "POST", "/api/v1/governance/ambassador/requests", object{
		"from_agent_id": agent, "type": "approval", "subject": "May I?", "body": "I would like to."})["id"].(string)
	read := func(query string) object { return n.Expect(200, "GET", "/api/v1/inbox"+query, nil) }
	apptest.Eventually(t, func() bool {
		c := read("")["counts"].(object)
		return c["approval"] == 2.0 && c["input"] == 1.0 && c["failed"] == 1.0
	})
	got := read("")
	byID := map[string]object{}
	approvals := []string{}
	for _, i := range got["items"].([]any) {
		item := i.(object)
		byID[item["id"].(string)] = item
		if item["kind"] == "approval" {
			approvals = append(approvals, item["id"].(string))
			tool := item["tools"].([]any)[0].(object)
			if item["agent_name"] != "Careful" || item["can_decide"] != true || item["expires_at"] == nil || tool["name"] != "calculator" ||
				tool["description"] == nil || tool["arguments"].(object)["expression"] != "1+1" {
				t.Errorf("approval: %v", item)
			}
		}
	}
	for id, want := range map[string][2]string{asks: {"input", "Which city?"}, proposal: {"ballot", "Answer in French"}, asked: {"request", "May I?"}} {
		if item := byID[id]; item == nil || item["kind"] != want[0] || item["summary"] != want[1] {
			t.Errorf("%v: %v", want, item)
		}
	}
	if item := byID[fails]; item == nil || item["kind"] != "failed" || item["error_code"] == "" {
		t.Errorf("failed: %v", item)
	}
	if other := n.Expect(200, "GET", "/api/v1/analytics/inbox?kind=input&agent_id="+agent, nil); len(other["items"].([]any)) != 1 {
		t.Errorf("by its other name: %v", other)
	}

	decided := n.Expect(200, "POST", "/api/v1/inbox/decide", object{"decisions": []object{
		{"kind": "approval", "id": approvals[0], "decision": "approve"},
		{"kind": "approval", "id": approvals[1], "decision": "reject", "reason": "not today"},
		{"kind": "approval", "id": approvals[1], "decision": "approve"},
		{"kind": "input", "id": asks, "decision": "answer", "response": "Berlin"},
		{"kind": "input", "id": asks, "decision": "approve"},
		{"kind": "approval", "id": asks, "decision": "approve"},
	}})
	var oks []bool
	for _, o := range decided["outcomes"].([]any) {
		oks = append(oks, o.(object)["ok"].(bool))
	}
	want := []bool{true, true, false, true, false, false}
	for i := range want {
		if i >= len(oks) || oks[i] != want[i] {
			t.Fatalf("outcomes %v: %v", oks, decided)
		}
	}
	ends := map[string]int{}
	for _, run := range append(calls, asks) {
		ends[n.WaitRun(run)["status"].(string)]++
	}
	if ends["completed"] != 2 || ends["rejected"] != 1 {
		t.Errorf("the runs ended as %v", ends)
	}

	viewer := n.WithKey(string(n.Admin().CreateKey(n.TenantID(), authz.Viewer, "runs:read").RawKey))
	for _, i := range viewer.Expect(200, "GET", "/api/v1/inbox", nil)["items"].([]any) {
		if item := i.(object); item["can_decide"] != false || item["kind"] == "ballot" {
			t.Errorf("a viewer of runs sees %v", item)
		}
	}
	apptest.CheckCode(t, viewer.Do("POST", "/api/v1/inbox/decide", object{"decisions": []object{{"kind": "input", "id": asks, "decision": "cancel"}}}), 403, "MISSING_SCOPE")
}

// TestDecisionsOfTheInbox has an approver edit a call, and reject one without ending its run.
func TestDecisionsOfTheInbox(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if result := req.Chat().Last("tool"); result != "" {
			return modeltest.Answer{Text: "It said: " + result}
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "c", Name: "calculator", Arguments: `{"expression":"1+1"}`}}}
	})))
	agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"},
		"policies": object{"tool_approvals": []object{{"tool_name": "calculator", "approval": "always"}}}})
	decide := func(decision object) string {
		run := n.StartRun(agent, "call", nil)
		var id string
		apptest.Eventually(t, func() bool {
			items := n.Expect(200, "GET", "/api/v1/inbox?kind=approval", nil)["items"].([]any)
			if len(items) == 1 {
				id = items[0].(object)["id"].(string)
			}
			return id != ""
		})
		decision["kind"], decision["id"] = "approval", id
		if got := n.Expect(200, "POST", "/api/v1/inbox/decide", object{"decisions": []object{decision}}); got["decided"] != 1.0 {
			t.Errorf("%v: %v", decision, got)
		}
		text, _ := n.WaitRun(run)["output"].(object)["text"].(string)
		return text
	}
	if text := decide(object{"decision": "approve", "arguments": object{"expression": "20+3"}}); !strings.Contains(text, "23") {
		t.Errorf("the call is not the edited one: %s", text)
	}
	if text := decide(object{"decision": "reject", "reason": "too dear", "continue": true}); !strings.Contains(text, "too dear") {
		t.Errorf("the run does not go on with the rejection: %s", text)
	}
}

// TestStateAndStream reads a run and a session, and then follows what happens next.
func TestStateAndStream(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "Hello."})))
	agent := n.CreateAgent(nil)
	session := n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent})["session_id"].(string)
	run := n.StartRun(agent, "hi", object{"session_id": session})
	n.WaitRun(run)
	last := n.Expect(200, "GET", "/api/v1/runs/"+run, nil)["last_event_id"].(string)
	if got := n.Expect(200, "GET", "/api/v1/runs/"+run+"/steps", nil)["last_event_id"]; got != last {
		t.Errorf("the steps are those at %v, the run that at %s", got, last)
	}
	for _, id := range []string{last, "latest"} {
		frames := n.ReadStream("/api/v1/runs/"+run+"/events?last_event_id="+id, "", nil)
		if names := apptest.FrameNames(frames); len(names) == 0 || names[0] != "done" {
			t.Errorf("after %s: %v", id, names)
		}
	}
	for _, path := range []string{"", "/messages"} {
		if got := n.Expect(200, "GET", "/api/v1/sessions/"+session+path, nil)["last_event_id"]; got != run+":"+last {
			t.Errorf("%s is the state at %v", path, got)
		}
	}
	// A stream that begins at the end repeats the end alone, and then has the next turn.
	opened, frames := make(chan struct{}), make(chan []apptest.Frame, 1)
	go func() {
		frames <- n.ReadStream("/api/v1/sessions/"+session+"/events?last_event_id=latest", "", func(f apptest.Frame) bool {
			if f.Name == "done" && f.ID == run+":"+last {
				close(opened)
				return false
			}
			return f.Name == "done"
		})
	}()
	select {
	case <-opened:
	case <-time.After(30 * time.Second):
		t.Fatal("the stream does not begin at the end")
	}
	next := n.StartRun(agent, "again", object{"session_id": session})
	n.WaitRun(next)
	for _, f := range <-frames {
		if f.Name == "llm.chunk" && f.Object(t)["run_id"] == run {
			t.Errorf("the past is repeated: %v", f)
		}
	}
}
