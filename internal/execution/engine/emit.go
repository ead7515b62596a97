package engine

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
)

// maxUnstored bounds the chunks of a run that are published and not stored.
const maxUnstored = run.SeqJump - 24

// eventBuffer collects a run's events: those of the next commit, and chunks of
// text, which are published at once and stored a little later.
type eventBuffer struct {
	seq    int64 // of the last event
	stored int64 // of the last event that was committed

	entries        []event.Entry // since stored, in order
	replacesDrafts bool          // drafts of chunks in entries are stored already
	live           []event.Event // entries without the chunks, to publish after the commit
	prev           int64         // seq before the first of live
}

func (b *eventBuffer) add(stored event.Entry, live jsontext.Value) {
	if len(b.live) == 0 {
		b.prev = b.seq
	}
	b.seq++
	b.entries = append(b.entries, stored)
	b.live = append(b.live, event.Event{Seq: b.seq, Name: stored.Name, At: stored.At, Data: live})
}

// dropLast removes the newest event of a commit that was refused.
func (b *eventBuffer) dropLast() {
	b.entries, b.live = b.entries[:len(b.entries)-1], b.live[:len(b.live)-1]
	b.seq--
}

// The data of the events, beside the fields that all events have.
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
	violationData struct {
		run.StepRef
		policy.Violation
	}
	rulingData struct {
		run.StepRef
		ToolCallID string `json:"tool_call_id,omitzero"`
		policy.Finding
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
	compactedData struct {
		run.StepRef
		Folded       int `json:"folded"` // messages that the summary replaces
		BeforeTokens int `json:"before_tokens"`
		AfterTokens  int `json:"after_tokens"`
	}
	// Arguments come last: a stored tool.call omits them where the step of the
	// model that asked for the call has them.
	toolCallData struct {
		run.StepRef
		ToolCallID string         `json:"tool_call_id"`
		Name       string         `json:"name"`
		Arguments  jsontext.Value `json:"arguments,omitzero"`
	}
	// Output comes last: a stored tool.result omits it, because the step has it.
	toolResultData struct {
		run.StepRef
		ToolCallID string         `json:"tool_call_id"`
		Name       string         `json:"name"`
		Status     string         `json:"status"`
		DurationMS float64        `json:"duration_ms"`
		Output     jsontext.Value `json:"output,omitzero"`
	}
)

// encoding replaces invalid UTF-8, which the output of a tool can have.
var encoding = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true))

func encode(v any) jsontext.Value {
	b, err := json.Marshal(v, encoding)
	if err != nil {
		panic(err) // our own types always encode
	}
	return b
}

// emit adds an event to the next commit.
func (j *journal) emit(name string, data any) {
	enc := j.redact.by.JSON(encode(data))
	j.events.add(event.Entry{Name: name, At: j.e.Clock.Now(), Data: enc}, enc)
}

// emitStarted adds step.started. It is stored without what names the step twice.
func (j *journal) emitStarted(p *run.PendingStep) {
	d := run.StepStartedData{StepRef: p.Ref(), Type: p.Type}
	live := encode(d)
	d.StepRef = run.StepRef{}
	j.events.add(event.Entry{Name: "step.started", At: j.e.Clock.Now(), Data: encode(d), Step: p.Seq, StepID: p.StepID}, live)
}

// emitOfStep adds an event whose data can be derived from the step that ends
// with it, and is therefore not stored again.
func (j *journal) emitOfStep(name string, data any, step int64) {
	j.events.add(event.Entry{Name: name, At: j.e.Clock.Now(), Step: step}, j.redact.by.JSON(encode(data)))
}

// emitResult adds tool.result, whose output only the step stores.
func (j *journal) emitResult(d toolResultData, step int64) {
	live := j.redact.by.JSON(encode(d))
	d.Output, d.StepRef = nil, run.StepRef{}
	j.events.add(event.Entry{Name: "tool.result", At: j.e.Clock.Now(), Data: encode(d), Step: step}, live)
}

// emitCall adds tool.call. askedBy is the seq of the model's step that has the
// call with the same arguments, so that only that step stores them; 0: there is
// none. step is the call's own, if it was begun.
func (j *journal) emitCall(step run.StepRef, c model.ToolCall, askedBy int64) {
	d := toolCallData{StepRef: step, ToolCallID: c.ID, Name: c.Name, Arguments: run.ArgumentsJSON(c.Arguments)}
	live := j.redact.by.JSON(encode(d))
	d.StepRef = run.StepRef{} // that of the step.started before it
	if askedBy != 0 {
		d.Arguments = nil
	}
	j.events.add(event.Entry{Name: "tool.call", At: j.e.Clock.Now(), Data: j.redact.by.JSON(encode(d)), Step: askedBy}, live)
}

// chunk publishes a piece of text at once and leaves it to be stored.
func (j *journal) chunk(ctx context.Context, name, text string) {
	if text = j.redact.of(name).Add(text); text == "" {
		return
	}
	if j.text.unstored() >= maxUnstored {
		j.e.drafts.flush(ctx, []*journal{j})
	}
	publishChunk(j, name, text)
}

// publishChunk is journal.chunk for a text that may be stored as it is.
func publishChunk(j *journal, name, text string) {
	if text == "" {
		return
	}
	at := j.e.Clock.Now()
	prev := j.events.seq
	j.events.seq++
	first := j.text.add(name, text, at)
	j.e.Hub.Publish(event.Batch{Stream: j.rec.RunID, Prev: prev, Events: []event.Event{{
		Seq: j.events.seq, Name: name, At: at, Data: textData(text, j.text.ofStep),
	}}})
	if first {
		j.e.drafts.note(j)
	}
}

// textData is the data of a chunk: its text, and the members of step.
func textData(text string, step jsontext.Value) jsontext.Value {
	b := append(make([]byte, 0, len(text)+len(step)+16), `{"text":`...)
	// The error only reports that invalid UTF-8 was replaced.
	b, _ = jsontext.AppendQuote(b, text)
	if len(step) <= 2 {
		return append(b, '}')
	}
	return append(append(b, ','), step[1:]...)
}

// appendEvents returns the write of the events since the last commit.
func (j *journal) appendEvents() txn.Op {
	return j.e.Log.Append(j.rec.TenantID, j.rec.RunID, event.Segment{First: j.events.stored + 1, Entries: j.events.entries})
}

// publish sends the committed events to the streams.
func (j *journal) publish() {
	if len(j.events.live) > 0 {
		j.e.Hub.Publish(event.Batch{Stream: j.rec.RunID, Prev: j.events.prev, Events: j.events.live, Final: j.rec.Status.Final()})
	}
	j.events.entries, j.events.live = nil, nil
	j.events.stored = j.events.seq
	if n := len(j.rec.Pending); n > 0 {
		j.text.open(j.rec.Pending[n-1].Ref(), j.events.stored)
	}
}
