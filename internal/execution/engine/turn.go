package engine

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/ident"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/rule"
	"agentd/internal/kernel/tool"
)

// next adds to the commit that is being made what the run does next about the
// model's last turn: calls that may be made begin; then the run waits for what
// the others need, approval first and answers second; and when all have their
// results the model is asked again.
func (a *attempt) next() error {
	var ask []model.ToolCall
	var question *model.ToolCall
	for _, c := range a.past.OpenCalls() {
		approval := a.approvals[c.ID]
		switch {
		case approval != nil && approval.Status == run.ApprovalRejected:
			a.refuse(c, approval)
		case approval != nil && approval.Status == run.ApprovalApproved && approval.Covers(c.Arguments):
			a.beginTool(run.ToolInput{ToolCallID: c.ID, Name: c.Name, Arguments: approval.EffectiveArguments(), ApprovalID: approval.ApprovalID})
		case a.asks(c):
			if question == nil {
				question = &c
			}
		default:
			if a.needsApproval(c) {
				ask = append(ask, c)
			} else {
				a.beginTool(run.ToolInput{ToolCallID: c.ID, Name: c.Name, Arguments: c.Arguments})
			}
		}
	}
	switch {
	case a.pending(run.StepTool):
	case len(ask) > 0:
		a.awaitApproval(ask)
	case question != nil:
		a.awaitInput(*question)
	default:
		a.past.CloseTurn()
		a.tell()
		a.beginAsk()
	}
	return nil
}

// tell moves what the journal has, as far as turns are complete, to the
// conversation with the model.
func (a *attempt) tell() {
	a.messages = append(a.messages, a.past.Messages...)
	a.past.Messages = nil
}

// beginTool notes a call that is about to be made, before it is made.
func (a *attempt) beginTool(in run.ToolInput) {
	a.beginStep(run.StepTool, &in)
	a.emitCall(model.ToolCall{ID: in.ToolCallID, Name: in.Name, Arguments: in.Arguments})
}

// refuse gives the model an approver's refusal as the call's result.
func (a *attempt) refuse(c model.ToolCall, approval *run.Approval) {
	in := run.ToolInput{ToolCallID: c.ID, Name: c.Name, Arguments: c.Arguments, ApprovalID: approval.ApprovalID}
	a.beginTool(in)
	note := "The call was not made: a person refused to approve it."
	if approval.Reason != "" {
		note += " The reason given: " + approval.Reason
	}
	a.record(outcome{seq: a.step, in: in, out: run.ToolOutput{Content: note, IsError: true}})
}

// asks says whether a call is a question to a person.
func (a *attempt) asks(c model.ToolCall) bool {
	if c.Name != run.AskUser {
		return false
	}
	_, offered := a.tools.Lookup(c.Name)
	return offered && tool.Question(c.Arguments) != ""
}

// needsApproval says whether a call waits for a person. Calls of tools that
// there are not fail anyway.
func (a *attempt) needsApproval(c model.ToolCall) bool {
	if _, offered := a.tools.Lookup(c.Name); !offered {
		return false
	}
	for _, r := range a.spec.ApprovalRules {
		if r.Tool == c.Name {
			return r.Approval != run.ApprovalNever && (r.Approval != run.ApprovalWhen || a.meets(r.Condition, c.Arguments))
		}
	}
	for _, name := range a.spec.ApprovalTools {
		if name == c.Name || name == "*" {
			return true
		}
	}
	return false
}

// meets evaluates an approval rule's condition. Where that cannot be done a
// person looks at the call.
func (a *attempt) meets(condition, arguments string) bool {
	var args any = map[string]any{}
	if strings.TrimSpace(arguments) != "" {
		if err := json.Unmarshal([]byte(arguments), &args); err != nil {
			return true
		}
	}
	r, err := rule.Compile(condition, "arguments")
	if err != nil {
		return true
	}
	yes, err := r.True(a.ctx, map[string]any{"arguments": args})
	return yes || err != nil
}

