package engine

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/tool"
)

// turn is the model's newest turn and what its tool calls need: approvals,
// answers of people, and results. It reads the conversation's tools and hands
// complete turns over to it.
type turn struct {
	e     *Engine
	spec  *run.AgentSpec
	j     *journal
	conv  *conversation
	watch policy.Watch

	transcript  *run.Transcript          // what the journal has of this run; its last turn is this one
	approvals   map[string]*run.Approval // by tool_call_id
	rulings     map[string]policy.Ruling // of calls that rules have wait, by tool_call_id
	repeats     tool.Repeats
	replayed    bool              // transcript, approvals and repeats are those of the journal
	stepIDs     map[string]string // of calls that were under way when the run that is continued failed, by tool_call_id
	interrupted map[string]bool   // calls that were under way when the last worker died, by tool_call_id

	read []string // the sources that the model had read when it asked for the calls under way
}

func newTurn(c *conversation, f facts) *turn {
	return &turn{
		e: c.e, spec: c.spec, j: c.j, conv: c, watch: f.watch,
		transcript: &run.Transcript{Results: map[string]model.Message{}}, approvals: map[string]*run.Approval{},
		rulings: map[string]policy.Ruling{},
	}
}

// next adds what follows in the model's turn to the next commit. Calls that
// may be made begin. When none is under way, the run waits for what the others
// need: approvals first, answers second. When all calls have results, the model
// is called again.
func (t *turn) next(ctx context.Context) {
	var unapproved []model.ToolCall
	var question *model.ToolCall
	for _, c := range t.transcript.OpenCalls() {
		approval := t.approvals[c.ID]
		switch {
		case approval != nil && approval.Status == run.ApprovalRejected:
			t.refuse(c, approval)
		case approval != nil && approval.Status == run.ApprovalApproved && approval.Covers(c.Arguments):
			t.beginCall(run.ToolInput{
				ToolCallID: c.ID, Name: c.Name, Arguments: approval.EffectiveArguments(), ApprovalID: approval.ApprovalID,
			})
		case t.replays():
			t.beginCall(run.ToolInput{ToolCallID: c.ID, Name: c.Name, Arguments: c.Arguments})
		case t.sandboxed() && (t.isQuestion(c) || t.needsApproval(ctx, c)):
			t.refuseInSandbox(c)
		case t.isQuestion(c):
			if question == nil {
				question = &c
			}
		case t.needsApproval(ctx, c):
			if c.Redacted || t.j.redact.by.Content(c.Arguments) != c.Arguments {
				t.refuseRedacted(c)
				continue
			}
			unapproved = append(unapproved, c)
		default:
			t.beginCall(run.ToolInput{ToolCallID: c.ID, Name: c.Name, Arguments: c.Arguments, Redacted: c.Redacted})
		}
	}
	switch {
	case t.j.pending(run.StepTool):
	case len(unapproved) > 0:
		t.awaitApproval(unapproved)
	case question != nil:
		t.awaitInput(*question)
	default:
		t.transcript.CloseTurn()
		t.flushTranscript()
		t.conv.beginCall(ctx)
	}
}

// flushTranscript moves the complete turns of the transcript to the
// conversation.
func (t *turn) flushTranscript() {
	t.conv.messages = append(t.conv.messages, t.transcript.Messages...)
	t.transcript.Messages = nil
}

// answered makes a model's message with tool calls the newest turn.
func (t *turn) answered(m model.Message) {
	t.transcript = &run.Transcript{OpenTurn: &m, Results: map[string]model.Message{}}
}

// beginCall adds a tool call that is about to be made to the next commit, so
// that it is stored before it is made.
func (t *turn) beginCall(in run.ToolInput) {
	t.j.nextStepID = t.stepIDs[in.ToolCallID] // so that the tool gets the same key again
	t.j.beginStep(run.StepTool, &in)
	t.emitCall(t.j.newest().Ref(), model.ToolCall{ID: in.ToolCallID, Name: in.Name, Arguments: in.Arguments})
}

// emitCall adds the event of a call. step is that of the call, if it was begun.
func (t *turn) emitCall(step run.StepRef, c model.ToolCall) {
	t.j.emitCall(step, c, t.askedBy(c.ID, c.Arguments))
}

