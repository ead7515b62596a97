package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/work"
)

// journal is what an attempt knows of the run's stored state, and what its next
// commit adds to it. Every write of a run that is being driven goes through
// it, under the attempt's lease. Its fields belong to the run's goroutine,
// except for text.
type journal struct {
	e      *Engine
	rec    *run.Record // as the next commit will store it
	lease  work.Lease
	holder context.Context // the runner's: ends when the lease is lost or the process stops

	began     time.Time // when this attempt began
	earlierMS float64   // running time of earlier attempts
	waited    bool      // the attempt began when a wait for a model was over

	nextStepID    string          // id of the next step; "": a new one
	step          int64           // seq of the last step that was begun
	committedStep int64           // the same, as of the last commit
	committed     run.Status      // the run's status as of the last commit
	overhead      int64           // steps that only shortened the conversation; max_steps does not count them
	unended       run.StepMetrics // of the model call whose step has not ended
	unusable      run.StepMetrics // of its calls whose answers are not used
	costUnknown   bool            // others ended the run while a call was under way of which nothing had arrived
	text          *chunkBuffer
	redact        redaction
	events        eventBuffer
	next          additions
}

// additions are the rows that the next commit writes beside the run and its
// events.
type additions struct {
	steps     []*run.Step
	approvals []*run.Approval
	ops       []txn.Op
	uses      []quota.Use
}

func newJournal(e *Engine, r *run.Record) *journal {
	rec := *r
	return &journal{
		e: e, rec: &rec, began: e.Clock.Now(), earlierMS: rec.Metrics.DurationMS,
		step: rec.StepSeq, committedStep: rec.StepSeq, committed: rec.Status,
		text: newChunkBuffer(), redact: newRedaction(e.Redaction.Of(r.TenantID)), events: eventBuffer{seq: rec.EventSeq, stored: rec.EventSeq},
	}
}

// insert stores a new run; enqueue adds its work item in the same transaction.
func (j *journal) insert(ctx context.Context, enqueue func(txn.Tx) error) error {
	j.rec.StepSeq, j.rec.EventSeq = j.step, j.events.seq
	ops := []txn.Op{j.e.Runs.Create(j.rec), enqueue, j.appendEvents()}
	if limit := j.rec.ResourceLimits.MaxCostUSD; limit != nil {
		ops = append(ops, j.e.Runs.CreateBudget(j.rec.TenantID, j.rec.RunID, run.NanoUSD(*limit)))
	}
	j.next.uses = append(j.next.uses, quota.Use{Runs: 1})
	err := j.e.write(ctx, j.withUsage(ops)...)
	if err == nil {
		j.committedNow()
		j.publish()
	}
	return err
}

// catchUp proves the lease and reads how far the run's event log has come.
func (j *journal) catchUp(ctx context.Context) error {
	last := int64(0)
	err := j.e.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		if err = j.e.Queue.HoldTx(tx, j.lease, j.e.Lease); err != nil {
			return err
		}
		last, err = j.e.Runs.GetLastSeqTx(tx, j.rec.TenantID, j.rec.RunID)
		return err
	})
	if err == nil {
		j.events.seq, j.events.stored = last, last
	}
	return err
}

// skipUnstoredSeqs leaves out the seqs that a dead worker may have published
// without storing them. The next commit replaces the drafts of its last step.
func (j *journal) skipUnstoredSeqs() {
	j.events.seq += run.SeqJump
	j.events.stored = j.events.seq
	j.events.replacesDrafts = true
}

// origin identifies a step of this run as the source of a message.
func (j *journal) origin(step int64) model.Origin {
	return model.Origin{RunID: j.rec.RunID, StepSeq: step}
}

// pending reports whether a step of a type was begun and has no result.
func (j *journal) pending(kind run.StepType) bool {
	return slices.ContainsFunc(j.rec.Pending, func(p run.PendingStep) bool { return p.Type == kind })
}

// callsUnderWay reports whether a tool call was begun that may have been made.
func (j *journal) callsUnderWay() bool {
	return slices.ContainsFunc(j.rec.Pending, func(p run.PendingStep) bool { return p.Tool != nil && !p.Held })
}

