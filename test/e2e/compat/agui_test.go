package compat

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// agui posts a body to an agent's AG-UI route and returns the events.
func agui(n *apptest.Server, agent string, body object) (events []object) {
	n.T.Helper()
	if _, ok := body["runId"]; !ok {
		body["runId"] = "page-run"
	}
	reply := n.Do("POST", "/agui/agents/"+agent, body, "Accept", "text/event-stream")
	if reply.StatusCode != 200 {
		n.T.Fatalf("%d %s", reply.StatusCode, reply.Body)
	}
	for frame := range strings.SplitSeq(strings.TrimSpace(string(reply.Body)), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		if !ok {
			continue
		}
		var e object
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			n.T.Fatalf("%v in %q", err, frame)
		}
		events = append(events, e)
	}
	return events
}

func typesOf(events []object) (all []string) {
	for _, e := range events {
		if kind := e["type"].(string); len(all) == 0 || all[len(all)-1] != kind {
			all = append(all, kind)
		}
	}
	return all
}

func eventsOf(events []object, kind string) (all []object) {
	for _, e := range events {
		if e["type"] == kind {
			all = append(all, e)
		}
	}
	return all
}

// said returns the text of the messages of a stream.
func said(events []object) string {
	var b strings.Builder
	for _, e := range eventsOf(events, "TEXT_MESSAGE_CONTENT") {
		b.WriteString(e["delta"].(string))
	}
	return b.String()
}

func user(id, text string) object { return object{"id": id, "role": "user", "content": text} }

func reply(events []object) object {
	return object{"id": eventsOf(events, "TEXT_MESSAGE_START")[0]["messageId"], "role": "assistant", "content": said(events)}
}

// echoing answers with the messages that the model received: roles and texts.
func echoing(r modeltest.Request) modeltest.Answer {
	var b strings.Builder
	for _, m := range r.Chat().Messages {
		if m.Role != "system" {
			b.WriteString(m.Role + ":" + m.Text() + "|")
		}
	}
	return modeltest.Answer{Text: b.String()}
}

