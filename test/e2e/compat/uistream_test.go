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

// chunks returns the chunks of a UI message stream, which ends with [DONE].
func chunks(n *apptest.Server, got apptest.Reply) (all []object) {
	n.T.Helper()
	if got.StatusCode != 200 || got.Header.Get("X-Vercel-Ai-Ui-Message-Stream") != "v1" {
		n.T.Fatalf("%d %v %s", got.StatusCode, got.Header, got.Body)
	}
	frames := strings.Split(strings.TrimSpace(string(got.Body)), "\n\n")
	if frames[len(frames)-1] != "data: [DONE]" {
		n.T.Errorf("it ends with %q", frames[len(frames)-1])
	}
	for _, frame := range frames[:len(frames)-1] {
		data, ok := strings.CutPrefix(frame, "data: ")
		if !ok {
			continue
		}
		var c object
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			n.T.Fatalf("%v in %q", err, frame)
		}
		all = append(all, c)
	}
	return all
}

func chatText(all []object) string {
	var b strings.Builder
	for _, c := range eventsOf(all, "text-delta") {
		b.WriteString(c["delta"].(string))
	}
	return b.String()
}

func text(s string) object { return object{"type": "text", "text": s} }

func uiMessage(id, role string, parts ...object) object {
	return object{"id": id, "role": role, "parts": parts}
}

// uiChat starts a server with an agent, and returns the path of its chats and what sends
// the messages of one.
func uiChat(t *testing.T) (n *apptest.Server, path string, post func(chat string, messages ...object) []object) {
	t.Helper()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		c := r.Chat()
		last := c.Messages[len(c.Messages)-1]
		switch {
		case last.Role == "tool":
			return modeltest.Answer{Text: "It is " + last.Text() + "."}
		case strings.Contains(last.Text(), "reckon"):
			return modeltest.Answer{Text: "I will.", ToolCalls: []model.ToolCall{{ID: "k1", Name: "calculator", Arguments: `{"expression":"6*7"}`}}}
		case strings.Contains(last.Text(), "ask"):
			return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "q1", Name: "ask_user", Arguments: `{"question":"Which one?"}`}}}
		case strings.Contains(last.Text(), "paint"):
			return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "c1", Name: "paint", Arguments: `{"colour":"red"}`}}}
		}
		return echoing(r)
	}))
	n = apptest.Start(t, sim)
	agent := n.CreateAgent(object{"built_in_tools": []string{"calculator", "ask_user"}, "approval_required_tools": []string{"calculator"}})
	path = "/api/v1/agents/" + agent + "/ui"
	post = func(chat string, messages ...object) []object {
		t.Helper()
		return chunks(n, n.Do("POST", path, object{
			"id": chat, "messages": messages, "trigger": "submit-message",
			"tools": object{"paint": object{"description": "Paints.", "inputSchema": object{"type": "object"}}},
		}))
	}
	return n, path, post
}

// A chat of the AI SDK: its messages and its tools.
func TestUIStream(t *testing.T) {
	t.Parallel()
	n, path, post := uiChat(t)
	first := chunks(n, n.Do("POST", path, object{"id": "c1", "system": "Be brief.", "messages": []object{uiMessage("m1", "user", text("one"))}}))
	if diff := cmp.Diff([]string{
		"start", "data-run", "start-step", "text-start", "text-delta", "text-end", "finish-step", "data-run", "data-usage", "finish",
	}, typesOf(first)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(chatText(first), "Be brief.") || !strings.Contains(chatText(first), "one") {
		t.Errorf("told %q", chatText(first))
	}
	usage := eventsOf(first, "data-usage")[0]["data"].(object)
	ended := eventsOf(first, "data-run")[1]["data"].(object)
	if _, there := usage["cost_usd"]; !there || usage["output_tokens"].(float64) == 0 || ended["status"] != "completed" {
		t.Errorf("%v %v", usage, ended)
	}
	a1 := uiMessage(first[0]["messageId"].(string), "assistant", object{"type": "step-start"}, text(chatText(first)))
	if got := chatText(post("c1", uiMessage("m1", "user", text("one")), a1, uiMessage("m2", "user", text("two")))); !strings.HasSuffix(got, "user:two|") || strings.Count(got, "user:two") != 1 {
		t.Errorf("told %q", got)
	}
	if got := chatText(post("c1", uiMessage("m1", "user", text("uno")))); got != "user:uno|" {
		t.Errorf("edited: %q", got)
	}

	// The page's own tool: its result goes on with the message that called it.
	asked := post("c2", uiMessage("m1", "user", text("paint")))
	call := eventsOf(asked, "tool-input-available")[0]
	if call["providerExecuted"] != nil || call["toolName"] != "paint" || asked[len(asked)-1]["finishReason"] != "tool-calls" {
		t.Errorf("%v", asked)
	}
	painting := uiMessage(asked[0]["messageId"].(string), "assistant", object{"type": "step-start"}, object{
		"type": "tool-paint", "toolCallId": "c1", "state": "output-available", "input": object{"colour": "red"}, "output": object{"done": true},
	})
	painted := post("c2", uiMessage("m1", "user", text("paint")), painting)
	if painted[0]["messageId"] != asked[0]["messageId"] || chatText(painted) != `It is {"done":true}.` {
		t.Errorf("%v", painted)
	}
	painting["parts"] = append(painting["parts"].([]object), object{"type": "step-start"}, text(chatText(painted)))
	if got := chatText(post("c2", uiMessage("m1", "user", text("paint")), painting, uiMessage("m2", "user", text("and?")))); !strings.HasSuffix(got, "user:and?|") || strings.Count(got, "tool:") != 1 {
		t.Errorf("told %q", got)
	}

	for _, chat := range []string{"c2", "unknown", "a%2Fb%20c"} {
		if got := n.Do("GET", path+"/"+chat+"/stream", nil); got.StatusCode != 204 || len(got.Body) != 0 {
			t.Errorf("%s: %d %s", chat, got.StatusCode, got.Body)
		}
	}
	for name, body := range map[string]object{
		"nothing":    {"id": "new", "messages": []object{}},
		"long_id":    {"id": strings.Repeat("x", 129), "messages": []object{uiMessage("m", "user", text("x"))}},
		"bad_part":   {"id": "new", "messages": []object{{"id": "m", "role": "user", "parts": []any{"x"}}}},
		"bad_file":   {"id": "new", "messages": []object{uiMessage("m", "user", object{"type": "file", "mediaType": "image/png", "url": "file:///etc/passwd"})}},
		"bad_tools":  {"id": "new", "messages": []object{uiMessage("m", "user", text("x"))}, "tools": object{"paint": 1}},
		"bad_result": {"id": "new", "messages": []object{uiMessage("a", "assistant"), uiMessage("m", "assistant", text("x"))}},
	} {
		if got := n.Do("POST", path, body); got.StatusCode != 422 {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.Body)
		}
	}
}

