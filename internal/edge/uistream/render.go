package uistream

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/tool"
)

type object = map[string]any

// renderer renders the events of runs as chunks of one message.
type renderer struct {
	send func(data []byte)

	id        string // of the run
	step      int64  // seq of the model's step
	open      bool   // a step of the message is open
	text      bool   // the step's text is open
	thinking  bool   // the step's reasoning is open
	said      bool   // the run has said anything
	announced map[string]bool
	denied    map[string]bool // calls that a person refused
	// until are the approvals with whose decision the page wants to go on; before one of
	// them nothing is sent. Nil: all is sent.
	until map[string]bool

	answer, thoughts runstream.Redraft
}

func newRenderer(send func(data []byte)) *renderer {
	return &renderer{send: send, announced: map[string]bool{}, denied: map[string]bool{}}
}

func (w *renderer) write(b []byte) {
	if w.until == nil {
		w.send(b)
	}
}

func (w *renderer) emit(kind string, members object) {
	if members == nil {
		members = object{}
	}
	members["type"] = kind
	b, err := json.Marshal(members, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err == nil { // our own values always encode
		w.write(b)
	}
}

// begin begins the events of a run.
func (w *renderer) begin(r *run.Run) {
	w.id, w.step, w.said = r.RunID, r.StepSeq, false
	w.status(r)
}

// status sends the state of the run.
func (w *renderer) status(r *run.Run) {
	data := object{"run_id": r.RunID, "status": r.Status}
	if r.PendingAuth != nil {
		data["authorization_url"] = r.PendingAuth.AuthorizationURL
	}
	w.emit("data-run", object{"id": r.RunID, "data": data})
}

func (w *renderer) textID() string { return w.id + "-text-" + strconv.FormatInt(w.step, 10) }

// delta sends a piece of a text; the piece is JSON already.
func (w *renderer) delta(kind string, quoted []byte) {
	b := append([]byte(`{"type":"`), kind...)
	b = append(append(b, `","id":"`...), w.textID()...)
	b = append(append(b, `","delta":`...), quoted...)
	w.write(append(b, '}'))
}

// observe renders an event. It reports false if text that was sent is void, and the new
// text differs.
func (w *renderer) observe(e event.Event) bool {
	switch e.Name {
	case "step.started":
		w.startStep(e.Data)
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
		w.closeText()
		return w.answer.Complete()
	default:
		w.observeTool(e)
	}
	return true
}

func (w *renderer) startStep(data jsontext.Value) {
	var d struct {
		run.StepRef
		Type run.StepType `json:"type"`
	}
	if json.Unmarshal(data, &d) != nil || d.Type != run.StepLLM {
		return
	}
	w.answer.Begin()
	w.thoughts.Begin()
	if w.open && w.step == d.StepSeq { // it is tried again
		return
	}
	w.finishStep()
	w.step, w.open = d.StepSeq, true
	w.emit("start-step", nil)
}

func (w *renderer) finishStep() {
	w.closeText()
	if w.open {
		w.open = false
		w.emit("finish-step", nil)
	}
}

func (w *renderer) addText(quoted []byte) {
	if w.thinking {
		w.closeText()
	}
	if !w.text {
		w.text, w.said = true, true
		w.emit("text-start", object{"id": w.textID()})
	}
	w.delta("text-delta", quoted)
}

func (w *renderer) addThought(quoted []byte) {
	if w.text {
		return
	}
	if !w.thinking {
		w.thinking = true
		w.emit("reasoning-start", object{"id": w.textID()})
	}
	w.delta("reasoning-delta", quoted)
}

func (w *renderer) closeText() {
	if w.text {
		w.text = false
		w.emit("text-end", object{"id": w.textID()})
	}
	if w.thinking {
		w.thinking = false
		w.emit("reasoning-end", object{"id": w.textID()})
	}
}

type callData struct {
	ApprovalID string         `json:"approval_id"`
	ToolCallID string         `json:"tool_call_id"`
	Name       string         `json:"name"`
	Arguments  jsontext.Value `json:"arguments"`
	Status     string         `json:"status"`
	Output     jsontext.Value `json:"output"`
}

// observeTool renders the events of tools and approvals.
func (w *renderer) observeTool(e event.Event) {
	var d callData
	if json.Unmarshal(e.Data, &d) != nil {
		return
	}
	switch e.Name {
	case "tool.call":
		w.call(d.ToolCallID, d.Name, d.Arguments, d.Name != run.AskUser || tool.Question(string(d.Arguments)) == "")
	case "approval.requested":
		w.call(d.ToolCallID, d.Name, d.Arguments, true)
		w.emit("tool-approval-request", object{"approvalId": d.ApprovalID, "toolCallId": d.ToolCallID})
	case "approval.resolved":
		if w.until[d.ApprovalID] {
			w.until = nil
		}
		if d.Status == string(run.ApprovalRejected) {
			w.denied[d.ToolCallID] = true
		}
	case "tool.result":
		w.result(&d)
	}
}

// call sends a call, once. executed: the platform makes it, not the page.
func (w *renderer) call(id, name string, arguments jsontext.Value, executed bool) {
	if w.announced[id] {
		return
	}
	w.announced[id] = true
	w.closeText()
	members := object{"toolCallId": id, "toolName": name, "input": arguments}
	if executed {
		members["providerExecuted"] = true
	}
	w.emit("tool-input-available", members)
}

func (w *renderer) result(d *callData) {
	text := string(d.Output)
	if d.Output.Kind() == '"' {
		_ = json.Unmarshal(d.Output, &text)
	}
	switch {
	case w.denied[d.ToolCallID]:
		w.emit("tool-output-denied", object{"toolCallId": d.ToolCallID})
	case d.Status == "done":
		w.output(d.ToolCallID, text, d.Name != run.AskUser)
	default:
		w.emit("tool-output-error", object{"toolCallId": d.ToolCallID, "errorText": text, "providerExecuted": true})
	}
}

// output sends a result: JSON as what it is, anything else as a text.
func (w *renderer) output(id, text string, executed bool) {
	members := object{"toolCallId": id, "output": text}
	if v := jsontext.Value(text); v.IsValid() && (v.Kind() == '{' || v.Kind() == '[') {
		members["output"] = v
	}
	if executed {
		members["providerExecuted"] = true
	}
	w.emit("tool-output-available", members)
}

// finishReasons are the reasons of the protocol for those of the platform.
var finishReasons = map[string]string{"length": "length", "content_filter": "content-filter"}

// end sends what follows the last event of a run, and reports how the message finished.
func (w *renderer) end(r *run.Run) (reason string, failure string) {
	var out run.Output
	if len(r.Output) > 0 {
		_ = json.Unmarshal(r.Output, &out) // an output of another shape has no text
	}
	reason = "stop"
	switch {
	case r.Status == run.Completed:
		if !w.said && out.Text != "" {
			quoted, _ := jsontext.AppendQuote(nil, out.Text) // invalid UTF-8 is replaced
			w.addText(quoted)
		}
		for _, c := range out.ToolCalls {
			reason = "tool-calls"
			w.call(c.ID, c.Name, run.ArgumentsJSON(c.Arguments), false)
		}
		if known := finishReasons[out.FinishReason]; known != "" {
			reason = known
		}
	case r.Status == run.Cancelled:
		reason = "other"
	default:
		reason, failure = "error", "The run ended as "+string(r.Status)+"."
		if r.Error != nil && *r.Error != "" {
			failure = *r.Error
		}
	}
	w.finishStep()
	w.status(r)
	w.usage(r)
	return reason, failure
}

func (w *renderer) usage(r *run.Run) {
	m := &r.Metrics
	w.emit("data-usage", object{"id": r.RunID, "data": object{
		"input_tokens": m.InputTokens, "output_tokens": m.OutputTokens, "cost_usd": m.TotalCostUSD,
	}})
}

// suspend sends what follows where a run waits for a person.
func (w *renderer) suspend(r *run.Run) {
	w.finishStep()
	w.status(r)
	w.usage(r)
}

func (w *renderer) fail(f *fault.Error) {
	w.until = nil
	w.finishStep()
	w.emit("error", object{"errorText": f.Detail})
}
