package engine_test

import (
	"context"
	"fmt"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/tool"
)

// Names of what rules do in the world, beside the acts that they judge.
const (
	everything = "*"      // the action of a rule for all acts: the agent's permissions are revoked
	theModel   = "model:" // the agent names none
)

// verdict is what the rules made of an act, and when.
type verdict struct {
	effect  policy.Effect
	at      time.Time
	changes int // of the laws, when it was judged
}

// legislate changes a rule: for a tool, the model, or all that the agent does.
func (w *world) legislate() {
	action := [...]string{"tool:act", "tool:safe", "tool:pay", "tool:mail", theModel, everything}[w.rng.IntN(6)]
	effect := [...]policy.Effect{policy.Allow, policy.Warn, policy.Approve, policy.Deny, policy.Terminate}[w.rng.IntN(5)]
	if action == everything {
		effect = [...]policy.Effect{policy.Allow, policy.Allow, policy.Revoke}[w.rng.IntN(3)]
	}
	w.mu.Lock()
	w.rules[action] = effect
	w.mu.Unlock()
	w.happened("rule changed", fmt.Sprint(action, " is ", effect))
}

// simGovernor judges by the rules of the world, as a node sees them.
type simGovernor struct{ n *simNode }

// Judge implements policy.Governor.
func (g simGovernor) Judge(ctx context.Context, r policy.Run, act policy.Act) (ruling policy.Ruling, err error) {
	w := g.n.w
	rest(g.n.moment(3))
	ruling, changes, err := g.byLaw(ctx, r, act)
	if err != nil {
		return ruling, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, action := range append([]string{everything}, act.Actions...) {
		if e := w.rules[action]; e != policy.Allow {
			ruling.Effect = max(ruling.Effect, e)
			ruling.Findings = append(ruling.Findings, policy.Finding{
				RuleID: action, Severity: "error", Action: act.Actions[0], Decision: e.String(), Message: "So it was decided.",
			})
		}
	}
	w.rulings[r.RunID+act.Actions[0]+string(act.Arguments)] = verdict{ruling.Effect, time.Now(), changes}
	return ruling, nil
}

// RecordTx implements policy.Governor.
func (g simGovernor) RecordTx(_ txn.Tx, _ policy.Run, ruling policy.Ruling) error {
	for _, f := range ruling.Findings {
		kind := "call"
		if f.Action == theModel {
			kind = "model"
		}
		g.n.w.tally.count(fmt.Sprintf("rule: %s of a %s", f.Decision, kind))
	}
	return nil
}

// obey fails unless a call that begins was judged at this very moment and may be made.
func (w *world) obey(ctx context.Context, c tool.Call) {
	arguments := c.Arguments
	w.mu.Lock()
	v, known := w.rulings[c.RunID+"tool:"+c.Name+arguments]
	w.mu.Unlock()
	w.obeysLaws("tool:"+c.Name, v)
	switch {
	case !known || !v.at.Equal(time.Now()):
		w.t.Errorf("seed %d: the call %s of %s was judged at %v and made at %v", w.seed, c.ID, c.Name, v.at, time.Now())
	case v.effect < policy.Approve || v.effect == policy.Approve && w.wasApproved(ctx, c):
	default:
		w.t.Errorf("seed %d: the call %s of %s was made, against a rule: %v", w.seed, c.ID, c.Name, v.effect)
	}
}

// wasApproved reports whether a person approved a call.
func (w *world) wasApproved(ctx context.Context, c tool.Call) bool {
	all, err := w.runs.ListApprovalsByRun(ctx, nil, c.TenantID, c.RunID)
	if err != nil {
		w.t.Error(err)
	}
	for i := range all {
		if all[i].ToolCallID == c.ID && all[i].Status == run.ApprovalApproved {
			return true
		}
	}
	return false
}
