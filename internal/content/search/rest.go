package search

import (
	"context"
	"errors"
	"slices"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// rest ends the work, or suspends it until the second pass. Whoever schedules work for
// a run while the item is held changes nothing, so what has ended meanwhile is looked
// for once the item is free. A node that dies before that leaves the item for the second
// pass; an item without a second pass is deleted only if no run has ended.
func (s *Service) rest(ctx context.Context, held work.Lease) error {
	swept, err := s.Store.GetMark(ctx, markRuns)
	if err != nil {
		return err
	}
	left, err := s.Store.ListEnded(ctx, swept, time.Time{}, 1)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		err = s.finish(ctx, held, swept)
	}
	if len(left) > 0 || errors.Is(err, errEnded) {
		err = s.Writer.Write(ctx, func(tx txn.Tx) error {
			return s.Queue.RescheduleTx(tx, held, s.Clock.Now().Add(again), nil)
		})
	}
	if err != nil {
		return err
	}
	missed, err := s.missed(ctx)
	if err == nil && missed {
		err = s.schedule(ctx)
	}
	if err != nil && ctx.Err() == nil { // the item is not held any more: no retry
		s.Logger.Warn("runs that have just ended cannot be looked for; the second pass finds them", "error", err)
	}
	return nil
}

// finish deletes the item unless a run has ended after a mark.
func (s *Service) finish(ctx context.Context, held work.Lease, swept Mark) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		// First, so that whoever schedules work for a run that is not visible here
		// waits for this transaction, and schedules it again.
		if err := s.Queue.FinishTx(tx, held); err != nil {
			return err
		}
		left, err := s.Store.ListEndedTx(tx, swept, 1)
		if err == nil && len(left) > 0 {
			err = errEnded
		}
		return err
	})
}

var errEnded = fault.New(fault.Conflict, "", "Runs have ended meanwhile.")

// missed reports whether a run ended recently that has no document.
func (s *Service) missed(ctx context.Context) (bool, error) {
	from := s.start(s.Clock.Now())
	for {
		places, err := s.Store.ListEnded(ctx, from, time.Time{}, pageSize)
		if err != nil || slices.ContainsFunc(places, func(p Place) bool { return !p.Known }) {
			return err == nil, err
		}
		if len(places) < pageSize {
			return false, nil
		}
		from = places[len(places)-1].Mark
	}
}

// Lag returns for how long the oldest run has ended that this node is about to index,
// and 0 where it has indexed every run that it has seen.
func (s *Service) Lag() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.IsZero() {
		return 0
	}
	return max(0, s.Clock.Now().Sub(s.waiting))
}

func (s *Service) setWaiting(end time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = end
}
