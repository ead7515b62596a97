package engine

import (
	"context"
	"slices"
	"time"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/work"
)

// attempt is one worker's holding of one run: the loop that takes the run from
// its last commit to its end. What it stores goes through the journal, what the
// model reads is the conversation, and what the model asked for is the turn.
// All of it belongs to the run's goroutine, except lost.
type attempt struct {
	e     *Engine
	spec  *run.AgentSpec // nil: the agent was deleted, or this attempt only stores the run
	facts facts

	journal      *journal
	conversation *conversation
	turn         *turn
	speculative  *speculativeCall // the first model call, where it began already
	trial        *trial           // where a step of the run may have killed its last process

	asked     *string     // the message, where guardrails changed it; nil: they did not
	brokenOff *callResult // the last model call, where it failed

	ctx  context.Context         // ends with the run's time, and when others end the run
	lost context.Context         // the runner's: ctx, or its parent
	end  context.CancelCauseFunc // ends ctx; set before others can find the attempt
}

func (e *Engine) newAttempt(r *run.Record, spec *run.AgentSpec, f facts) *attempt {
	j := newJournal(e, r)
	c := newConversation(j, spec, f)
	return &attempt{e: e, spec: spec, facts: f, journal: j, conversation: c, turn: newTurn(c, f)}
}

// hold makes the attempt the holder of a lease until ctx ends.
func (a *attempt) hold(ctx context.Context, lease work.Lease) {
	a.ctx, a.journal.lease, a.journal.holder = ctx, lease, ctx
}

// takeOver makes this worker the run's: a queued run starts, one that was woken
// continues, and one whose worker died resumes from its journal.
func (a *attempt) takeOver(ctx context.Context) error {
	j := a.journal
	if err := j.catchUp(ctx); err != nil {
		return err
	}
	if j.rec.Status == run.Queued {
		j.rec.Status, j.rec.StartedAt = run.Running, &j.began
		j.emit("run.started", startedData{Status: run.Running, Attempt: 1})
		if a.spec != nil && a.canCallAtOnce(ctx) {
			j.beginStep(run.StepLLM, nil)
		}
		return j.commit(ctx, run.PauseKept)
	}
	if j.rec.Wait.For != "" { // the step is tried again
		if err := a.beginTrial(ctx); err != nil {
			return err
		}
		a.endWait()
		if err := a.turn.replay(ctx); err != nil {
			return err
		}
		return j.commit(ctx, run.PauseKept)
	}
	if j.rec.Wait.Woken { // run.resumed was stored by whoever woke it
		j.rec.Wait.Woken = false
		if err := a.turn.replay(ctx); err != nil {
			return err
		}
		return j.commit(ctx, run.PauseKept)
	}
	if a.e.Observer.Recover != nil {
		a.e.Observer.Recover()
	}
	j.skipUnstoredSeqs()
	wait := time.Duration(0)
	if j.rec.Wait.Released {
		j.rec.Wait.Released = false
	} else {
		wait = a.countDeaths()
	}
	if wait == 0 {
		if err := a.beginTrial(ctx); err != nil {
			return err
		}
	}
	if err := a.turn.replay(ctx); err != nil {
		return err
	}
	j.emit("run.resumed", startedData{Status: run.Running, Attempt: j.lease.Attempt})
	if j.pending(run.StepLLM) && !a.conversation.buffered { // the worker may have published text of it
		j.emit("step.draft_void", run.DraftVoidData{StepRef: j.newest().Ref()})
	}
	if wait > 0 {
		return a.waitAfterDeath(ctx, wait)
	}
	return j.commit(ctx, run.PauseKept)
}

// fail ends the run as failed, or as the status that code stands for. Steps
// that were begun end as failed, with the model's text so far.
func (a *attempt) fail(code, sentence string) error {
	status := run.Failed
	switch code {
	case run.CodeCancelled:
		status = run.Cancelled
	case run.CodeMaxDuration:
		status = run.TimedOut
	case run.CodeGuardrailBlocked:
		status = run.GuardrailBlocked
	case run.CodeAgentDeleted:
		if a.journal.waited {
			status = run.Cancelled
		}
	}
	verdicts{a}.keepAnswer()
	text, reason := a.journal.sealText(), "error"
	if status == run.Cancelled {
		reason = run.FinishCancelled
		if text.text != "" && len(a.journal.rec.Output) == 0 {
			a.journal.rec.Output = schema.Nullable(encode(run.Output{Text: text.text, FinishReason: reason, Sources: a.conversation.sources}))
		}
	}
	for _, p := range slices.Clone(a.journal.rec.Pending) {
		var m run.StepMetrics
		s := &run.Step{Seq: p.Seq, Type: p.Type, Status: run.StepFailed, Error: &sentence}
		switch {
		case p.Tool != nil:
			s.Input = schema.Nullable(encode(p.Tool))
		case p.Type == run.StepCompaction:
		case p.Type == run.StepJudge:
			s.Input, m = schema.Nullable(encode(p.Judge)), a.journal.unended
		default:
			s.Input = a.conversation.stepInput()
			s.Output = schema.Nullable(encode(run.LLMOutput{Text: text.text, Thinking: text.thinking, FinishReason: reason}))
			m = sum(a.journal.unended, a.countBrokenOff(text))
		}
		a.journal.endStep(s, m)
	}
	a.journal.end(status, code, sentence)
	return a.journal.commit(context.WithoutCancel(a.ctx), run.PauseCleared)
}
