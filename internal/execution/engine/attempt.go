package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/tool"
	"agentd/internal/kernel/work"
)

// attempt is one worker's hold of one run. Its fields belong to the run's
// goroutine, text and lost apart.
type attempt struct {
	e     *Engine
	rec   *run.Record // as of the commit that is being made
	spec  *run.AgentSpec
	tools tool.Set
	lease work.Lease
	emitter
	was   run.Status // as of the last commit
	text  *steptext
	early *earlyCall // the first model call, where it began already

	ctx  context.Context
	lost context.Context // what the runner gave: a.ctx, or what it was made from

	around
	reading
	began       time.Time // of this attempt
	before      float64   // milliseconds that earlier attempts ran
	step        int64     // seq of the last step that was begun
	committed   int64     // the same, as of the last commit
	messages    []model.Message
	past        *run.Transcript          // what the journal has of this run; its last turn is the one whose calls are made
	approvals   map[string]*run.Approval // by tool_call_id
	repeats     tool.Repeats
	closing     bool            // a limit was hit: one last answer, without tools
	interrupted map[string]bool // calls that were under way when the last worker died, by tool_call_id
	spent       run.StepMetrics // by the model call whose step has not ended
	steps       []*run.Step     // of the commit that is being made
	asked       []*run.Approval // the same
	also        []txn.Op        // the same
	used        []quota.Use     // the same
}

func (e *Engine) newAttempt(r *run.Record, spec *run.AgentSpec) *attempt {
	own := *r
	a := &attempt{e: e, rec: &own, spec: spec, began: e.Clock.Now(), text: newSteptext(), approvals: map[string]*run.Approval{}}
	if spec != nil {
		a.tools, _ = e.Tools.Select(spec.Tools) // unknown names were refused when the agent was written
		if e.Images != nil && !absent(spec.ImageGeneration) {
			a.tools = a.tools.Join(e.Images.Set([]byte(spec.ImageGeneration)))
		}
	}
	a.seq, a.stored, a.was = own.EventSeq, own.EventSeq, own.Status
	a.step, a.committed, a.before = own.StepSeq, own.StepSeq, own.Metrics.DurationMS
	return a
}

// insert stores a new run together with how it goes on.
func (a *attempt) insert(ctx context.Context, enqueue func(txn.Tx) error) error {
	a.rec.StepSeq, a.rec.EventSeq = a.step, a.seq
	ops := []txn.Op{a.e.Runs.Create(a.rec), enqueue, a.log()}
	if limit := a.rec.ResourceLimits.MaxCostUSD; limit != nil {
		ops = append(ops, a.e.Runs.CreateBudget(a.rec.TenantID, a.rec.RunID, run.NanoUSD(*limit)))
	}
	a.used = append(a.used, quota.Use{Runs: 1})
	err := a.e.write(ctx, a.counting(ops)...)
	if err == nil {
		a.used, a.was, a.committed = nil, a.rec.Status, a.step
		a.publish()
	}
	return err
}

// takeOver makes this worker the run's: a queued run starts, one whose worker
// died resumes with what the journal has.
func (a *attempt) takeOver(ctx context.Context) error {
	last := int64(0)
	err := a.e.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		if err = a.e.Queue.HoldTx(tx, a.lease, a.e.Lease); err != nil {
			return err
		}
		last, err = a.e.Runs.GetLastSeqTx(tx, a.rec.TenantID, a.rec.RunID)
		return err
	})
	if err != nil {
		return err
	}
	a.seq, a.stored = last, last
	if a.rec.Status == run.Queued {
		a.rec.Status, a.rec.StartedAt = run.Running, &a.began
		a.emit("run.started", startedData{Status: run.Running, Attempt: 1})
		if a.spec != nil && a.atOnce(ctx) {
			a.beginStep(run.StepLLM, nil)
		}
		return a.commit(ctx, run.PauseKept)
	}
	if a.rec.Wait.Woken { // whoever woke it told so
		a.rec.Wait.Woken = false
		if err := a.replay(ctx); err != nil {
			return err
		}
		return a.commit(ctx, run.PauseKept)
	}
	if a.e.Observer.Recover != nil {
		a.e.Observer.Recover()
	}
	a.seq += run.SeqJump
	a.stored = a.seq
	a.drafts = true // what the dead worker's step said before it died
	if err := a.replay(ctx); err != nil {
		return err
	}
	a.emit("run.resumed", startedData{Status: run.Running, Attempt: a.lease.Attempt})
	return a.commit(ctx, run.PauseKept)
}

// beginStep notes that a step begins with the commit that is being made.
func (a *attempt) beginStep(kind run.StepType, in *run.ToolInput) {
	a.step++
	a.rec.Pending = append(a.rec.Pending, run.PendingStep{StepID: ident.New(), Seq: a.step, Type: kind, StartedAt: a.e.Clock.Now(), Tool: in})
	a.emit("step.started", stepStartedData{StepSeq: a.step, Type: kind})
}

// endStep adds a step's result to the commit that is being made.
func (a *attempt) endStep(s *run.Step, m run.StepMetrics) {
	for i, p := range a.rec.Pending {
		if p.Seq == s.Seq {
			a.settleBudget(p, m)
			s.StepID, s.StartedAt = p.StepID, p.StartedAt
			a.rec.Pending = append(a.rec.Pending[:i:i], a.rec.Pending[i+1:]...)
			break
		}
	}
	now := a.e.Clock.Now()
	s.RunID, s.TenantID, s.CompletedAt = a.rec.RunID, a.rec.TenantID, &now
	s.DurationMS = milliseconds(now.Sub(s.StartedAt))
	s.StepIndex, s.Metrics = s.Seq-1, schema.Nullable(encode(m))
	a.steps, a.spent = append(a.steps, s), run.StepMetrics{}
	a.rec.Metrics.StepsCount++
	a.emitOf("step.completed", run.StepCompletedOf(s), s.Seq)
}