// holdBegun marks the tool calls that the next commit begins as not made.
func (j *journal) holdBegun() {
	for i := range j.rec.Pending {
		if p := &j.rec.Pending[i]; p.Seq > j.committedStep && p.Tool != nil {
			p.Held = true
		}
	}
}

// newest returns the step that was begun last. There must be one.
func (j *journal) newest() *run.PendingStep { return &j.rec.Pending[len(j.rec.Pending)-1] }

// pendingTools returns the tool calls that were begun and have no result.
func (j *journal) pendingTools() (calls []run.PendingStep) {
	for _, p := range j.rec.Pending {
		if p.Tool != nil {
			calls = append(calls, p)
		}
	}
	return calls
}

// hold marks a tool call that was begun as not made.
func (j *journal) hold(seq int64) {
	for i := range j.rec.Pending {
		if j.rec.Pending[i].Seq == seq {
			j.rec.Pending[i].Held = true
		}
	}
}

// beginStep adds the begin of a step to the next commit.
func (j *journal) beginStep(kind run.StepType, in *run.ToolInput) {
	j.step++
	j.rec.Pending = append(j.rec.Pending, run.PendingStep{
		StepID: cmp.Or(j.nextStepID, ident.New()), Seq: j.step, Type: kind, StartedAt: j.e.Clock.Now(), Tool: in,
	})
	j.nextStepID = ""
	j.emitStarted(j.newest())
}

// endStep adds a step's result to the next commit.
func (j *journal) endStep(s *run.Step, m run.StepMetrics) {
	for i, p := range j.rec.Pending {
		if p.Seq == s.Seq {
			j.settleBudget(p, m)
			s.StepID, s.StartedAt, s.Attempts = p.StepID, p.StartedAt, p.Attempts
			j.rec.Pending = append(j.rec.Pending[:i:i], j.rec.Pending[i+1:]...)
			break
		}
	}
	now := j.e.Clock.Now()
	s.RunID, s.TenantID, s.CompletedAt = j.rec.RunID, j.rec.TenantID, &now
	s.DurationMS = milliseconds(now.Sub(s.StartedAt))
	s.StepIndex, s.Metrics = s.Seq-1, schema.Nullable(encode(m))
	j.next.steps, j.unended = append(j.next.steps, s), run.StepMetrics{}
	j.rec.Metrics.StepsCount++
	j.emitOfStep("step.completed", run.StepCompletedOf(s), s.Seq)
}

// end adds the run's move to a final state to the next commit.
func (j *journal) end(status run.Status, code, sentence string) {
	now := j.e.Clock.Now()
	sentence = j.redact.by.Text(sentence)
	j.rec.Output = run.RedactOutput(j.redact.by, j.rec.Output)
	j.rec.Status, j.rec.CompletedAt, j.rec.Pending = status, &now, nil
	j.rec.Wait = run.Wait{Approvals: j.rec.Wait.Approvals}
	if code != "" {
		j.rec.Error, j.rec.ErrorCode = &sentence, code
	}
	j.rec.Metrics.DurationMS = j.runningMS()
	if j.rec.Options.Outcome != nil {
		j.rec.Show()
	}
	j.emit(status.EventName(), endData{Status: status, Error: j.rec.Error, ErrorCode: code})
}

// sealText moves the text of the running step to the next commit, ahead of
// the step's own events, and returns it.
func (j *journal) sealText() sealedText {
	for _, name := range []string{thinkingChunk, textChunk} {
		publishChunk(j, name, j.redact.of(name).End())
	}
	entries, s := j.text.seal()
	j.events.entries = append(j.events.entries, entries...)
	j.events.replacesDrafts = j.events.replacesDrafts || s.drafts
	return s
}