// askedBy returns the seq of the model's step that asked for a call with just
// these arguments, 0 where an approver changed them.
func (t *turn) askedBy(id, arguments string) int64 {
	if t.transcript.OpenTurn == nil || !utf8.ValidString(arguments) { // invalid text is stored repaired
		return 0
	}
	for _, c := range t.transcript.OpenTurn.ToolCalls {
		if c.ID == id && c.Arguments == arguments {
			return t.transcript.OpenTurn.From.StepSeq
		}
	}
	return 0
}

// nameCalls sets ids for calls whose id is empty or was used before: results
// and approvals are found by it.
func (t *turn) nameCalls(calls []model.ToolCall) {
	used := map[string]bool{"": true}
	for id := range t.approvals { // also of calls that a summary replaced
		used[id] = true
	}
	for _, m := range t.conv.messages {
		for _, c := range m.ToolCalls {
			used[c.ID] = true
		}
	}
	for i := range calls {
		if used[calls[i].ID] {
			calls[i].ID = "call_" + strings.ReplaceAll(ident.New(), "-", "")
		}
		used[calls[i].ID] = true
	}
}

// callsCaller reports whether any call is of a tool of the caller's own, which
// the platform cannot run: the run ends, and the caller gets the calls.
func (t *turn) callsCaller(calls []model.ToolCall) bool {
	return slices.ContainsFunc(calls, func(c model.ToolCall) bool { return t.j.rec.Options.HasTool(c.Name) })
}

// replay reads the run's journal and finds out what was under way when the last
// worker died: a model call, which is simply repeated, or tool calls, which may
// have happened.
func (t *turn) replay(ctx context.Context) error {
	rec := t.j.rec
	steps, err := t.e.Runs.ListSteps(ctx, rec.TenantID, rec.RunID, 0, 0)
	if err != nil {
		return err
	}
	if t.transcript, err = run.Transcribe(steps); err != nil {
		return err
	}
	for i := range steps {
		if steps[i].Type == run.StepTool {
			if err := t.noteRepeat(&steps[i]); err != nil {
				return err
			}
		}
	}
	t.interrupted, t.stepIDs = map[string]bool{}, map[string]string{}
	for i := range rec.Pending {
		p := &rec.Pending[i]
		if p.Type == run.StepLLM { // a limit was reached: the open calls were not to be made
			t.transcript.CloseTurn()
		}
		if p.Tool != nil {
			t.interrupted[p.Tool.ToolCallID] = !p.Held
			p.Held = false
		}
	}
	t.replayed = true
	if before := rec.Options.Inherits; before != "" {
		if err := t.inherit(ctx, before); err != nil {
			return err
		}
	}
	if rec.Wait.Approvals == 0 {
		return nil
	}
	return t.addApprovals(ctx, rec.RunID)
}

func (t *turn) addApprovals(ctx context.Context, runID string) error {
	all, err := t.e.Runs.ListApprovalsByRun(ctx, nil, t.j.rec.TenantID, runID)
	if err != nil {
		return err
	}
	for i := range all {
		t.approvals[all[i].ToolCallID] = &all[i]
	}
	return nil
}

// inherit reads what a run that continues another has of it beside the steps: the
// decisions about its calls, and which of them were under way when it failed.
func (t *turn) inherit(ctx context.Context, from string) error {
	for depth := 0; from != "" && depth < maxContinued; depth++ {
		before, err := t.e.Runs.Get(ctx, t.j.rec.TenantID, from)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		steps, err := t.e.Runs.ListSteps(ctx, before.TenantID, from, 0, 0)
		if err != nil {
			return err
		}
		for i := range steps {
			var in run.ToolInput
			if steps[i].Type == run.StepTool && len(steps[i].Output) == 0 && json.Unmarshal(steps[i].Input, &in) == nil {
				t.interrupted[in.ToolCallID] = true
				t.stepIDs[in.ToolCallID] = steps[i].StepID
			}
		}
		if before.Wait.Approvals > 0 {
			if err := t.addApprovals(ctx, from); err != nil {
				return err
			}
		}
		from = before.Options.Inherits
	}
	return nil
}

// noteRepeat adds a call of the journal to the detector of repeated calls.
func (t *turn) noteRepeat(s *run.Step) error {
	var in run.ToolInput
	var out run.ToolOutput
	if len(s.Output) == 0 { // the run ended while the call was under way
		return nil
	}
	if err := json.Unmarshal(s.Input, &in); err != nil {
		return err
	}
	if err := json.Unmarshal(s.Output, &out); err != nil {
		return err
	}
	t.repeats.Note(in.Name, in.Arguments, out.Content)
	return nil
}
