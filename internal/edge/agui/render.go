package agui

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/kernel/event"
)

// renderer renders the events of a run as those of the protocol. The ids of messages are
// made of the run's id and the step's number, so that they are the same however often they
// are rendered.
type renderer struct {
	send func(data []byte)

	thread, run string // the page's ids
	id          string // of the platform's run
	step        int64  // seq of the model's step
	text        bool   // the step's text message is open
	thinking    bool   // the step's reasoning is open
	said        bool   // any text was sent
	steps       []string
	announced   map[string]bool           // calls that were sent
	patches     map[string]jsontext.Value // of calls of set_state
	// resync sends the state as it is, where what is rendered is the past.
	resync func()

	answer, thoughts runstream.Redraft
}

type object = map[string]any

func (w *renderer) emit(kind string, members object) {
	if members == nil {
		members = object{}
	}
	members["type"] = kind
	b, err := json.Marshal(members, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err == nil { // our own values always encode
		w.send(b)
	}
}

func (w *renderer) replyID() string   { return w.id + "-reply-" + strconv.FormatInt(w.step, 10) }
func (w *renderer) thoughtID() string { return w.id + "-thought-" + strconv.FormatInt(w.step, 10) }

// delta sends a piece of a message; the piece is JSON already.
func (w *renderer) delta(kind, id string, quoted []byte) {
	b := append([]byte(`{"type":"`), kind...)
	b = append(append(b, `","messageId":"`...), id...)
	b = append(append(b, `","delta":`...), quoted...)
	w.send(append(b, '}'))
}

// observe renders an event. It reports false if text that was sent is void, and the new
// text differs.
func (w *renderer) observe(e event.Event) bool {
	switch e.Name {
	case "step.started":
		w.startStep(e.Data)
	case "step.completed":
		w.finishStep(e.Data)
	case "llm.chunk":
		rest, same := w.answer.Next(runstream.TextOf(e.Data))
		if len(rest) > 2 {
			w.addText(rest)
		}
		return same
	case "llm.thinking":
		quoted := runstream.TextOf(e.Data)
		if rest, same := w.thoughts.Next(quoted); same { // reasoning is not the answer: it may go on differently
			quoted = rest
		}
		if len(quoted) > 2 {
			w.addThought(quoted)
		}
	case "step.draft_void":
		w.answer.Void()
		w.thoughts.Void()
	case "llm.completed":
		w.closeMessages()
		return w.answer.Complete()
	case "tool.call", "approval.requested":
		w.call(e.Data)
	case "tool.result":
		w.result(e.Data)
	}
	return true
}

type stepData struct {
	run.StepRef
	Type string `json:"type"`
}

func (d *stepData) name() string { return d.Type + "-" + strconv.FormatInt(d.StepSeq, 10) }

func (w *renderer) startStep(data jsontext.Value) {
	var d stepData
	if json.Unmarshal(data, &d) != nil {
		return
	}
	w.closeMessages()
	if d.Type == string(run.StepLLM) {
		w.step = d.StepSeq
		w.answer.Begin()
		w.thoughts.Begin()
	}
	for _, open := range w.steps {
		if open == d.name() { // it is tried again
			return
		}
	}
	w.steps = append(w.steps, d.name())
	w.emit("STEP_STARTED", object{"stepName": d.name()})
}

func (w *renderer) finishStep(data jsontext.Value) {
	var d stepData
	if json.Unmarshal(data, &d) != nil {
		return
	}
	w.closeMessages()
	for i, open := range w.steps {
		if open == d.name() {
			w.steps = append(w.steps[:i], w.steps[i+1:]...)
			w.emit("STEP_FINISHED", object{"stepName": open})
			return
		}
	}
}

func (w *renderer) addText(quoted []byte) {
	if w.thinking {
		w.closeMessages()
	}
	if !w.text {
		w.text, w.said = true, true
		w.emit("TEXT_MESSAGE_START", object{"messageId": w.replyID(), "role": "assistant"})
	}
	w.delta("TEXT_MESSAGE_CONTENT", w.replyID(), quoted)
}

func (w *renderer) addThought(quoted []byte) {
	if w.text { // the protocol has reasoning before the text
		return
	}
	if !w.thinking {
		w.thinking = true
		w.emit("REASONING_START", object{"messageId": w.thoughtID()})
		w.emit("REASONING_MESSAGE_START", object{"messageId": w.thoughtID(), "role": "reasoning"})
	}
	w.delta("REASONING_MESSAGE_CONTENT", w.thoughtID(), quoted)
}

func (w *renderer) closeMessages() {
	if w.text {
		w.text = false
		w.emit("TEXT_MESSAGE_END", object{"messageId": w.replyID()})
	}
	if w.thinking {
		w.thinking = false
		w.emit("REASONING_MESSAGE_END", object{"messageId": w.thoughtID()})
		w.emit("REASONING_END", object{"messageId": w.thoughtID()})
	}
}

type callData struct {
	ToolCallID string         `json:"tool_call_id"`
	Name       string         `json:"name"`
	Arguments  jsontext.Value `json:"arguments"`
	Status     string         `json:"status"`
	Output     jsontext.Value `json:"output"`
}

// call sends a call, once. A change of the state is no call for the page.
func (w *renderer) call(data jsontext.Value) {
	var d callData
	if json.Unmarshal(data, &d) != nil {
		return
	}
	if d.Name == session.SetState {
		var args struct {
			Patch jsontext.Value `json:"patch"`
		}
		_ = json.Unmarshal(d.Arguments, &args) // without a patch the call fails
		w.patches[d.ToolCallID] = args.Patch
		return
	}
	arguments := string(d.Arguments)
	if d.Arguments.Kind() == '"' { // the model wrote no valid JSON
		_ = json.Unmarshal(d.Arguments, &arguments)
	}
	w.sendCall(d.ToolCallID, d.Name, arguments)
}

func (w *renderer) sendCall(id, name, arguments string) {
	if w.announced[id] {
		return
	}
	w.announced[id] = true
	w.closeMessages()
	w.emit("TOOL_CALL_START", object{"toolCallId": id, "toolCallName": name, "parentMessageId": w.replyID()})
	w.emit("TOOL_CALL_ARGS", object{"toolCallId": id, "delta": arguments})
	w.emit("TOOL_CALL_END", object{"toolCallId": id})
}

func (w *renderer) result(data jsontext.Value) {
	var d callData
	if json.Unmarshal(data, &d) != nil {
		return
	}
	if d.Name == session.SetState {
		switch patch := w.patches[d.ToolCallID]; {
		case d.Status != "done":
		case w.resync != nil:
			w.resync()
		case patch.Kind() == '[':
			w.emit("STATE_DELTA", object{"delta": patch})
		}
		return
	}
	text := string(d.Output)
	if d.Output.Kind() == '"' {
		_ = json.Unmarshal(d.Output, &text)
	}
	w.emit("TOOL_CALL_RESULT", object{
		"messageId": w.id + "-result-" + d.ToolCallID, "toolCallId": d.ToolCallID, "content": text, "role": "tool",
	})
}

// closeAll ends what is open.
func (w *renderer) closeAll() {
	w.closeMessages()
	for _, open := range w.steps {
		w.emit("STEP_FINISHED", object{"stepName": open})
	}
	w.steps = nil
}

func (w *renderer) finish(outcome any, result object, usage []object) {
	members := object{"threadId": w.thread, "runId": w.run, "outcome": outcome}
	if result != nil {
		members["result"] = result
	}
	if usage != nil {
		members["usage"] = usage
	}
	w.emit("RUN_FINISHED", members)
}

// interrupt ends the stream of a run that waits for people.
func (w *renderer) interrupt(r *run.Run) {
	w.closeAll()
	w.finish(object{"type": "interrupt", "interrupts": interrupts(r)}, nil, usageOf(r))
}

// end ends the stream of a run that has ended.
func (w *renderer) end(r *run.Run) {
	var out run.Output
	if len(r.Output) > 0 {
		_ = json.Unmarshal(r.Output, &out) // an output of another shape has no text
	}
	if r.Status == run.Completed && !w.said && out.Text != "" {
		quoted, _ := jsontext.AppendQuote(nil, out.Text) // invalid UTF-8 is replaced
		w.addText(quoted)
	}
	pending := []string{}
	if r.Status == run.Completed {
		for _, c := range out.ToolCalls {
			w.sendCall(c.ID, c.Name, c.Arguments)
			pending = append(pending, c.ID)
		}
	}
	w.closeAll()
	switch r.Status {
	case run.Completed:
		outcome := object{"type": "success"}
		if len(pending) > 0 {
			outcome["pendingToolCallIds"] = pending
		}
		w.finish(outcome, object{"run_id": r.RunID, "status": r.Status}, usageOf(r))
	case run.Cancelled:
		w.finish(object{"type": "cancelled"}, nil, usageOf(r))
	default:
		message := "The run ended as " + string(r.Status) + "."
		if r.Error != nil && *r.Error != "" {
			message = *r.Error
		}
		code := r.ErrorCode
		if code == "" {
			code = string(r.Status)
		}
		w.fail(message, code)
	}
}

func (w *renderer) fail(message, code string) {
	w.emit("RUN_ERROR", object{"message": message, "code": code})
}

// usageOf returns what a run has used so far.
func usageOf(r *run.Run) []object {
	m := &r.Metrics
	if m.LLMCallsCount == 0 {
		return nil
	}
	return []object{{
		"inputTokens": m.InputTokens, "outputTokens": m.OutputTokens, "totalTokens": m.InputTokens + m.OutputTokens,
		"reasoningTokens": m.ThinkingTokens, "cachedInputTokens": m.CachedTokens, "cacheWriteInputTokens": m.CacheWriteTokens,
	}}
}
