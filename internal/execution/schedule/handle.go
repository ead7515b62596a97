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
	// errMoved says that the state is not what the handler has read.
	errMoved = errors.New("schedule: the state was changed meanwhile")
	// errBusy says that too many runs have not ended.
	errBusy = errors.New("schedule: too many of its runs have not ended")
)

// patience is how often a refusal is tried again that may come from a view of
// the agent that is a moment old.
const patience = 3

// occasion is a fire that a handler is about to make.
type occasion struct {
	turn
	held  work.Lease
	set   *setup
	state *State // as it was read
	runID string
}

// Handle is the work.Handler of WorkKind: it makes the fire that is due.
//
// The run is stored by the transaction that moves the schedule on and proves
// the lease, so that there is one run of each fire whatever nodes do or die.
// Where the engine does not take an admission, that is a second transaction;
// the run's id, which follows from the fire, then tells the next handler that
// the run is there.
func (s *Service) Handle(ctx context.Context, held work.Lease) error {
	for try := 0; ; try++ {
		err := s.handle(ctx, held)
		if !errors.Is(err, errMoved) || try == patience {
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
	set, err := of(g)
	if err != nil {
		return err
	}
	st, err := s.Store.Get(ctx, tenant, agentID)
	if err != nil {
		return err
	}
	now := s.Clock.Now()
	if !set.exists() || !set.follows(st) || st.NextRunAt.IsZero() || st.NextRunAt.After(now) {
		return s.realign(ctx, held)
	}
	o := &occasion{turn: set.config.due(set.cron, st.NextRunAt, now), held: held, set: set, state: st}
	o.runID = runID(tenant, agentID, o.fire)
	if o.skip == "" {
		if o.skip, err = s.hindered(ctx, o); err != nil {
			return err
		}
	}
	if o.skip != "" {
		return s.skip(ctx, o)
	}
	return s.start(ctx, o)
}

// realign brings the state in line with the agent, and the item with the state.
func (s *Service) realign(ctx context.Context, held work.Lease) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		g, err := s.Agents.GetTx(tx, held.TenantID, held.Key)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		st, err := s.apply(tx, held.TenantID, held.Key, g, false)
		if err != nil {
			return err
		}
		return s.settle(tx, held, st)
	})
}

// settle lets go of the item until the state's next fire.
func (s *Service) settle(tx txn.Tx, held work.Lease, st *State) error {
	if st == nil || st.NextRunAt.IsZero() {
		return s.Queue.FinishTx(tx, held)
	}
	return s.Queue.RescheduleTx(tx, held, st.NextRunAt, nil)
}

// hindered says why a fire that is due makes no run, if so.
func (s *Service) hindered(ctx context.Context, o *occasion) (string, error) {
	if s.Suspended != nil {
		if suspended, err := s.Suspended(ctx, o.held.TenantID); suspended || err != nil {
			return SkipSuspended, err
		}
	}
	n, err := s.unfinished(ctx, o)
	if n >= o.set.config.MaxConcurrent && err == nil {
		return SkipConcurrency, nil
	}
	return "", err
}

// unfinished counts the runs that have not ended. Where they are too many it
// looks at each, in case a run's end was not told.
func (s *Service) unfinished(ctx context.Context, o *occasion) (int, error) {
	ids, err := s.Store.ListRuns(ctx, o.held.TenantID, o.held.Key, o.set.config.MaxConcurrent+1)
	if err != nil {
		return 0, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == o.runID }) // a fire does not hinder itself
	if len(ids) < o.set.config.MaxConcurrent {
		return len(ids), nil
	}
	n := 0
	for _, id := range ids {
		r, err := s.RunStore.Get(ctx, o.held.TenantID, id)
		switch {
		case fault.Is(err, fault.NotFound):
			r = &run.Record{Run: run.Run{RunID: id, TenantID: o.held.TenantID, Status: run.Cancelled, Metadata: metadata(o.fire)}}
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
		return n, errMoved // what has ended may have paused the schedule
	}
	return n, nil
}

// skip moves the schedule on without a run.
func (s *Service) skip(ctx context.Context, o *occasion) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		st, err := s.current(tx, o)
		if err != nil {
			return err
		}
		st.LastSkippedAt, st.SkipReason, st.NextRunAt = o.fire, o.skip, o.next
		if err := s.put(tx, st); err != nil {
			return err
		}
		return s.settle(tx, o.held, st)
	})
}

// current locks the state and sees to it that it is the one that was read.
func (s *Service) current(tx txn.Tx, o *occasion) (*State, error) {
	st, err := s.Store.LockTx(tx, o.held.TenantID, o.held.Key)
	if err == nil && (st == nil || st.Revision != o.state.Revision) {
		err = errMoved
	}
	return st, err
}

