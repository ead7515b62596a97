package engine

import (
	"context"

	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
)

// around is what stands around a run besides its agent, and that the engine
// would rather know before it begins.
type around struct {
	watch   policy.Watch
	remote  bool // it has tools from outside
	recalls bool // it remembers something at its start
}

// look finds out what stands around a run; it is quick.
func (e *Engine) look(ctx context.Context, r *run.Record, spec *run.AgentSpec) (w around, err error) {
	if w.watch, err = e.Gate.Watches(ctx, subject(r, spec)); err != nil {
		return w, err
	}
	if e.Remote != nil {
		if w.remote, err = e.Remote.Any(ctx, r.TenantID, r.AgentID, spec.MCP); err != nil {
			return w, err
		}
	}
	w.recalls = e.Memory != nil && e.Memory.Wants([]byte(spec.Memory))
	return w, nil
}

// atOnce says whether the first model call needs nothing that has yet to be
// found out: then it can begin while the run is being stored.
func (a *attempt) atOnce(ctx context.Context) bool {
	return !a.watch.Input && !a.remote && !a.recalls && a.rec.SessionID == nil && a.rec.Options.Continues == "" && a.rec.Options.Follows == "" &&
		len(a.rec.Options.Budgets) == 0 && !a.long(ctx)
}

// open makes the conversation ready: the tools from outside, the check of the
// message, what the agent remembers, the earlier turns, and what the journal
// has of this run. What costs something is done once, and is in the journal
// from then on.
func (a *attempt) open() error {
	if a.messages != nil { // the first call began already
		return nil
	}
	if a.remote {
		set, err := a.e.Remote.Tools(a.ctx, a.rec.TenantID, a.rec.AgentID, a.spec.MCP)
		if err != nil {
			return err
		}
		a.tools = a.tools.Join(set)
	}
	in := a.input()
	if a.past == nil {
		a.past = &run.Transcript{Results: map[string]model.Message{}}
	}
	if a.watch.Input && a.past.Checked == nil {
		if err := a.check(in.Message); err != nil || a.rec.Status != run.Running {
			return err
		}
	}
	if c := a.past.Checked; c != nil && c.Changed {
		changed := *in
		changed.Message = c.Text
		in = &changed
	}
	if a.recalls && a.past.Recalled == nil {
		if err := a.recall(in.Message); err != nil || a.rec.Status != run.Running {
			return err
		}
	}
	earlier, err := a.earlier()
	if err != nil {
		return err
	}
	a.messages, a.aside = a.past.After(a.opening(in, earlier)), a.past.OverheadSteps
	a.past.Messages = nil
	return nil
}

// check asks the guardrails about the message.
func (a *attempt) check(message string) error {
	a.beginStep(run.StepGuardrail, nil)
	seq := a.step
	v, err := a.e.Gate.BeforeInput(a.ctx, subject(a.rec, a.spec), message)
	if err != nil {
		return err
	}
	a.judged(v)
	out := run.GuardrailOutput{Checks: v.Checks, Violations: v.Violations, Changed: v.Changed, Text: v.Text}
	step := &run.Step{
		Seq: seq, Type: run.StepGuardrail, Status: run.StepCompleted,
		Input: schema.Nullable(encode(struct {
			Stage policy.Stage `json:"stage"`
		}{policy.Input})),
		Output: schema.Nullable(encode(out)),
	}
	if v.Refused {
		step.Status, step.Error = run.StepFailed, &v.Reason
		a.endStep(step, run.StepMetrics{})
		return a.fail(run.CodeGuardrailBlocked, v.Reason)
	}
	a.endStep(step, run.StepMetrics{})
	a.past.Checked = &out
	return a.commit(a.ctx, run.PauseAborts)
}

// judged counts a verdict and tells of what it found.
func (a *attempt) judged(v policy.Verdict) {
	a.rec.Metrics.GuardrailChecks += int64(v.Checks)
	a.rec.Metrics.GuardrailViolations += int64(len(v.Violations))
	for _, violation := range v.Violations {
		a.emit("guardrail.violated", violation)
		if tell := a.e.Violated; tell != nil {
			a.also = append(a.also, func(tx txn.Tx) error { return tell(tx, a.rec, violation) })
		}
	}
}

// recall has the agent remember.
func (a *attempt) recall(message string) error {
	a.beginStep(run.StepMemory, nil)
	seq := a.step
	found, err := a.e.Memory.Recall(a.ctx, run.MemoryQuery{
		TenantID: a.rec.TenantID, AgentID: a.rec.AgentID, RunID: a.rec.RunID, Text: message, Settings: []byte(a.spec.Memory),
	})
	if err != nil {
		return err
	}
	a.rec.Metrics.MemoryRetrievals += int64(len(found.Entries))
	a.emit("memory.retrieved", struct {
		Entries []run.RecalledEntry `json:"entries"`
	}{found.Entries})
	a.endStep(&run.Step{
		Seq: seq, Type: run.StepMemory, Status: run.StepCompleted, Output: schema.Nullable(encode(found)),
	}, run.StepMetrics{})
	a.past.Recalled = &found.Text
	return a.commit(a.ctx, run.PauseAborts)
}

// earlier gives the turns before the run: of the run that it goes on from, of
// the responses before it, or of its session.
func (a *attempt) earlier() ([]model.Message, error) {
	if id := a.rec.Options.Continues; id != "" && a.rec.SessionID == nil {
		return a.e.conversation(a.ctx, a.rec.TenantID, id, 0)
	}
	if a.rec.Options.Follows != "" && a.e.Responses != nil {
		return a.e.Responses.Before(a.ctx, a.rec)
	}
	if a.rec.SessionID != nil && a.e.Conversations != nil {
		return a.e.Conversations.Before(a.ctx, a.rec)
	}
	return nil, nil
}

// maxContinued bounds how many runs a run goes on from, one after the other.
const maxContinued = 50

// conversation gives the whole conversation of a run that ended.
func (e *Engine) conversation(ctx context.Context, tenant, id string, depth int) ([]model.Message, error) {
	r, err := e.Runs.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	var earlier []model.Message
	if r.Options.Follows != "" && e.Responses != nil {
		if earlier, err = e.Responses.Before(ctx, r); err != nil {
			return nil, err
		}
	}
	if before := r.Options.Continues; before != "" && depth < maxContinued {
		if earlier, err = e.conversation(ctx, tenant, before, depth+1); err != nil {
			return nil, err
		}
	}
	steps, err := e.Runs.ListSteps(ctx, tenant, id, 0, 0)
	if err != nil {
		return nil, err
	}
	return run.ConversationAfter(earlier, r, steps)
}
