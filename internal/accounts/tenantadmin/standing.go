package tenantadmin

import (
	"context"
	"errors"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// refreshEvery is how soon a node knows of a suspension that it was not told
// of.
const refreshEvery = time.Second

// Refresh learns which tenants are inactive.
func (s *Service) Refresh(ctx context.Context) error {
	ids, err := s.Store.ListInactive(ctx)
	if err != nil {
		return err
	}
	inactive := make(map[string]struct{}, len(ids))
	for _, id := range ids {
		inactive[id] = struct{}{}
	}
	s.inactive.Store(&inactive)
	return nil
}

// Serve keeps what this node knows of inactive tenants fresh until ctx ends:
// every second, and at each hint. Where the database does not answer, it goes on
// with what it knew.
func (s *Service) Serve(ctx context.Context, hints <-chan struct{}) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-hints:
		}
		if err := s.Refresh(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("which companies are suspended could not be read", "err", err)
		}
	}
}

// HoldBack says whether an item is of a tenant that is inactive; it was let go
// of then, until the tenant is let in again. For all others it costs nothing.
func (s *Service) HoldBack(ctx context.Context, held work.Lease) (bool, error) {
	if _, inactive := (*s.inactive.Load())[held.TenantID]; !inactive {
		return false, nil
	}
	var parked bool
	err := s.DB.Write(ctx, func(tx txn.Tx) (err error) {
		parked, err = s.Store.SuspendWorkTx(tx, held, s.Clock.Now())
		return err
	})
	if errors.Is(err, identity.ErrNotFound) {
		return true, work.ErrLost // purged, and the item with it
	}
	return parked, err
}
