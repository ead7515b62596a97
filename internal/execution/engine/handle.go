package engine

import (
	"context"
	"errors"
	"fmt"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/work"
)

// Handle is the work handler for claimed runs: those that were queued or woken,
// and those whose worker died. It finishes or reschedules the item itself.
func (e *Engine) Handle(ctx context.Context, lease work.Lease) error {
	permit := e.limits.take(lease.Key)
	defer permit.Release()
	if a := e.attempts.take(lease); a != nil {
		return a.driveToEnd(ctx)
	}
	if suspended, err := e.suspended(ctx, lease); suspended || err != nil {
		return err
	}
	rec, err := e.claimed(ctx, lease)
	if err != nil || rec == nil {
		return err
	}
	spec, err := run.SpecOf(ctx, e.Agents, rec)
	deleted := fault.Is(err, fault.NotFound)
	if err != nil && !deleted {
		return err
	}
	var f facts
	if !deleted {
		if f, err = e.probe(ctx, rec, spec); err != nil {
			return err
		}
	}
	a := e.newAttempt(rec, spec, f)
	a.hold(ctx, lease)
	a.conversation.permit = permit
	defer func() { a.trial.end() }()
	if !deleted && isHandedOver(a) {
		return e.awaitMachine(ctx, lease)
	}
	if err := a.takeOver(ctx); err != nil {
		return err
	}
	switch {
	case a.journal.rec.Status != run.Running || a.journal.rec.Wait.For != "": // it waits before its model is called again
		return nil
	case lease.Attempt > maxAttempts:
		return a.fail(run.CodeInternalError, fmt.Sprintf("The run was taken up %d times and could not go on.", lease.Attempt-1))
	case deleted:
		return a.fail(run.CodeAgentDeleted, "The agent was deleted before the run could end.")
	}
	if a.killedModelCall() {
		return a.fail(run.CodeStepCrashed, "The program stopped each time that it called the model for this step, and does not call it again.")
	}
	return a.driveToEnd(ctx)
}

// driveToEnd drives the run. An error that is not the end of the process, or a
// panic, is noted with the run.
func (a *attempt) driveToEnd(ctx context.Context) error {
	err := a.drive(ctx)
	if err != nil && !errors.Is(err, work.ErrLost) {
		a.noteAlive(ctx)
	}
	return err
}

// claimed returns the run of a claimed item. It returns nil where there is
// nothing to drive: the run is deleted, has ended, or still waits.
func (e *Engine) claimed(ctx context.Context, lease work.Lease) (*run.Record, error) {
	rec, err := e.Runs.Get(ctx, lease.TenantID, lease.Key)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, e.finishItem(ctx, lease)
	case err != nil:
		return nil, err
	case rec.Status.Final():
		return nil, e.finishItem(ctx, lease)
	case !rec.Status.Waits():
		return rec, nil
	}
	if woken, err := e.checkWait(ctx, lease); err != nil || !woken {
		return nil, err
	}
	return e.Runs.Get(ctx, lease.TenantID, lease.Key)
}

// checkWait ends a waiting run that has waited too long, or reschedules its
// item. It reports whether the run was woken meanwhile.
func (e *Engine) checkWait(ctx context.Context, lease work.Lease) (woken bool, err error) {
	err = e.Writer.Write(ctx, func(tx txn.Tx) error {
		woken = false
		if err := e.Queue.HoldTx(tx, lease, e.Lease); err != nil {
			return err
		}
		if ended, err := e.service.Expire(tx, lease.TenantID, lease.Key, e.Clock.Now()); err != nil || ended {
			return err
		}
		r, err := e.Runs.LockTx(tx, lease.TenantID, lease.Key)
		switch {
		case err != nil:
			return err
		case !r.Status.Waits():
			woken = true
			return nil
		case r.Wait.Until.IsZero():
			return e.Queue.FinishTx(tx, lease)
		}
		return e.Queue.RescheduleTx(tx, lease, r.Wait.Until, nil)
	})
	return woken, err
}

// suspended reports whether an item belongs to a suspended tenant; see
// Config.Suspended.
func (e *Engine) suspended(ctx context.Context, lease work.Lease) (bool, error) {
	if e.Suspended == nil {
		return false, nil
	}
	return e.Suspended(ctx, lease)
}

// finishItem removes a work item that has nothing left to drive.
func (e *Engine) finishItem(ctx context.Context, lease work.Lease) error {
	return e.write(ctx, func(tx txn.Tx) error { return e.Queue.FinishTx(tx, lease) })
}