// A page sends its whole history with each message: the agent receives what is new, and
// where something was changed or left out, what is left.
func TestAguiHistories(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(echoing)))
	agent := n.CreateAgent(object{})
	thread := func(messages ...object) []object {
		return agui(n, agent, object{"threadId": "t1", "messages": messages, "tools": []any{}, "context": []any{}})
	}
	first := thread(user("m1", "one"))
	if diff := cmp.Diff([]string{
		"RUN_STARTED", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED",
	}, typesOf(first)); diff != "" {
		t.Error(diff)
	}
	if first[0]["threadId"] != "t1" || first[0]["runId"] != "page-run" || said(first) != "user:one|" {
		t.Errorf("%v", first)
	}
	sessions := n.Expect(200, "GET", "/api/v1/sessions?external_id=t1", nil)["items"].([]any)
	if len(sessions) != 1 || sessions[0].(object)["external_id"] != "t1" {
		t.Fatalf("%v", sessions)
	}
	a1 := reply(first)
	second := thread(user("m1", "one"), a1, user("m2", "two"))
	if got := said(second); got != "user:one|assistant:user:one||user:two|" {
		t.Errorf("told %q", got)
	}
	if got := said(thread(user("m3", "three"))); !strings.HasSuffix(got, "user:two||user:three|") || !strings.HasPrefix(got, "user:one|") {
		t.Errorf("a page that sends only what is new: %q", got)
	}
	edited := thread(user("m1", "one"), a1, user("m2", "TWO"))
	if got := said(edited); got != "user:one|assistant:user:one||user:TWO|" {
		t.Errorf("edited: %q", got)
	}
	if got := said(thread(user("m1", "one"), a1, user("m2", "TWO"))); got != "user:one|assistant:user:one||user:TWO|" {
		t.Errorf("regenerated: %q", got)
	}
	if got := said(thread(user("m1", "uno"))); got != "user:uno|" {
		t.Errorf("changed from the beginning: %q", got)
	}
	if got := said(thread(user("m9", "nine"))); got != "user:uno|assistant:user:uno||user:nine|" {
		t.Errorf("after the branch: %q", got)
	}
	session := n.Expect(200, "GET", "/api/v1/sessions/"+sessions[0].(object)["session_id"].(string), nil)
	if got := len(session["branches"].([]any)); got != 4 {
		t.Errorf("%d branches", got)
	}
	snapshot := eventsOf(thread(), "MESSAGES_SNAPSHOT")
	if len(snapshot) != 1 || len(snapshot[0]["messages"].([]any)) != 4 {
		t.Errorf("%v", snapshot)
	}
	for name, refused := range map[string]struct {
		status int
		body   object
	}{
		"nothing":      {422, object{"threadId": "new", "messages": []any{}}},
		"no_thread":    {422, object{"messages": []any{user("m", "x")}}},
		"long_thread":  {422, object{"threadId": strings.Repeat("x", 129), "messages": []any{user("m", "x")}}},
		"blank":        {422, object{"threadId": "new", "messages": []any{user("m", " ")}}},
		"agent_last":   {422, object{"threadId": "new", "messages": []any{object{"id": "a", "role": "assistant", "content": "x"}}}},
		"strange_part": {422, object{"threadId": "new", "messages": []any{object{"id": "a", "role": "user", "content": []any{object{"type": "video"}}}}}},
		"lone_result":  {422, object{"threadId": "new", "messages": []any{object{"id": "a", "role": "tool", "toolCallId": "c", "content": "x"}}}},
		"bad_tool":     {422, object{"threadId": "new", "messages": []any{user("m", "x")}, "tools": []any{object{"name": "a b"}}}},
		"taken_tool":   {422, object{"threadId": "new", "messages": []any{user("m", "x")}, "tools": []any{object{"name": "ask_user"}}}},
		"stranger":     {409, object{"threadId": "t1", "messages": []any{}, "resume": []any{object{"interruptId": "x", "status": "resolved"}}}},
	} {
		refused.body["runId"] = "r"
		if got := n.Do("POST", "/agui/agents/"+agent, refused.body); got.StatusCode != refused.status {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.Body)
		}
	}
	n.Expect(409, "POST", "/api/v1/sessions", object{"agent_id": agent, "external_id": "t1"})
	n.Expect(200, "DELETE", "/api/v1/sessions/"+sessions[0].(object)["session_id"].(string), nil)
	n.Expect(409, "POST", "/agui/agents/"+agent, object{"threadId": "t1", "runId": "r", "messages": []any{user("m10", "x")}})

	// A page has a stream token in place of a key.
	token := n.Do("POST", "/api/v1/auth/sse-tokens", nil).JSON["token"].(string)
	if got := said(agui(n.WithKey(token), agent, object{"threadId": "t2", "messages": []any{user("m1", "hi")}})); got != "user:hi|" {
		t.Errorf("with a stream token: %q", got)
	}
	n.WithKey(token).Expect(403, "POST", "/api/v1/runs", object{"agent_id": agent, "input": object{"message": "x"}})
}

