package engine

import (
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// sandboxNote is the result of a call that a test of a changed agent does not make.
const sandboxNote = "not called: this run is a sandbox test of a changed agent, and %s"

// sandboxed reports whether the run tests a change of its agent; see run.Sandbox.
func (t *turn) sandboxed() bool { return t.j.rec.Options.Sandbox != nil }

// mayInSandbox reports whether a call may be made where the run is a test: only calls
// of tools that are read-only. If it may not, that is its result.
func (t *turn) mayInSandbox(o *outcome) bool {
	if !t.sandboxed() {
		return true
	}
	if known, ok := t.conv.tools.Lookup(o.in.Name); ok && !known.ReadOnly {
		o.fail(sandboxNote, "the tool may change something")
		return false
	}
	return true
}

// refuseInSandbox makes the refusal of a call that waits for a person its result.
func (t *turn) refuseInSandbox(c model.ToolCall) {
	in := run.ToolInput{ToolCallID: c.ID, Name: c.Name, Arguments: c.Arguments}
	t.beginCall(in)
	o := outcome{step: t.j.newest().Ref(), in: in, ruling: t.rulings[c.ID]}
	o.fail(sandboxNote, "the call waits for a person")
	t.record(o)
}
