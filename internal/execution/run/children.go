package run

import (
	"context"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// CancelWorkKind is the kind of work that cancels runs whose parent has ended; the
// key is the run's id.
const CancelWorkKind = "run.cancel"

// maxOrphans bounds the runs that are cancelled with their parent. A run starts
// far fewer at a time.
const maxOrphans = 1000

// wakeAtEnd sets what the end of a new run wakes.
func (s *Service) wakeAtEnd(r *Record, req Request) {
	r.Options.Wakes = nil // of the run that this one continues
	switch {
	case req.Parent != "" && req.ParentStep != "":
		r.Options.Wakes = &Wakes{s.WorkKind, req.Parent}
		r.Admit = s.ofUnfinished(req.Parent, r.Admit)
	case req.Wakes.Kind != "":
		r.Options.Wakes = &req.Wakes
	}
}

// ofUnfinished is the admission of a run that a step of another started. Either its
// parent's end sees it, and cancels it, or it sees that its parent has ended.
func (s *Service) ofUnfinished(parent string, then Admission) Admission {
	return func(tx txn.Tx, r *Record) (now bool, err error) {
		p, err := s.Runs.LockTx(tx, r.TenantID, parent)
		if err != nil {
			return false, err
		}
		if p.Status.Final() {
			return false, fault.New(fault.Conflict, "INVALID_STATE_TRANSITION", "The run that starts this one has ended: it is %s.", p.Status)
		}
		if then != nil {
			return then(tx, r)
		}
		return true, nil
	}
}

// OnRunState wakes what waits for a run that has ended, and has the runs cancelled
// that its steps started and that nothing waits for any more. It is a Watcher.
func (s *Service) OnRunState(tx txn.Tx, r *Record) error {
	if !r.Status.Final() {
		return nil
	}
	now := s.Clock.Now()
	if w := r.Options.Wakes; w != nil {
		if err := s.Queue.EnqueueTx(tx, work.Item{Kind: w.Kind, Key: w.Key, TenantID: r.TenantID, Due: now}); err != nil {
			return err
		}
	}
	if r.Status == Completed || r.Status == Rejected { // all its calls have results, or none was made
		return nil
	}
	orphans, err := s.Runs.ListUnfinishedChildrenTx(tx, r.TenantID, r.RunID, maxOrphans)
	if err != nil || len(orphans) == 0 {
		return err
	}
	items := make([]work.Item, len(orphans))
	for i, id := range orphans {
		items[i] = work.Item{Kind: CancelWorkKind, Key: id, TenantID: r.TenantID, Due: now}
	}
	return s.Queue.EnqueueTx(tx, items...)
}

// HandleCancel is the handler of CancelWorkKind.
func (s *Service) HandleCancel(ctx context.Context, lease work.Lease) error {
	if _, err := s.Cancel(ctx, lease.TenantID, lease.Key); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, lease) })
}