// The page's tools are the caller's, and its state is the session's.
func TestAguiToolsAndState(t *testing.T) {
	t.Parallel()
	call := func(id, name, arguments string) model.ToolCall {
		return model.ToolCall{ID: id, Name: name, Arguments: arguments}
	}
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		c := r.Chat()
		last := c.Messages[len(c.Messages)-1]
		switch {
		case last.Role == "tool":
			return echoing(r)
		case strings.Contains(last.Text(), "colours"):
			return modeltest.Answer{ToolCalls: []model.ToolCall{call("c1", "paint", `{"colour":"red"}`), call("c2", "paint", `{"colour":"blue"}`)}}
		case strings.Contains(last.Text(), "break"):
			return modeltest.Answer{ToolCalls: []model.ToolCall{call("s2", "set_state", `{"patch":[{"op":"replace","path":"/none/x","value":1}]}`)}}
		case strings.Contains(last.Text(), "count"):
			return modeltest.Answer{ToolCalls: []model.ToolCall{call("s1", "set_state", `{"patch":[{"op":"replace","path":"/n","value":2}]}`)}}
		}
		return echoing(r)
	}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{})
	paint := []any{object{"name": "paint", "description": "Paints.", "parameters": object{"type": "object"}}}
	send := func(state any, messages ...object) []object {
		return agui(n, agent, object{"threadId": "t1", "messages": messages, "tools": paint, "state": state})
	}
	asked := agui(n, agent, object{
		"threadId": "t1", "messages": []object{user("m1", "two colours")}, "tools": paint, "protocolVersion": "1.0",
		"context": []object{{"description": "Where the user is", "value": "the studio"}},
	})
	offered := sim.Requests()[0].Chat()
	if len(offered.Tools) != 1 || offered.Tools[0].Function.Description != "Paints." || string(offered.Tools[0].Function.Parameters) != `{"type":"object"}` {
		t.Errorf("the model is offered %+v", offered.Tools)
	}
	if asked[0]["protocolVersion"] != "1.0" || !strings.Contains(offered.Messages[len(offered.Messages)-1].Text(), "Where the user is:\nthe studio") {
		t.Errorf("%v, %v", asked[0], offered.Messages)
	}
	var names []any
	for _, e := range eventsOf(asked, "TOOL_CALL_START") {
		names = append(names, e["toolCallId"])
	}
	outcome := asked[len(asked)-1]["outcome"].(object)
	if diff := cmp.Diff([]any{"c1", "c2"}, names); diff != "" || cmp.Diff([]any{"c1", "c2"}, outcome["pendingToolCallIds"]) != "" {
		t.Errorf("%s %v", diff, outcome)
	}
	calls := []any{}
	for _, id := range []string{"c1", "c2"} {
		calls = append(calls, object{"id": id, "type": "function", "function": object{"name": "paint", "arguments": "{}"}})
	}
	answer := object{"id": eventsOf(asked, "TOOL_CALL_START")[0]["parentMessageId"], "role": "assistant", "toolCalls": calls}
	result := func(id string) object {
		return object{"id": "r-" + id, "role": "tool", "toolCallId": id, "content": "painted " + id}
	}
	half := n.Expect(422, "POST", "/agui/agents/"+agent, object{"threadId": "t1", "runId": "r", "tools": paint, "messages": []any{user("m1", "two colours"), answer, result("c1")}})
	if !strings.Contains(half["errors"].([]any)[0].(object)["message"].(string), "c2 (paint)") {
		t.Errorf("half of the results: %v", half)
	}
	failed := result("c2")
	failed["error"] = "no blue"
	history := []object{user("m1", "two colours"), answer, result("c1"), failed}
	painted := send(nil, history...)
	if got := said(painted); got != "user:two colours|assistant:|tool:painted c1|tool:painted c2\nThe call failed: no blue|" {
		t.Errorf("told %q", got)
	}
	last := sim.Requests()[len(sim.Requests())-1].Chat()
	if calls := last.Messages[len(last.Messages)-3].ToolCalls; len(calls) != 2 || calls[0].Function.Arguments != `{"colour":"red"}` {
		t.Errorf("the model's own calls became %v", calls)
	}
	history = append(history, reply(painted), user("m2", "thanks"))
	if got := said(send(nil, history...)); !strings.HasSuffix(got, "user:thanks|") || strings.Count(got, "painted c1") != 2 {
		t.Errorf("told %q", got)
	}

	changed := agui(n, agent, object{"threadId": "t2", "messages": []object{user("m1", "count")}, "state": object{"n": 1}})
	if diff := cmp.Diff([]any{object{"op": "replace", "path": "/n", "value": 2.0}}, eventsOf(changed, "STATE_DELTA")[0]["delta"]); diff != "" {
		t.Error(diff)
	}
	if changed[1]["type"] != "STATE_SNAPSHOT" || cmp.Diff(object{"n": 1.0}, changed[1]["snapshot"]) != "" || !strings.Contains(said(changed), `{"n":1}`) || len(eventsOf(changed, "TOOL_CALL_START")) > 0 {
		t.Errorf("%v", changed)
	}
	kept := agui(n, agent, object{"threadId": "t2", "messages": []object{user("m2", "well?")}})
	if cmp.Diff(object{"n": 2.0}, kept[1]["snapshot"]) != "" {
		t.Errorf("%v", kept)
	}
	broken := agui(n, agent, object{"threadId": "t2", "messages": []object{user("m3", "break")}, "state": object{"n": 5}})
	if len(eventsOf(broken, "STATE_DELTA")) > 0 || !strings.Contains(said(broken), "The patch does not apply") {
		t.Errorf("%v", broken)
	}
	n.Expect(422, "POST", "/agui/agents/"+agent, object{"threadId": "t3", "runId": "r", "messages": []object{user("m", "x")}, "state": strings.Repeat("x", 300<<10)})
}

