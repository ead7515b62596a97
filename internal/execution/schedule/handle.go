package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/work"
)

var (
	// errChanged: the state is not the one that the handler has read.
	errChanged = errors.New("schedule: the state was changed meanwhile")
	// errBusy: too many runs have not ended.
	errBusy = errors.New("schedule: too many of its runs have not ended")
)

// maxRetries is how often a refusal is retried that may come from a view of the
// agent that is a moment old.
const maxRetries = 3

// firing is a due fire in the hands of a handler.
type firing struct {
	dueFire
	held  work.Lease
	set   *setup
	state *State // as it was read
	runID string
}

// Handle is the work.Handler of WorkKind: it starts the run of the fire that is
// due.
//
// The transaction that stores the run also advances the schedule and proves the
// lease, so that there is one run of each fire, whichever nodes die. Where the
// engine does not call Request.Admit, that is a second transaction; the run's
// id, which follows from the fire, then shows the next handler that the run
// exists.
func (s *Service) Handle(ctx context.Context, held work.Lease) error {
	for try := 0; ; try++ {
		err := s.handle(ctx, held)
		if !errors.Is(err, errChanged) || try == maxRetries {
			return err
		}
	}
}

func (s *Service) handle(ctx context.Context, held work.Lease) error {
	tenant, agentID := held.TenantID, held.Key
	g, err := s.Agents.Get(ctx, tenant, agentID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	set, err := setupOf(g)
	if err != nil {
		return err
	}
	st, err := s.Store.Get(ctx, tenant, agentID)
	if err != nil {
		return err
	}
	now := s.Clock.Now()
	if !set.exists() || !s.inSync(set, st) || st.NextRunAt.IsZero() || st.NextRunAt.After(now) {
		return s.syncHeld(ctx, held)
	}
	f := &firing{dueFire: set.config.due(set.cron, st.NextRunAt, now), held: held, set: set, state: st}
	f.runID = runID(tenant, agentID, f.at)
	if f.skip == "" {
		if f.skip, err = s.skipReason(ctx, f); err != nil {
			return err
		}
	}
	if f.skip != "" {
		return s.skip(ctx, f)
	}
	return s.start(ctx, f)
}

// syncHeld brings the state in line with the agent, and the held item with the
// state.
func (s *Service) syncHeld(ctx context.Context, held work.Lease) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		g, err := s.Agents.GetTx(tx, held.TenantID, held.Key)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		st, err := s.syncState(tx, held.TenantID, held.Key, g, false)
		if err != nil {
			return err
		}
		return s.reschedule(tx, held, st)
	})
}

// reschedule releases the held item until the state's next fire.
func (s *Service) reschedule(tx txn.Tx, held work.Lease, st *State) error {
	if st == nil || st.NextRunAt.IsZero() {
		return s.Queue.FinishTx(tx, held)
	}
	return s.Queue.RescheduleTx(tx, held, st.NextRunAt, nil)
}

// skipReason returns why a due fire starts no run; "": it does.
func (s *Service) skipReason(ctx context.Context, f *firing) (string, error) {
	if s.Suspended != nil {
		if suspended, err := s.Suspended(ctx, f.held.TenantID); suspended || err != nil {
			return SkipSuspended, err
		}
	}
	n, err := s.unfinished(ctx, f)
	if n >= f.set.config.MaxConcurrent && err == nil {
		return SkipConcurrency, nil
	}
	return "", err
}

// unfinished counts the runs that have not ended. If there are too many it
// reads each, in case this package was not notified of a run's end.
func (s *Service) unfinished(ctx context.Context, f *firing) (int, error) {
	ids, err := s.Store.ListRuns(ctx, f.held.TenantID, f.held.Key, f.set.config.MaxConcurrent+1)
	if err != nil {
		return 0, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == f.runID }) // the fire's own run does not count
	if len(ids) < f.set.config.MaxConcurrent {
		return len(ids), nil
	}
	n := 0
	for _, id := range ids {
		r, err := s.RunStore.Get(ctx, f.held.TenantID, id)
		switch {
		case fault.Is(err, fault.NotFound):
			r = &run.Record{Run: run.Run{RunID: id, TenantID: f.held.TenantID, Status: run.Cancelled, Metadata: metadata(f.at)}}
		case err != nil:
			return 0, err
		}
		if !r.Status.Final() {
			n++
			continue
		}
		if err := s.Writer.Write(ctx, func(tx txn.Tx) error { return s.OnRunState(tx, r) }); err != nil {
			return 0, err
		}
	}
	if n < len(ids) {
		return n, errChanged // the ends may have paused the schedule
	}
	return n, nil
}

// skip advances the schedule without a run.
func (s *Service) skip(ctx context.Context, f *firing) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		st, err := s.current(tx, f)
		if err != nil {
			return err
		}
		st.LastSkippedAt, st.SkipReason, st.NextRunAt = f.at, f.skip, f.next
		if err := s.put(tx, st); err != nil {
			return err
		}
		return s.reschedule(tx, f.held, st)
	})
}

// current locks the state and checks that it is the one that was read. Errors:
// errChanged.
func (s *Service) current(tx txn.Tx, f *firing) (*State, error) {
	st, err := s.Store.LockTx(tx, f.held.TenantID, f.held.Key)
	if err == nil && (st == nil || st.Revision != f.state.Revision) {
		err = errChanged
	}
	return st, err
}