// commit stores what the attempt collected: steps, events and the run's row.
// It extends the lease, or releases the work item where the run ended or
// waits. With run.PauseAborts, a pause that was requested since the last commit
// pauses the run instead; what was collected is stored with that. On a node that
// drains, the tool calls that it begins are left to the next node.
func (j *journal) commit(ctx context.Context, pause run.PauseMode) error {
	if pause == run.PauseAborts && work.IsDraining(ctx) {
		j.holdBegun()
	}
	j.rec.StepSeq, j.rec.EventSeq = j.step, j.events.seq
	j.rec.Metrics.DurationMS = j.runningMS()
	err := j.e.backlog.write(ctx, j, j.ops(pause))
	if errors.Is(err, run.ErrPausing) {
		return j.pause(ctx)
	}
	if err != nil {
		return err
	}
	j.committedNow()
	j.events.replacesDrafts = false
	final := j.rec.Status.Final()
	if final {
		ended := j.rec.Run
		j.events.live[len(j.events.live)-1].Result = &ended
	}
	j.publish()
	if final && j.e.Observer.RunEnded != nil {
		j.e.Observer.RunEnded(j.rec.Status, j.rec.CompletedAt.Sub(j.rec.CreatedAt))
	}
	return nil
}

// answer returns the newest step of a model, nil if there is none.
func (a *additions) answer() *run.Step {
	for _, s := range slices.Backward(a.steps) {
		if s.Type == run.StepLLM {
			return s
		}
	}
	return nil
}

// committedNow notes that the collected additions are stored.
func (j *journal) committedNow() {
	j.next, j.committedStep, j.committed = additions{}, j.step, j.rec.Status
}

// ops returns the writes of a commit. The lease comes first: the transaction
// fails with it.
func (j *journal) ops(pause run.PauseMode) []txn.Op {
	tenant, id := j.rec.TenantID, j.rec.RunID
	ops := []txn.Op{j.holdOrRelease}
	for _, s := range j.next.steps {
		ops = append(ops, j.e.Runs.AppendStep(s))
	}
	for _, approval := range j.next.approvals {
		ops = append(ops, j.e.Runs.CreateApproval(approval))
	}
	ops = append(ops, j.next.ops...)
	if j.events.replacesDrafts {
		ops = append(ops, func(tx txn.Tx) error { return j.e.Log.DeleteDraftsTx(tx, tenant, id, j.step) })
	}
	if len(j.events.entries) > 0 {
		ops = append(ops, j.appendEvents())
	}
	u := run.UpdateOf(j.rec)
	u.Pause, u.Answer = pause, j.next.answer()
	ops = append(ops, j.e.Runs.Update(tenant, id, u))
	if j.rec.Status != j.committed {
		ops = append(ops, func(tx txn.Tx) error { return j.e.Watchers.OnRunState(tx, j.rec) })
	}
	return j.withUsage(ops)
}

// holdOrRelease proves the lease. It finishes the work item where the run
// ended or was paused by hand, and reschedules it where a wait can end by itself.
func (j *journal) holdOrRelease(tx txn.Tx) error {
	switch {
	case j.rec.Wait.For != "":
		return j.e.Queue.RescheduleTx(tx, j.lease, j.rec.Wait.Next, nil)
	case j.rec.Status == run.Running:
		return j.e.Queue.HoldTx(tx, j.lease, j.e.Lease)
	case j.rec.Wait.Until.IsZero():
		return j.e.Queue.FinishTx(tx, j.lease)
	}
	return j.e.Queue.RescheduleTx(tx, j.lease, j.rec.Wait.Until, nil)
}

// recordVerdict counts what guardrails found in a step and reports their
// violations.
func (j *journal) recordVerdict(step run.StepRef, v policy.Verdict) {
	j.rec.Metrics.GuardrailChecks += int64(v.Checks)
	j.rec.Metrics.GuardrailViolations += int64(len(v.Violations))
	for _, violation := range v.Violations {
		j.emit("guardrail.violated", violationData{step, violation})
		if onViolation := j.e.Violated; onViolation != nil {
			j.next.ops = append(j.next.ops, func(tx txn.Tx) error { return onViolation(tx, j.rec, violation) })
		}
	}
}

// runningMS is the run's running time so far, over all attempts.
func (j *journal) runningMS() float64 {
	return j.earlierMS + milliseconds(j.e.Clock.Now().Sub(j.began))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