// end moves the run to a final state in the commit that is being made.
func (a *attempt) end(status run.Status, code, sentence string) {
	now := a.e.Clock.Now()
	a.rec.Status, a.rec.CompletedAt, a.rec.Pending = status, &now, nil
	a.rec.Wait = run.Wait{Approvals: a.rec.Wait.Approvals}
	if code != "" {
		a.rec.Error, a.rec.ErrorCode = &sentence, code
	}
	a.rec.Metrics.DurationMS = a.ran()
	a.emit(status.EventName(), endData{Status: status, Error: a.rec.Error, ErrorCode: code})
}

// fail ends the run as failed, or as what code means. Steps that were begun
// end as failed, with what the model said so far.
func (a *attempt) fail(code, sentence string) error {
	status := run.Failed
	switch code {
	case run.CodeMaxDuration:
		status = run.TimedOut
	case run.CodeGuardrailBlocked:
		status = run.GuardrailBlocked
	}
	said := a.sealText()
	for _, p := range slices.Clone(a.rec.Pending) {
		var m run.StepMetrics
		s := &run.Step{Seq: p.Seq, Type: p.Type, Status: run.StepFailed, Error: &sentence}
		switch {
		case p.Tool != nil:
			s.Input = schema.Nullable(encode(p.Tool))
		case p.Type == run.StepCompaction:
		default:
			s.Input = a.llmInput()
			s.Output = schema.Nullable(encode(run.LLMOutput{Text: said.text, Thinking: said.thinking, FinishReason: "error"}))
			m = a.spent
		}
		a.endStep(s, m)
	}
	a.end(status, code, sentence)
	return a.commit(context.WithoutCancel(a.ctx), run.PauseCleared)
}

// sealText moves the text of the step that ran to the commit that is being
// made, ahead of the step's own events, and gives it.
func (a *attempt) sealText() said {
	entries, s := a.text.seal()
	a.entries = append(a.entries, entries...)
	a.drafts = a.drafts || s.drafts
	return s
}

// commitTries bounds how long a worker that has a result waits for a database
// that cannot take it. The result is lost after that; the run is not.
const commitTries = 8

// commit makes true what the attempt collected: steps, events, the run's row,
// and that the lease goes on or, where the run ended or waits, that the worker
// is free. Where a pause was asked for and pause says that it stops the
// commit, what was collected is kept and the run is paused instead.
func (a *attempt) commit(ctx context.Context, pause run.PauseMode) error {
	a.rec.StepSeq, a.rec.EventSeq = a.step, a.seq
	a.rec.Metrics.DurationMS = a.ran()
	ops := a.ops(pause)
	wait := 50 * time.Millisecond
	for try := 1; ; try++ {
		err := a.e.write(ctx, ops...)
		if err == nil {
			break
		}
		if errors.Is(err, run.ErrPausing) {
			return a.pause(ctx)
		}
		if try == commitTries || !fault.Is(err, fault.Unavailable) {
			return err
		}
		a.e.Logger.Warn("a step's result waits for the database", "run", a.rec.RunID, "try", try, "err", err)
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(wait):
		}
		wait = min(2*wait, 2*time.Second)
	}
	a.steps, a.asked, a.also, a.used, a.drafts, a.committed, a.was = nil, nil, nil, nil, false, a.step, a.rec.Status
	final := a.rec.Status.Final()
	if final {
		ended := a.rec.Run
		a.live[len(a.live)-1].Result = &ended
	}
	a.publish()
	if final && a.e.Observer.RunEnded != nil {
		a.e.Observer.RunEnded(a.rec.Status, a.rec.CompletedAt.Sub(a.rec.CreatedAt))
	}
	return nil
}

// ops is what a commit writes, the lease first: without it nothing counts.
func (a *attempt) ops(pause run.PauseMode) []txn.Op {
	tenant, id := a.rec.TenantID, a.rec.RunID
	ops := []txn.Op{a.keepOrFree}
	for _, s := range a.steps {
		ops = append(ops, a.e.Runs.AppendStep(s))
	}
	for _, ask := range a.asked {
		ops = append(ops, a.e.Runs.CreateApproval(ask))
	}
	ops = append(ops, a.also...)
	if a.drafts {
		ops = append(ops, func(tx txn.Tx) error { return a.e.Log.DeleteDraftsTx(tx, tenant, id, a.step) })
	}
	if len(a.entries) > 0 {
		ops = append(ops, a.log())
	}
	u := run.UpdateOf(a.rec)
	u.Pause = pause
	ops = append(ops, a.e.Runs.Update(tenant, id, u))
	if a.rec.Status != a.was {
		ops = append(ops, func(tx txn.Tx) error { return a.e.Watchers.OnRunState(tx, a.rec) })
	}
	return a.counting(ops)
}

// keepOrFree proves the lease and lets go of the work where the run ended, or
// waits for somebody.
func (a *attempt) keepOrFree(tx txn.Tx) error {
	switch {
	case a.rec.Status == run.Running:
		return a.e.Queue.HoldTx(tx, a.lease, a.e.Lease)
	case a.rec.Wait.Until.IsZero(): // the end, or a pause that lasts until somebody resumes it
		return a.e.Queue.FinishTx(tx, a.lease)
	}
	return a.e.Queue.RescheduleTx(tx, a.lease, a.rec.Wait.Until, nil)
}

func (a *attempt) ran() float64 { return a.before + milliseconds(a.e.Clock.Now().Sub(a.began)) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
