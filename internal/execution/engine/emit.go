package engine

import (
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
)

// maxUnstored bounds the chunks of a run that are live and not stored.
const maxUnstored = run.SeqJump - 24

// emitter collects a run's events: those of the commit that is being made,
// and chunks of text, which are live at once and stored a little later.
type emitter struct {
	seq    int64 // of the last event
	stored int64 // of the last event that a commit made true

	entries []event.Entry // since stored, in order
	drafts  bool          // entries replace drafts that were stored before
	live    []event.Event // the same, essential ones only, for publishing after the commit
	prev    int64         // seq before the first of live
}

// Data of the events of decisions.md D7, beside the common fields.
type (
	statusData struct {
		Status run.Status `json:"status"`
	}
	startedData struct {
		Status  run.Status `json:"status"`
		Attempt int        `json:"attempt"`
	}
	endData struct {
		Status    run.Status `json:"status"`
		Error     *string    `json:"error,omitzero"`
		ErrorCode string     `json:"error_code,omitzero"`
	}
	stepStartedData struct {
		StepSeq int64        `json:"step_seq"`
		Type    run.StepType `json:"type"`
	}
	approvalData struct {
		ApprovalID string         `json:"approval_id"`
		ToolCallID string         `json:"tool_call_id"`
		Name       string         `json:"name"`
		Arguments  jsontext.Value `json:"arguments"`
		ExpiresAt  time.Time      `json:"expires_at"`
	}
	pausedData struct {
		Status run.Status `json:"status"`
		Reason string     `json:"reason"` // manual | input
	}
	authData struct {
		Status run.Status `json:"status"`
		run.PendingAuth
	}
	// Arguments stand last: a stored tool.call leaves them out where the step
	// of the model that asked has them.
	toolCallData struct {
		ToolCallID string         `json:"tool_call_id"`
		Name       string         `json:"name"`
		Arguments  jsontext.Value `json:"arguments,omitzero"`
	}
	// Output stands last: a stored tool.result leaves it out, because the step
	// has it.
	toolResultData struct {
		ToolCallID string         `json:"tool_call_id"`
		Name       string         `json:"name"`
		Status     string         `json:"status"`
		DurationMS float64        `json:"duration_ms"`
		Output     jsontext.Value `json:"output,omitzero"`
	}
)

// encoding mends text that is no UTF-8, a tool's output say.
var encoding = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true))

func encode(v any) jsontext.Value {
	b, err := json.Marshal(v, encoding)
	if err != nil {
		panic(err) // our own types always encode
	}
	return b
}

// emit adds an essential event to the commit that is being made.
func (a *attempt) emit(name string, data any) {
	enc := encode(data)
	a.add(event.Entry{Name: name, At: a.e.Clock.Now(), Data: enc}, enc)
}

// emitResult is emit for a tool's result, whose output only the step stores.
func (a *attempt) emitResult(d toolResultData, step int64) {
	live := encode(d)
	d.Output = nil
	a.add(event.Entry{Name: "tool.result", At: a.e.Clock.Now(), Data: encode(d), Step: step}, live)
}

// emitOf is emit for an event whose data the step has that ends with it.
func (a *attempt) emitOf(name string, data any, step int64) {
	a.add(event.Entry{Name: name, At: a.e.Clock.Now(), Step: step}, encode(data))
}

// emitCall is emit for a call, whose arguments only the model's step stores.
func (a *attempt) emitCall(c model.ToolCall) {
	d := toolCallData{ToolCallID: c.ID, Name: c.Name, Arguments: run.ArgumentsJSON(c.Arguments)}
	live := encode(d)
	stored := event.Entry{Name: "tool.call", At: a.e.Clock.Now(), Data: live}
	if stored.Step = a.callOf(c.ID, c.Arguments); stored.Step != 0 {
		d.Arguments = nil
		stored.Data = encode(d)
	}
	a.add(stored, live)
}

// callOf gives the step of the model that asked for a call with just these
// arguments, 0 where they are others: an approver changed them.
func (a *attempt) callOf(id, arguments string) int64 {
	if a.past == nil || a.past.OpenTurn == nil || !utf8.ValidString(arguments) { // stored text is mended
		return 0
	}
	for _, c := range a.past.OpenTurn.ToolCalls {
		if c.ID == id && c.Arguments == arguments {
			return a.past.OpenTurn.From.StepSeq
		}
	}
	return 0
}

func (a *attempt) add(stored event.Entry, live jsontext.Value) {
	if len(a.live) == 0 {
		a.prev = a.seq
	}
	a.seq++
	a.entries = append(a.entries, stored)
	a.live = append(a.live, event.Event{Seq: a.seq, Name: stored.Name, At: stored.At, Data: live})
}

// chunk publishes a piece of text at once and leaves it to be stored.
func (a *attempt) chunk(name, text string) {
	if text == "" {
		return
	}
	if a.text.unstored() >= maxUnstored {
		a.e.drafts.flush(a.ctx, []*attempt{a})
	}
	at := a.e.Clock.Now()
	prev := a.seq
	a.seq++
	first := a.text.add(name, text, at)
	a.e.Hub.Publish(event.Batch{Stream: a.rec.RunID, Prev: prev, Events: []event.Event{{
		Seq: a.seq, Name: name, At: at, Data: textData(text),
	}}})
	if first {
		a.e.drafts.note(a)
	}
}

func textData(text string) jsontext.Value {
	b := append(make([]byte, 0, len(text)+16), `{"text":`...)
	b, err := jsontext.AppendQuote(b, text)
	if err != nil {
		b = append(b[:0], encode(struct {
			Text string `json:"text"`
		}{text})...)
		return b
	}
	return append(b, '}')
}

// log is the write of the events since the last commit.
func (a *attempt) log() txn.Op {
	return a.e.Log.Append(a.rec.TenantID, a.rec.RunID, event.Segment{First: a.stored + 1, Entries: a.entries})
}

// publish gives out what a commit made true.
func (a *attempt) publish() {
	if len(a.live) > 0 {
		a.e.Hub.Publish(event.Batch{Stream: a.rec.RunID, Prev: a.prev, Events: a.live})
	}
	a.entries, a.live = nil, nil
	a.stored = a.seq
	a.text.open(a.step, a.stored)
}