// awaitApproval has the run wait until somebody decided about the calls.
func (a *attempt) awaitApproval(calls []model.ToolCall) {
	now := a.e.Clock.Now()
	until := now.Add(a.spec.ApprovalTimeout)
	for _, c := range calls {
		ap := &run.Approval{
			ApprovalID: ident.New(), RunID: a.rec.RunID, TenantID: a.rec.TenantID, AgentID: a.rec.AgentID, SessionID: a.rec.SessionID,
			ToolCallID: c.ID, ToolName: c.Name, Arguments: []byte(run.ArgumentsJSON(c.Arguments)), ArgumentsHash: run.HashArguments(c.Arguments),
			Status: run.ApprovalPending, RequestedAt: now, ExpiresAt: until,
		}
		a.asked = append(a.asked, ap)
		a.emit("approval.requested", approvalData{
			ApprovalID: ap.ApprovalID, ToolCallID: c.ID, Name: c.Name, Arguments: run.ArgumentsJSON(c.Arguments), ExpiresAt: until,
		})
	}
	a.park(run.AwaitingApproval, run.Wait{Until: until, Approvals: a.rec.Wait.Approvals + len(calls)}, statusData{Status: run.AwaitingApproval})
}

// awaitInput has the run wait for the answer to a question.
func (a *attempt) awaitInput(c model.ToolCall) {
	now := a.e.Clock.Now()
	ask := &run.PendingInput{InputID: ident.New(), Question: tool.Question(c.Arguments), ToolCallID: c.ID, RequestedAt: now}
	a.emitCall(c)
	a.emit("input.requested", ask)
	a.park(run.Paused, run.Wait{Until: now.Add(a.spec.ApprovalTimeout), Input: ask, Approvals: a.rec.Wait.Approvals}, pausedData{Status: run.Paused, Reason: "input"})
}

// awaitAuth has the run wait until somebody authorized what a call needs.
func (a *attempt) awaitAuth(needs *run.PendingAuth) {
	until := a.e.Clock.Now().Add(a.spec.ApprovalTimeout)
	a.park(run.AuthRequired, run.Wait{Until: until, Auth: needs, Approvals: a.rec.Wait.Approvals}, authData{run.AuthRequired, *needs})
}

// park moves the run to a state in which it waits, in the commit that is being
// made. It holds no worker from then on.
func (a *attempt) park(status run.Status, wait run.Wait, data any) {
	a.rec.Status, a.rec.Wait = status, wait
	a.rec.PendingInput, a.rec.PendingAuth = wait.Input, wait.Auth
	a.emit(status.EventName(), data)
}

// pause parks the run because somebody asked for it since the last commit.
// What that commit was to store is stored; what it was to begin is not begun,
// and an answer is held.
func (a *attempt) pause(ctx context.Context) error {
	wish := run.PauseCleared
	if a.rec.Status.Waits() { // it pauses when it comes back
		wish = run.PauseKept
	}
	if a.rec.Status.Final() {
		a.takeBack()
		a.rec.Status, a.rec.CompletedAt, a.rec.Output = run.Running, nil, nil
	}
	if n := len(a.rec.Pending); n > 0 && (a.rec.Pending[n-1].Type == run.StepLLM || a.rec.Pending[n-1].Type == run.StepCompaction) && a.rec.Pending[n-1].Seq > a.committed {
		a.takeBack()
		a.rec.Pending = a.rec.Pending[:n-1]
		a.step--
	}
	for i := range a.rec.Pending {
		if a.rec.Pending[i].Seq > a.committed {
			a.rec.Pending[i].Held = true
		}
	}
	if a.rec.Status == run.Running {
		a.park(run.Paused, run.Wait{Approvals: a.rec.Wait.Approvals}, pausedData{Status: run.Paused, Reason: "manual"})
	}
	return a.commit(ctx, wish)
}

// takeBack drops the last event of the commit that was not made.
func (a *attempt) takeBack() {
	a.entries, a.live = a.entries[:len(a.entries)-1], a.live[:len(a.live)-1]
	a.seq--
}
