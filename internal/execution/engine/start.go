package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/work"
)

// Start implements run.Starter. With a free slot on this node the run is
// stored as running and continues here at once, which costs one commit before
// the model is called; otherwise it is stored as queued for any node.
func (e *Engine) Start(ctx context.Context, r *run.Record, spec *run.AgentSpec) error {
	if e.Meter != nil {
		if err := e.Meter.AllowRun(ctx, r.TenantID); err != nil {
			return err
		}
	}
	verdict, err := e.Gate.BeforeRun(ctx, subject(r, spec))
	if err != nil {
		return err
	}
	var ruling policy.Ruling
	if !verdict.Refused {
		if verdict, ruling, err = e.checkStart(ctx, r, spec); err != nil {
			return err
		}
	}
	if verdict.Refused {
		return e.storeRejected(ctx, r, spec, verdict, ruling)
	}
	run.Redact(e.Redaction.Of(r.TenantID), r)
	f, err := e.probe(ctx, r, spec)
	if err != nil {
		return err
	}
	if slot, ok := e.runner.Reserve(); ok {
		if err := e.startHere(ctx, e.newAttempt(r, spec, f), slot, len(ruling.Findings) == 0); !errors.Is(err, errNotYet) {
			return err
		}
	}
	return e.storeQueued(ctx, r)
}

// startHere stores a run as running, with this node holding its lease, and
// gives it the slot. Where nothing more has to be found out first and no rule has found
// anything about the call, the model is called while the run is being stored. Errors:
// errNotYet; the slot is free again after any error.
func (e *Engine) startHere(ctx context.Context, a *attempt, slot work.Slot, unruled bool) error {
	j := a.journal
	j.rec.Status, j.rec.StartedAt = run.Running, &j.began
	j.emit("run.queued", statusData{Status: run.Queued})
	j.emit("run.started", startedData{Status: run.Running, Attempt: 1})
	if a.canCallAtOnce(ctx) {
		j.beginStep(run.StepLLM, nil)
		if unruled && !txn.HasRequestHook(ctx) { // a repeated request would call the model for nothing
			a.speculate()
		}
	}
	if err := e.storeHeld(ctx, j); err != nil {
		a.speculative.cancel(err)
		slot.Free()
		return err
	}
	e.attempts.prepare(a)
	slot.Adopt(j.lease)
	return nil
}

// errNotYet reports that a run's turn has not come; see run.Admission.
var errNotYet = errors.New("engine: the run's turn has not come")

// storeHeld stores a run with a work item whose lease this node holds.
func (e *Engine) storeHeld(ctx context.Context, j *journal) error {
	return j.insert(ctx, func(tx txn.Tx) (err error) {
		if now, err := admitted(tx, j.rec); err != nil || !now {
			return cmp.Or(err, errNotYet)
		}
		j.lease, err = e.Queue.EnqueueHeldTx(tx, e.item(j.rec, j.began), e.Node, e.Lease)
		return err
	})
}

// storeQueued stores a run for any node to drive. One whose turn has not come
// is stored without a work item; see run.Admission.
func (e *Engine) storeQueued(ctx context.Context, r *run.Record) error {
	j := newJournal(e, r)
	j.emit("run.queued", statusData{Status: run.Queued})
	return j.insert(ctx, func(tx txn.Tx) error {
		now, err := admitted(tx, j.rec)
		if err != nil || !now {
			return err
		}
		return e.Queue.EnqueueTx(tx, e.item(j.rec, j.began))
	})
}

// storeRejected stores a run that policy refuses.
func (e *Engine) storeRejected(ctx context.Context, r *run.Record, spec *run.AgentSpec, v policy.Verdict, ruling policy.Ruling) error {
	run.Redact(e.Redaction.Of(r.TenantID), r)
	j := newJournal(e, r)
	v.Reason = j.redact.by.Text(v.Reason)
	j.rec.Status, j.rec.CompletedAt = run.Rejected, &j.began
	j.rec.Error, j.rec.ErrorCode = &v.Reason, v.Code
	j.emit("run.queued", statusData{Status: run.Queued})
	j.emit(run.Rejected.EventName(), endData{Status: run.Rejected, Error: &v.Reason, ErrorCode: v.Code})
	err := j.insert(ctx, func(tx txn.Tx) error {
		if _, err := admitted(tx, j.rec); err != nil {
			return err
		}
		if len(ruling.Findings) > 0 {
			if err := e.Governor.RecordTx(tx, subject(j.rec, spec), ruling); err != nil {
				return err
			}
		}
		return e.Watchers.OnRunState(tx, j.rec)
	})
	if err == nil {
		r.Run = j.rec.Run
	}
	return err
}

func admitted(tx txn.Tx, r *run.Record) (now bool, err error) {
	if r.Admit == nil {
		return true, nil
	}
	return r.Admit(tx, r)
}

func (e *Engine) item(r *run.Record, due time.Time) work.Item {
	return work.Item{Kind: WorkKind, Key: r.RunID, TenantID: r.TenantID, Due: due}
}