// What a run waits for is an interrupt, which only an answer of just its form decides.
func TestAguiInterrupts(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		c := r.Chat()
		last := c.Messages[len(c.Messages)-1]
		switch {
		case last.Role == "tool":
			return modeltest.Answer{Text: "It is " + last.Text() + "."}
		case strings.Contains(last.Text(), "ask"):
			return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "q1", Name: "ask_user", Arguments: `{"question":"Which one?"}`}}}
		}
		return modeltest.Answer{Text: "I will reckon.", ToolCalls: []model.ToolCall{{ID: "k1", Name: "calculator", Arguments: `{"expression":"6*7"}`}}}
	}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"built_in_tools": []string{"calculator", "ask_user"}, "approval_required_tools": []string{"calculator"}})
	path := "/agui/agents/" + agent
	open := func(thread, text string) (interrupt object, messages []object) {
		events := agui(n, agent, object{"threadId": thread, "messages": []object{user("m1", text)}})
		outcome := events[len(events)-1]["outcome"].(object)
		if outcome["type"] != "interrupt" || len(outcome["interrupts"].([]any)) != 1 {
			t.Fatalf("%v", events)
		}
		return outcome["interrupts"].([]any)[0].(object), []object{user("m1", text), {"id": eventsOf(events, "TOOL_CALL_START")[0]["parentMessageId"], "role": "assistant", "content": said(events)}}
	}
	resume := func(thread string, id any, payload any) object {
		return object{"threadId": thread, "runId": "r2", "messages": []any{}, "resume": []any{object{"interruptId": id, "status": "resolved", "payload": payload}}}
	}
	interrupt, history := open("t1", "six times seven")
	if interrupt["reason"] != "tool_call" || interrupt["toolCallId"] != "k1" || interrupt["expiresAt"] == nil ||
		cmp.Diff([]any{"approved"}, interrupt["responseSchema"].(object)["required"]) != "" {
		t.Errorf("%v", interrupt)
	}
	for _, payload := range []any{nil, true, "yes", object{}, object{"approved": "true"}, object{"approved": true, "editedArgs": object{}}, object{"approve": true}, []any{}} {
		n.Expect(422, "POST", path, resume("t1", interrupt["id"], payload))
	}
	n.Expect(409, "POST", path, object{"threadId": "t1", "runId": "r", "messages": append(history, user("m2", "go on"))})
	_, stranger := n.CreateTenant(object{"name": "Strangers"})
	stranger.Expect(409, "POST", path, resume("t1", interrupt["id"], object{"approved": true}))
	n.Expect(409, "POST", path, resume("t2", interrupt["id"], object{"approved": true}))
	again := agui(n, agent, object{"threadId": "t1", "messages": history})
	if got := again[len(again)-1]["outcome"].(object)["interrupts"].([]any)[0].(object)["id"]; got != interrupt["id"] {
		t.Errorf("offered again: %v", again)
	}
	approved := agui(n, agent, resume("t1", interrupt["id"], object{"approved": true, "reason": "sure"}))
	if said(approved) != "It is 42." || len(eventsOf(approved, "TOOL_CALL_RESULT")) != 1 || len(eventsOf(approved, "TOOL_CALL_START")) != 0 {
		t.Errorf("%v", approved)
	}
	n.Expect(409, "POST", path, resume("t1", interrupt["id"], object{"approved": false}))

	interrupt, _ = open("t3", "once more")
	rejected := agui(n, agent, resume("t3", interrupt["id"], object{"approved": false, "reason": "too dear"}))
	if !strings.Contains(said(rejected), "too dear") {
		t.Errorf("%v", rejected)
	}
	interrupt, _ = open("t4", "and once more")
	cancelled := agui(n, agent, object{"threadId": "t4", "messages": []any{}, "resume": []any{object{"interruptId": interrupt["id"], "status": "cancelled"}}})
	if cmp.Diff(object{"type": "cancelled"}, cancelled[len(cancelled)-1]["outcome"]) != "" {
		t.Errorf("%v", cancelled)
	}
	// What has expired, or was decided, can be cancelled: the page goes on.
	after := agui(n, agent, object{"threadId": "t4", "messages": []any{user("m2", "and now?")}, "resume": []any{object{"interruptId": interrupt["id"], "status": "cancelled"}}})
	if after[len(after)-1]["outcome"].(object)["type"] != "interrupt" {
		t.Errorf("%v", after)
	}
	for i, payload := range []any{"the red one", object{"answer": "the red one"}} {
		thread := "q" + string(rune('0'+i))
		interrupt, _ = open(thread, "ask")
		if interrupt["message"] != "Which one?" || interrupt["reason"] != "input_required" {
			t.Errorf("%v", interrupt)
		}
		n.Expect(422, "POST", path, resume(thread, interrupt["id"], object{"answer": " "}))
		if got := said(agui(n, agent, resume(thread, interrupt["id"], payload))); got != "It is the red one." {
			t.Errorf("%q", got)
		}
	}
}
