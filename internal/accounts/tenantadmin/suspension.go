package tenantadmin

import (
	"context"
	"errors"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// refreshEvery is how soon a node learns of a suspension without a hint.
const refreshEvery = time.Second

// Refresh reads which tenants are inactive.
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

// Serve refreshes the inactive tenants every second and at each hint, until ctx
// ends. While the database cannot be read, the last known ones stay in effect.
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
			s.Log.Warn("could not read which companies are suspended", "err", err)
		}
	}
}

// HeldBack reports whether an item belongs to an inactive tenant. If so, it has
// released the item's lease until the tenant is reactivated. For items of active
// tenants it costs nothing.
func (s *Service) HeldBack(ctx context.Context, held work.Lease) (bool, error) {
	if _, inactive := (*s.inactive.Load())[held.TenantID]; !inactive {
		return false, nil
	}
	var suspended bool
	err := s.DB.Write(ctx, func(tx txn.Tx) (err error) {
		suspended, err = s.Store.SuspendWorkTx(tx, held, s.Clock.Now())
		return err
	})
	if errors.Is(err, identity.ErrNotFound) {
		return true, work.ErrLost // purged, and the item with it
	}
	return suspended, err
}
