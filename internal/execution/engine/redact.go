package engine

import (
	"agentd/internal/base/redact"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// redaction replaces what the tenant of a run does not store in what others see of the
// run: its events and the texts of its model. What is stored passes run.Redaction.
// The model and the tools of this attempt see everything; after a crash, or a wait that
// released the worker, they see what was stored.
type redaction struct {
	by             *redact.Redactor // nil: all of it is stored
	text, thinking *redact.Stream
}

func newRedaction(by *redact.Redactor) redaction { return redaction{by, by.Stream(), by.Stream()} }

// of returns the stream of the chunks of a name.
func (r *redaction) of(name string) *redact.Stream {
	if name == thinkingChunk {
		return r.thinking
	}
	return r.text
}

// drop forgets the texts that are held back.
func (r *redaction) drop() {
	r.text.Drop()
	r.thinking.Drop()
}

// refuseRedacted records that a call which waits for approval could not be made afterwards.
func (t *turn) refuseRedacted(c model.ToolCall) {
	in := run.ToolInput{ToolCallID: c.ID, Name: c.Name, Arguments: c.Arguments, Redacted: c.Redacted}
	t.beginCall(in)
	t.record(outcome{step: t.j.newest().Ref(), in: in, out: run.ToolOutput{Content: unapprovableNote, IsError: true}})
}

// redactedNote is the result of a call whose arguments lack data that is not stored.
const redactedNote = "not called: since the call was asked for, the run was continued from what is stored, and its arguments held data " +
	"of a kind that the company does not store. Ask for it again only if you know the data."

// unapprovableNote is the result of a call that would wait for a person.
const unapprovableNote = "not called: it waits for a person's approval, and its arguments hold data of a kind that the company " +
	"does not store, so that it could not be made afterwards"
