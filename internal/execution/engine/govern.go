package engine

import (
	"context"
	"strconv"

	"agentd/internal/base/ptr"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
)

// governedError ends a run by a rule of the company.
type governedError struct{ reason string }

func (e *governedError) Error() string { return e.reason }

// notJudged is the result of a call that the rules could not be asked about.
const notJudged = "the call could not be judged by the rules of the company; it was not made"

// judge judges an act by the rules of the run's company, as they are now.
func (e *Engine) judge(ctx context.Context, r *run.Record, spec *run.AgentSpec, act policy.Act) (policy.Ruling, error) {
	if e.Governor == nil {
		return policy.Ruling{}, nil
	}
	act.Facts = func() (agent, facts map[string]any) {
		return map[string]any{"version": spec.Version, "model": spec.Model.ModelRef}, map[string]any{"session_id": ptr.Value(r.SessionID)}
	}
	act.FactsKey = strconv.Itoa(int(spec.Version)) + " " + ptr.Value(r.SessionID) + " " + spec.Model.ModelRef
	ruling, err := e.Governor.Judge(ctx, subject(r, spec), act)
	if r.Options.Sandbox != nil { // a test does not punish the agent
		ruling.Effect = min(ruling.Effect, policy.Deny)
	}
	return ruling, err
}

// judgeModel judges a call of the agent's model. A call that would wait for an
// approval is refused: nobody is asked about calls of models.
func (e *Engine) judgeModel(ctx context.Context, r *run.Record, spec *run.AgentSpec, sources []string) (policy.Ruling, error) {
	ruling, err := e.judge(ctx, r, spec, policy.Act{Actions: []string{"model:" + spec.Model.ModelRef}, Sources: sources})
	if err == nil && ruling.Effect == policy.Approve {
		ruling.Effect = policy.Deny
	}
	return ruling, err
}

// reasonOf returns why an act is refused.
func reasonOf(ruling policy.Ruling) string {
	if reason := ruling.Reason(); reason != "" {
		return reason
	}
	for _, f := range ruling.Findings {
		if !f.Shadow {
			return "rule " + f.RuleID + ": " + f.Message
		}
	}
	return "a rule of the company forbids it"
}

// checkStart judges whether a run may start: by the rules about its model. A run
// that may not is rejected.
func (e *Engine) checkStart(ctx context.Context, r *run.Record, spec *run.AgentSpec) (policy.Verdict, policy.Ruling, error) {
	ruling, err := e.judgeModel(ctx, r, spec, r.Options.Sources)
	if err != nil || ruling.Effect < policy.Deny {
		return policy.Verdict{}, ruling, err
	}
	return policy.Verdict{Refused: true, Code: run.CodePolicyBlocked, Reason: "The run may not start: " + reasonOf(ruling)}, ruling, nil
}

// governModel judges the model call that is about to be made. A refusal ends the run.
func (a *attempt) governModel() error {
	if a.e.Governor == nil || a.speculative != nil { // judged when the run started
		return nil
	}
	j := a.journal
	ruling, err := a.e.judgeModel(a.ctx, j.rec, a.spec, a.conversation.sources)
	if err != nil {
		return err
	}
	j.recordRuling(a.spec, j.newest().Ref(), "", ruling)
	switch {
	case ruling.Effect >= policy.Deny:
		return &governedError{"The model may not be called: " + reasonOf(ruling)}
	case len(ruling.Findings) == 0:
		return nil
	}
	// What was found comes before the text of the call, which is published as it arrives.
	return j.commit(a.ctx, run.PauseKept)
}

// govern judges a call right before it is made. If it may not be made, that is its
// result, and ok is false.
func (t *turn) govern(ctx context.Context, o *outcome, arguments string) (ok bool) {
	if t.e.Governor == nil {
		return true
	}
	ruling, err := t.e.judge(ctx, t.j.rec, t.spec, policy.ToolAct(o.in.Name, arguments, t.read))
	if err != nil {
		t.warn("a call could not be judged", o.in.Name, err)
		o.fail(notJudged)
		return false
	}
	if ruling.Effect == policy.Approve && o.in.ApprovalID != "" {
		ruling = approved(ruling)
	}
	o.ruling = ruling
	switch {
	case ruling.Effect == policy.Approve:
		o.fail("refused by policy (%s): the call needs the approval of a person (%s)", run.CodePolicyBlocked, reasonOf(ruling))
	case ruling.Effect > policy.Approve:
		o.fail("refused by policy (%s): %s", run.CodePolicyBlocked, reasonOf(ruling))
	case t.j.rec.Options.HasTool(o.in.Name):
		o.fail("not handed to the caller: another call of the same answer was refused by policy. Ask for this one again.")
	default:
		return true
	}
	return false
}

// approved returns the ruling about a call that a person approved. That it had to wait
// was recorded then.
func approved(ruling policy.Ruling) (left policy.Ruling) {
	for _, f := range ruling.Findings {
		if f.Shadow || f.Decision != policy.Approve.String() {
			left.Findings = append(left.Findings, f)
		}
	}
	return left
}

// mustWait reports whether a rule has a call wait for approval, and keeps the ruling
// for the commit with which the run waits. A call that cannot be judged now is refused
// when it would be made.
func (t *turn) mustWait(ctx context.Context, c model.ToolCall) bool {
	if t.e.Governor == nil {
		return false
	}
	ruling, err := t.e.judge(ctx, t.j.rec, t.spec, policy.ToolAct(c.Name, c.Arguments, t.conv.sources))
	if err != nil || ruling.Effect != policy.Approve {
		return false
	}
	t.rulings[c.ID] = ruling
	return true
}

// mayHandOver reports whether the rules let the caller have the calls of its tools.
// What they say of calls that it gets is recorded here.
func (t *turn) mayHandOver(ctx context.Context, calls []model.ToolCall) bool {
	if t.e.Governor == nil {
		return true
	}
	rulings := make([]policy.Ruling, len(calls))
	for i, c := range calls {
		if !t.j.rec.Options.HasTool(c.Name) {
			continue
		}
		var err error
		rulings[i], err = t.e.judge(ctx, t.j.rec, t.spec, policy.ToolAct(c.Name, c.Arguments, t.conv.sources))
		if err != nil || rulings[i].Effect >= policy.Approve {
			return false
		}
	}
	for i, ruling := range rulings {
		t.j.recordRuling(t.spec, t.j.newest().Ref(), calls[i].ID, ruling)
	}
	return true
}

// recordRuling adds what rules found to the next commit, with its events. step is that
// of the act; empty where it has none yet.
func (j *journal) recordRuling(spec *run.AgentSpec, step run.StepRef, callID string, ruling policy.Ruling) {
	if len(ruling.Findings) == 0 {
		return
	}
	for _, f := range ruling.Findings {
		j.emit("governance.decided", rulingData{step, callID, f})
	}
	of := ofStep(subject(j.rec, spec), step)
	j.next.ops = append(j.next.ops, func(tx txn.Tx) error { return j.e.Governor.RecordTx(tx, of, ruling) })
}
