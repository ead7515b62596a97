package engine

import (
	"slices"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/tool"
)

// A tool call that starts a run does not hold the worker until that run has ended.
// The call is noted as waiting, and when nothing else of the turn is under way the
// run waits as a row. The commit with which the other run ends makes its work due
// (run.Options.Wakes). Whoever claims it makes the calls that wait again.

// countNew returns how many of the calls were not made before.
func countNew(calls []run.PendingStep) (n int) {
	for i := range calls {
		if calls[i].Awaits == nil {
			n++
		}
	}
	return n
}

// awaited reports whether a call that was begun has waited for a run.
func (t *turn) awaited(seq int64) bool {
	return slices.ContainsFunc(t.j.rec.Pending, func(p run.PendingStep) bool { return p.Seq == seq && p.Awaits != nil })
}

// recordAwait notes that a call waits for a run, with what was found when it was
// made. A call that was made is not suspected when a process dies meanwhile.
func (t *turn) recordAwait(o outcome) {
	if !t.awaited(o.step.StepSeq) {
		for _, v := range o.verdicts {
			t.j.recordVerdict(o.step, v)
		}
		t.j.recordRuling(t.spec, o.step, o.in.ToolCallID, o.ruling)
	}
	for i := range t.j.rec.Pending {
		if p := &t.j.rec.Pending[i]; p.Seq == o.step.StepSeq {
			p.Awaits, p.Rulings, p.Held = o.awaits, o.ruling.Findings, true
		}
	}
}

// awaitRuns makes the run wait until one of the runs that its calls wait for has
// ended, or one of the calls or the run is out of time. It holds no worker.
func (t *turn) awaitRuns(awaits []*tool.Await) {
	j, now := t.j, t.e.Clock.Now()
	next, ids := awaits[0].Until, make([]string, len(awaits))
	for i, one := range awaits {
		if ids[i] = one.RunID; one.Until.Before(next) {
			next = one.Until
		}
	}
	if limit := j.limits().MaxDurationMS; limit != nil { // it ends then
		left := time.Duration(float64(*limit)-j.runningMS()) * time.Millisecond
		if end := now.Add(max(0, left)); end.Before(next) {
			next = end
		}
	}
	j.rec.Wait = run.Wait{For: run.WaitsForRuns, Next: next, Since: now, Approvals: j.rec.Wait.Approvals}
	// Their ends found a worker that held the lease, and woke nothing. The lease of
	// this transaction is over, so that those that end from now on do.
	tenant, item := j.rec.TenantID, j.e.item(j.rec, now)
	j.next.ops = append(j.next.ops, func(tx txn.Tx) error {
		unfinished, err := j.e.Runs.CountUnfinishedTx(tx, tenant, ids)
		if err != nil || unfinished == len(ids) {
			return err
		}
		return j.e.Queue.EnqueueTx(tx, item)
	})
}
