package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/agent"
	"agentd/internal/base/ident"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/rule"
	"agentd/internal/kernel/tool"
)

// refuse records an approver's rejection as the call's result.
func (t *turn) refuse(c model.ToolCall, approval *run.Approval) {
	in := run.ToolInput{ToolCallID: c.ID, Name: c.Name, Arguments: c.Arguments, ApprovalID: approval.ApprovalID}
	t.beginCall(in)
	note := "The call was not made: a person refused to approve it."
	if approval.Reason != "" {
		note += " The reason given: " + approval.Reason
	}
	t.record(outcome{step: t.j.newest().Ref(), in: in, out: run.ToolOutput{Content: note, IsError: true}})
}

// isQuestion reports whether a call is a question to a person.
func (t *turn) isQuestion(c model.ToolCall) bool {
	if c.Name != run.AskUser {
		return false
	}
	_, offered := t.conv.tools.Lookup(c.Name)
	return offered && tool.Question(c.Arguments) != ""
}

// needsApproval reports whether a call waits for a person's approval. Calls of
// unknown tools do not: they fail anyway.
func (t *turn) needsApproval(ctx context.Context, c model.ToolCall) bool {
	if _, offered := t.conv.tools.Lookup(c.Name); !offered {
		return false
	}
	if t.mustWait(ctx, c) { // however far the tool is trusted
		return true
	}
	switch t.spec.Trust(c.Name) {
	case agent.AlwaysAllow:
		return false
	case agent.AskFirst:
		return true
	}
	for _, r := range t.spec.ApprovalRules {
		if r.Tool == c.Name {
			return r.Approval != run.ApprovalNever && (r.Approval != run.ApprovalWhen || holds(ctx, r.Condition, c.Arguments))
		}
	}
	return slices.Contains(t.spec.ApprovalTools, c.Name) ||
		slices.Contains(t.spec.ApprovalTools, "*") && !slices.Contains(t.spec.AutoApproveTools, c.Name)
}

// holds evaluates an approval rule's condition on a call's arguments. It is
// true where the condition cannot be evaluated: then a person decides.
func holds(ctx context.Context, condition, arguments string) bool {
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
	yes, err := r.True(ctx, map[string]any{"arguments": args})
	return yes || err != nil
}

// awaitApproval suspends the run until people have decided about the calls.
func (t *turn) awaitApproval(calls []model.ToolCall) {
	rec := t.j.rec
	now := t.e.Clock.Now()
	until := now.Add(t.spec.ApprovalTimeout)
	for _, c := range calls {
		shown := run.ArgumentsJSON(c.Arguments)
		t.j.recordRuling(t.spec, run.StepRef{}, c.ID, t.rulings[c.ID])
		a := &run.Approval{
			ApprovalID: ident.New(), RunID: rec.RunID, TenantID: rec.TenantID, AgentID: rec.AgentID, SessionID: rec.SessionID,
			ToolCallID: c.ID, ToolName: c.Name, Arguments: []byte(shown), ArgumentsHash: run.HashArguments(c.Arguments),
			Status: run.ApprovalPending, RequestedAt: now, ExpiresAt: until,
		}
		t.j.next.approvals = append(t.j.next.approvals, a)
		t.j.emit("approval.requested", approvalData{
			ApprovalID: a.ApprovalID, ToolCallID: c.ID, Name: c.Name, Arguments: shown, ExpiresAt: until,
		})
	}
	wait := run.Wait{Until: until, Approvals: rec.Wait.Approvals + len(calls)}
	t.j.suspend(run.AwaitingApproval, wait, statusData{Status: run.AwaitingApproval})
}

// awaitInput suspends the run until a question is answered.
func (t *turn) awaitInput(c model.ToolCall) {
	now := t.e.Clock.Now()
	input := &run.PendingInput{InputID: ident.New(), Question: tool.Question(c.Arguments), ToolCallID: c.ID, RequestedAt: now}
	t.emitCall(run.StepRef{}, c)
	t.j.emit("input.requested", input)
	wait := run.Wait{Until: now.Add(t.spec.ApprovalTimeout), Input: input, Approvals: t.j.rec.Wait.Approvals}
	t.j.suspend(run.Paused, wait, pausedData{Status: run.Paused, Reason: "input"})
}

// awaitAuth suspends the run until a person authorized what a call needs.
func (t *turn) awaitAuth(needs *run.PendingAuth) {
	wait := run.Wait{Until: t.e.Clock.Now().Add(t.spec.ApprovalTimeout), Auth: needs, Approvals: t.j.rec.Wait.Approvals}
	t.j.suspend(run.AuthRequired, wait, authData{run.AuthRequired, *needs})
}