// start makes the run of a fire, unless it is there already.
func (s *Service) start(ctx context.Context, o *occasion) error {
	_, err := s.RunStore.Get(ctx, o.held.TenantID, o.runID)
	switch {
	case err == nil:
		return s.adopt(ctx, o)
	case !fault.Is(err, fault.NotFound):
		return err
	}
	in, err := o.set.config.input(o.fire, o.set.cron.zone)
	if err != nil {
		return err
	}
	admitted := false
	_, err = s.Runs.Create(ctx, authz.Caller{TenantID: o.held.TenantID}, run.Request{
		RunID: o.runID, AgentID: o.held.Key, Input: in, Metadata: metadata(o.fire),
		Admit: func(tx txn.Tx, r *run.Record) (bool, error) {
			admitted = true
			n, err := s.Store.CountRunsTx(tx, r.TenantID, r.AgentID)
			if err == nil && n >= o.set.config.MaxConcurrent {
				err = errBusy
			}
			if err != nil {
				return false, err
			}
			return true, s.advance(tx, o)
		},
	})
	switch {
	case err == nil && admitted:
		return nil
	case err == nil, isTaken(err):
		return s.adopt(ctx, o)
	case errors.Is(err, errBusy):
		o.skip = SkipConcurrency
		return s.skip(ctx, o)
	case s.final(err, o.held.Attempt):
		return s.refused(ctx, o, fault.From(err).Detail)
	}
	return err
}

// advance notes a fire's run and moves the schedule on.
func (s *Service) advance(tx txn.Tx, o *occasion) error {
	st, err := s.current(tx, o)
	if err != nil {
		return err
	}
	st.LastFiredAt, st.NextRunAt = o.fire, o.next
	if st.Status == Failed {
		st.Status, st.Problem = Active, ""
	}
	if err := s.put(tx, st); err != nil {
		return err
	}
	if err := s.Store.CreateRunTx(tx, o.held.TenantID, o.held.Key, o.runID, o.fire); err != nil {
		return err
	}
	return s.settle(tx, o.held, st)
}

// adopt moves the schedule on for a run that is stored already.
func (s *Service) adopt(ctx context.Context, o *occasion) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		// The run before the state: the order in which a run's end takes them.
		r, err := s.RunStore.LockTx(tx, o.held.TenantID, o.runID)
		if err != nil {
			return err
		}
		if err := s.advance(tx, o); err != nil {
			return err
		}
		return s.OnRunState(tx, r)
	})
}

// isTaken says whether a run was refused because its id is there.
func isTaken(err error) bool {
	return fault.Is(err, fault.Conflict) && fault.From(err).Code == "ALREADY_EXISTS"
}

// final says whether trying again is of no use: the run was refused for what it
// is. That the agent is gone or suspended is seen by trying again.
func (s *Service) final(err error, attempt int) bool {
	var f *fault.Error
	if !errors.As(err, &f) {
		return false
	}
	switch f.Kind {
	case fault.Internal, fault.Unavailable:
		return false
	case fault.NotFound, fault.Conflict:
		return attempt > patience
	default:
		return true
	}
}

// refused records that a fire's run was refused, which counts as a failure.
func (s *Service) refused(ctx context.Context, o *occasion, why string) error {
	s.Logger.Warn("a schedule's run was refused", "agent", o.held.Key, "tenant", o.held.TenantID, "fire", o.fire, "reason", why)
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		st, err := s.current(tx, o)
		if err != nil {
			return err
		}
		st.Status, st.Problem = Failed, why
		st.LastSkippedAt, st.SkipReason, st.NextRunAt = o.fire, SkipRefused, o.next
		alarm := Alarm{TenantID: st.TenantID, AgentID: st.AgentID, At: o.fire, Sentence: why}
		if err := s.failed(tx, st, o.set.config, alarm); err != nil {
			return err
		}
		return s.settle(tx, o.held, st)
	})
}

// failed counts a failure, does what on_failure says and stores the state.
func (s *Service) failed(tx txn.Tx, st *State, c *Config, a Alarm) error {
	st.Failures++
	if a.Paused = c.OnFailure == Pause; a.Paused {
		st.Status, st.NextRunAt = Paused, time.Time{}
	}
	if err := s.put(tx, st); err != nil {
		return err
	}
	if c.OnFailure == Continue || s.Alert == nil {
		return nil
	}
	return s.Alert(tx, a)
}

// OnRunState is a run.Watcher: it takes note of the ends of runs that schedules
// made. Each counts once, however often it is told.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	if !r.Status.Final() || !bytes.Contains(r.Metadata, []byte(fireKey)) {
		return nil
	}
	agentID, err := s.Store.DeleteRunTx(tx, r.TenantID, r.RunID)
	if err != nil || agentID == "" {
		return err // anybody can write such metadata
	}
	st, err := s.Store.LockTx(tx, r.TenantID, agentID)
	if err != nil || st == nil {
		return err
	}
	switch r.Status {
	case run.Completed:
		st.Failures = 0
		return s.put(tx, st)
	case run.Cancelled: // somebody meant it
		return nil
	}
	set, err := of(&agent.Agent{Config: agent.Config{Schedule: []byte(st.Config)}})
	if err != nil || set.config == nil {
		return err
	}
	why := fmt.Sprintf("The run ended as %s.", r.Status)
	if r.Error != nil && *r.Error != "" {
		why = *r.Error
	}
	if err := s.failed(tx, st, set.config, Alarm{TenantID: r.TenantID, AgentID: agentID, RunID: r.RunID, At: r.CreatedAt, Sentence: why}); err != nil {
		return err
	}
	if st.NextRunAt.IsZero() {
		return s.Queue.DeleteTx(tx, WorkKind, agentID)
	}
	return nil
}
