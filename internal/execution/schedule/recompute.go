package schedule

import (
	"context"
	"time"

	"agentd/internal/base/txn"
)

const (
	// recomputeEvery is how often next fires are computed again.
	recomputeEvery = 24 * time.Hour
	// recomputeRetry is the wait after a failure.
	recomputeRetry = time.Minute
	// recomputePage is how many schedules are read at a time.
	recomputePage = 200
)

// Serve computes next fires again at the start and once a day, until ctx ends: the
// rules of a time zone may have changed since, by an update of the program or of
// the machine.
func (s *Service) Serve(ctx context.Context) {
	for {
		wait := recomputeEvery
		if err := s.Recompute(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("the next fires of schedules could not be computed again", "err", err)
			wait = recomputeRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Recompute computes the next fire of every schedule again. Fires that are due are
// left alone.
func (s *Service) Recompute(ctx context.Context) error {
	var last State
	for {
		page, err := s.Store.ListAll(ctx, last.TenantID, last.AgentID, recomputePage)
		if err != nil {
			return err
		}
		for i := range page {
			last = page[i]
			if s.fireAgain(&last).IsZero() {
				continue
			}
			if err := s.moveFire(ctx, last.TenantID, last.AgentID); err != nil {
				return err
			}
		}
		if len(page) < recomputePage {
			return nil
		}
	}
}

// fireAgain returns the next fire of a state where it is not the stored one any
// more, and else the zero time.
func (s *Service) fireAgain(st *State) time.Time {
	now := s.Clock.Now()
	if !st.NextRunAt.After(now) { // there is none, or it is due
		return time.Time{}
	}
	c, err := decodeStored(st.Config)
	if err != nil {
		return time.Time{}
	}
	cron, invalid := c.check()
	if len(invalid) > 0 {
		return time.Time{}
	}
	if st.LastFiredAt.After(now) {
		now = st.LastFiredAt
	}
	if next := cron.Next(now); !next.Equal(st.NextRunAt) {
		return next
	}
	return time.Time{}
}

// moveFire stores the next fire of a schedule, computed again.
func (s *Service) moveFire(ctx context.Context, tenant, agentID string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		st, err := s.Store.LockTx(tx, tenant, agentID)
		if err != nil || st == nil {
			return err
		}
		next := s.fireAgain(st)
		if next.IsZero() {
			return nil
		}
		st.NextRunAt = next
		if err := s.put(tx, st); err != nil {
			return err
		}
		// An item that is due too early finds out by itself.
		return s.enqueue(tx, tenant, agentID, st)
	})
}
