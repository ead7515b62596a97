package engine

import (
	"context"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
)

// facts are what is found out about a run before it begins, beside its agent.
type facts struct {
	watch   policy.Watch
	remote  bool // the agent has remote tools
	recalls bool // the agent recalls memories at the start
}

// probe finds out the facts of a run. It is quick.
func (e *Engine) probe(ctx context.Context, r *run.Record, spec *run.AgentSpec) (f facts, err error) {
	if f.watch, err = e.Gate.Watches(ctx, subject(r, spec)); err != nil {
		return f, err
	}
	if e.Remote != nil {
		if f.remote, err = e.Remote.Any(ctx, r.TenantID, r.AgentID, spec.MCP); err != nil {
			return f, err
		}
	}
	f.recalls = e.Memory != nil && e.Memory.Wants([]byte(spec.Memory))
	return f, nil
}

// canCallAtOnce reports whether the first model call needs nothing that is yet
// to be found out. Then the run begins with it, even while it is being stored.
func (a *attempt) canCallAtOnce(ctx context.Context) bool {
	rec := a.journal.rec
	return !onMachine(a) && !a.facts.watch.Input && !a.facts.remote && !a.facts.recalls &&
		rec.Options.ForkOf == "" && rec.Options.Inherits == "" && rec.Options.Continues == "" && rec.Options.Follows == "" &&
		rec.SessionID == nil &&
		len(rec.Options.Budgets) == 0 && !a.conversation.mayStartTooLong(ctx)
}

// prepare builds the conversation: remote tools, the check of the message, what
// the agent remembers, the earlier turns, and what the journal has of this run.
// What costs something is done once and is in the journal from then on.
func (a *attempt) prepare() error {
	c, t := a.conversation, a.turn
	if c.messages != nil { // the first call began already
		return nil
	}
	rec := a.journal.rec
	if (rec.Options.Inherits != "" || rec.Options.ForkOf != "") && !t.replayed {
		if err := t.replay(a.ctx); err != nil {
			return err
		}
	}
	if a.facts.remote && !onMachine(a) {
		set, err := a.e.Remote.Tools(a.ctx, rec.TenantID, rec.AgentID, a.spec.MCP)
		if err != nil {
			return err
		}
		c.tools = c.tools.Join(c.allowed(set))
	}
	in := rec.ParsedInput()
	if a.facts.watch.Input && t.transcript.Checked == nil {
		if err := a.checkInput(in.Message); err != nil || rec.Status != run.Running {
			return err
		}
	}
	if checked := t.transcript.Checked; checked != nil && checked.Changed {
		changed := *in
		changed.Message = checked.Text
		in, a.asked = &changed, &checked.Text
	}
	if a.facts.recalls && t.transcript.Recalled == nil {
		if err := a.recall(in.Message); err != nil || rec.Status != run.Running {
			return err
		}
	}
	earlier, err := a.earlierTurns()
	if err != nil {
		return err
	}
	c.messages = t.transcript.After(c.opening(in, t.transcript.Recalled, earlier))
	c.sources = model.JoinSources(c.sources, t.transcript.Sources(rec), model.SourcesOf(c.messages), t.transcript.SourcesOfResults())
	c.citations = t.transcript.Citations(rec.RunID, c.messages)
	a.journal.overhead = t.transcript.OverheadSteps
	t.transcript.Messages = nil
	return nil
}

// checkInput has the guardrails check the message.
func (a *attempt) checkInput(message string) error {
	j := a.journal
	j.beginStep(run.StepGuardrail, nil)
	seq := j.step
	v, err := a.e.Gate.BeforeInput(a.ctx, ofStep(subject(j.rec, a.spec), j.newest().Ref()), message)
	if err != nil {
		return err
	}
	j.recordVerdict(j.newest().Ref(), v)
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
		j.endStep(step, run.StepMetrics{})
		return a.fail(run.CodeGuardrailBlocked, v.Reason)
	}
	j.endStep(step, run.StepMetrics{})
	a.turn.transcript.Checked = &out
	return j.commit(a.ctx, run.PauseAborts)
}

// recall looks up what the agent remembers that fits the message.
func (a *attempt) recall(message string) error {
	j := a.journal
	j.beginStep(run.StepMemory, nil)
	seq := j.step
	found, err := a.e.Memory.Recall(a.ctx, run.MemoryQuery{
		TenantID: j.rec.TenantID, AgentID: j.rec.AgentID, RunID: j.rec.RunID, Text: message, Settings: []byte(a.spec.Memory),
	})
	if err != nil {
		return err
	}
	j.rec.Metrics.MemoryRetrievals += int64(len(found.Entries))
	j.emit("memory.retrieved", struct {
		run.StepRef
		Entries []run.RecalledEntry `json:"entries"`
	}{j.newest().Ref(), found.Entries})
	j.endStep(&run.Step{
		Seq: seq, Type: run.StepMemory, Status: run.StepCompleted, Output: schema.Nullable(encode(found)),
	}, run.StepMetrics{})
	a.turn.transcript.Recalled = &found.Text
	a.conversation.sources = model.JoinSources(a.conversation.sources, found.Sources)
	return j.commit(a.ctx, run.PauseAborts)
}

// earlierTurns returns the messages before the run: of the run that it
// continues, of the responses before it, or of its session.
func (a *attempt) earlierTurns() ([]model.Message, error) {
	rec := a.journal.rec
	for depth := 0; rec.Options.ForkOf != "" && depth < maxContinued; depth++ {
		of, err := a.e.Runs.Get(a.ctx, rec.TenantID, rec.Options.ForkOf)
		if fault.Is(err, fault.NotFound) { // deleted with its session
			break
		}
		if err != nil {
			return nil, err
		}
		rec = of
	}
	if id := rec.Options.Continues; id != "" && rec.SessionID == nil {
		return a.e.conversationOf(a.ctx, rec.TenantID, id, 0)
	}
	if rec.Options.Follows != "" && a.e.Responses != nil {
		return a.e.Responses.Before(a.ctx, rec, run.Reach{})
	}
	if rec.SessionID != nil && a.e.Conversations != nil {
		return a.e.Conversations.Before(a.ctx, rec, a.conversation.reach(a.ctx))
	}
	return nil, nil
}

// maxContinued bounds the length of a chain of runs that continue each other.
const maxContinued = 50

// conversationOf returns the whole conversation of a run that ended.
func (e *Engine) conversationOf(ctx context.Context, tenant, id string, depth int) ([]model.Message, error) {
	r, err := e.Runs.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	var earlier []model.Message
	if r.Options.Follows != "" && e.Responses != nil {
		if earlier, err = e.Responses.Before(ctx, r, run.Reach{}); err != nil {
			return nil, err
		}
	}
	if before := r.Options.Continues; before != "" && depth < maxContinued {
		if earlier, err = e.conversationOf(ctx, tenant, before, depth+1); err != nil {
			return nil, err
		}
	}
	steps, err := e.Runs.ListSteps(ctx, tenant, id, 0, 0)
	if err != nil {
		return nil, err
	}
	return run.ConversationAfter(earlier, r, steps)
}