// start starts the run of a fire, unless it exists already.
func (s *Service) start(ctx context.Context, f *firing) error {
	_, err := s.RunStore.Get(ctx, f.held.TenantID, f.runID)
	switch {
	case err == nil:
		return s.adopt(ctx, f)
	case !fault.Is(err, fault.NotFound):
		return err
	}
	in, err := f.set.config.input(f.at, f.set.cron.zone)
	if err != nil {
		return err
	}
	admitted := false
	_, err = s.Runs.Create(ctx, authz.Caller{TenantID: f.held.TenantID}, run.Request{
		RunID: f.runID, AgentID: f.held.Key, Input: in, Metadata: metadata(f.at),
		StartedBy: run.Initiator{Type: run.BySchedule, ID: f.held.Key},
		Admit: func(tx txn.Tx, r *run.Record) (bool, error) {
			admitted = true
			n, err := s.Store.CountRunsTx(tx, r.TenantID, r.AgentID)
			if err == nil && n >= f.set.config.MaxConcurrent {
				err = errBusy
			}
			if err != nil {
				return false, err
			}
			return true, s.advance(tx, f)
		},
	})
	switch {
	case err == nil && admitted:
		return nil
	case err == nil, isTaken(err):
		return s.adopt(ctx, f)
	case errors.Is(err, errBusy):
		f.skip = SkipConcurrency
		return s.skip(ctx, f)
	case permanent(err, f.held.Attempt):
		return s.recordRefusal(ctx, f, fault.From(err).Detail)
	}
	return err
}

// advance records a fire's run and moves the schedule to the next fire.
func (s *Service) advance(tx txn.Tx, f *firing) error {
	st, err := s.current(tx, f)
	if err != nil {
		return err
	}
	if s.OnFire != nil {
		late := s.Clock.Now().Sub(f.at)
		tx.AfterCommit(func() { s.OnFire(late) })
	}
	st.LastFiredAt, st.NextRunAt = f.at, f.next
	if st.Status == Failed {
		st.Status, st.Problem = Active, ""
	}
	if err := s.put(tx, st); err != nil {
		return err
	}
	if err := s.Store.CreateRunTx(tx, f.held.TenantID, f.held.Key, f.runID, f.at); err != nil {
		return err
	}
	return s.reschedule(tx, f.held, st)
}

// adopt advances the schedule for a run that is stored already.
func (s *Service) adopt(ctx context.Context, f *firing) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		// The run before the state: the order in which a run's end takes them.
		r, err := s.RunStore.LockTx(tx, f.held.TenantID, f.runID)
		if err != nil {
			return err
		}
		if err := s.advance(tx, f); err != nil {
			return err
		}
		return s.OnRunState(tx, r)
	})
}

// isTaken reports whether a run was refused because its id exists.
func isTaken(err error) bool {
	return fault.Is(err, fault.Conflict) && fault.From(err).Code == "ALREADY_EXISTS"
}

// permanent reports whether retrying is of no use. That the agent was deleted or
// suspended is noticed by retrying.
func permanent(err error, attempt int) bool {
	var f *fault.Error
	if !errors.As(err, &f) {
		return false
	}
	switch f.Kind {
	case fault.Internal, fault.Unavailable:
		return false
	case fault.NotFound, fault.Conflict:
		return attempt > maxRetries
	default:
		return true
	}
}

// recordRefusal records that a fire's run was refused, which is a failure.
func (s *Service) recordRefusal(ctx context.Context, f *firing, why string) error {
	s.Logger.Warn("a schedule's run was refused", "agent", f.held.Key, "tenant", f.held.TenantID, "fire", f.at, "reason", why)
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		st, err := s.current(tx, f)
		if err != nil {
			return err
		}
		st.Status, st.Problem = Failed, why
		st.LastSkippedAt, st.SkipReason, st.NextRunAt = f.at, SkipRefused, f.next
		alarm := Alarm{TenantID: st.TenantID, AgentID: st.AgentID, At: f.at, Sentence: why}
		if err := s.recordFailure(tx, st, f.set.config, alarm); err != nil {
			return err
		}
		return s.reschedule(tx, f.held, st)
	})
}

// recordFailure counts a failure, does what on_failure demands and stores the
// state.
func (s *Service) recordFailure(tx txn.Tx, st *State, c *Config, a Alarm) error {
	st.Failures++
	if a.Paused = c.OnFailure == agent.PauseAfterFailure; a.Paused {
		st.Status, st.NextRunAt = Paused, time.Time{}
	}
	if err := s.put(tx, st); err != nil {
		return err
	}
	if c.OnFailure == agent.ContinueAfterFailure || s.Alert == nil {
		return nil
	}
	return s.Alert(tx, a)
}

// OnRunState is a run.Watcher: it records the ends of runs that schedules
// started. Each counts once, however often it is called for it.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	if !r.Status.Final() || !bytes.Contains(r.Metadata, []byte(fireKey)) {
		return nil
	}
	agentID, err := s.Store.DeleteRunTx(tx, r.TenantID, r.RunID)
	if err != nil || agentID == "" {
		return err // callers can write such metadata too
	}
	st, err := s.Store.LockTx(tx, r.TenantID, agentID)
	if err != nil || st == nil {
		return err
	}
	switch r.Status {
	case run.Completed:
		st.Failures = 0
		return s.put(tx, st)
	case run.Cancelled: // intended, so no failure
		return nil
	}
	config, _, err := read([]byte(st.Config))
	if err != nil {
		return nil // the field cannot be read; its state says so
	}
	why := fmt.Sprintf("The run ended as %s.", r.Status)
	if r.Error != nil && *r.Error != "" {
		why = *r.Error
	}
	alarm := Alarm{TenantID: r.TenantID, AgentID: agentID, RunID: r.RunID, At: r.CreatedAt, Sentence: why}
	if err := s.recordFailure(tx, st, config, alarm); err != nil {
		return err
	}
	if st.NextRunAt.IsZero() {
		return s.Queue.DeleteTx(tx, WorkKind, agentID)
	}
	return nil
}