// Approvals and questions of a chat, and its stream again.
func TestUIStreamApprovals(t *testing.T) {
	t.Parallel()
	n, path, post := uiChat(t)
	// An approval, first answered wrongly, then twice.
	reckoned := post("c3", uiMessage("m1", "user", text("reckon")))
	request := eventsOf(reckoned, "tool-approval-request")[0]
	tool := object{"type": "tool-calculator", "toolCallId": "k1", "state": "approval-responded", "input": object{}, "providerExecuted": true}
	history := func(approval object) []object {
		tool["approval"] = approval
		return []object{uiMessage("m1", "user", text("reckon")), uiMessage(reckoned[0]["messageId"].(string), "assistant", object{"type": "step-start"}, text("I will."), tool)}
	}
	n.Expect(422, "POST", path, object{"id": "c3", "messages": history(object{"id": request["approvalId"], "approved": "yes"})})
	n.Expect(422, "POST", path, object{"id": "c3", "messages": history(object{"id": request["approvalId"]})})
	n.Expect(409, "POST", path, object{"id": "c3", "messages": append(history(object{"id": "other", "approved": true}), uiMessage("m2", "user", text("go on")))})
	stream := chunks(n, n.Do("GET", path+"/c3/stream", nil))
	if stream[0]["messageId"] != reckoned[0]["messageId"] || len(eventsOf(stream, "tool-approval-request")) != 1 || chatText(stream) != "I will." {
		t.Errorf("again: %v", stream)
	}
	approved := history(object{"id": request["approvalId"], "approved": true})
	for _, answer := range [][]object{post("c3", approved...), post("c3", approved...), post("c3", history(object{"id": request["approvalId"], "approved": false})...)} {
		if answer[0]["messageId"] != reckoned[0]["messageId"] || chatText(answer) != "It is 42." || len(eventsOf(answer, "tool-output-available")) != 1 || len(eventsOf(answer, "tool-input-available")) != 0 {
			t.Errorf("%v", answer)
		}
	}
	refused := post("c4", uiMessage("m1", "user", text("reckon")))
	reckoned = refused
	denied := post("c4", history(object{"id": eventsOf(refused, "tool-approval-request")[0]["approvalId"], "approved": false, "reason": "too dear"})...)
	if len(eventsOf(denied, "tool-output-denied")) != 1 || !strings.Contains(chatText(denied), "too dear") {
		t.Errorf("%v", denied)
	}

	// A question is a call that the page answers.
	question := post("c5", uiMessage("m1", "user", text("ask")))
	if got := eventsOf(question, "tool-input-available")[0]; got["toolName"] != "ask_user" || got["providerExecuted"] != nil {
		t.Errorf("%v", got)
	}
	answered := post("c5", uiMessage("m1", "user", text("ask")), uiMessage(question[0]["messageId"].(string), "assistant", object{
		"type": "tool-ask_user", "toolCallId": "q1", "state": "output-available", "input": object{}, "output": "the red one",
	}))
	if chatText(answered) != "It is the red one." || answered[0]["messageId"] != question[0]["messageId"] {
		t.Errorf("%v", answered)
	}
}
