package tenantadmin

import (
	"context"
	"errors"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/redact"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// refreshEvery is how soon a node learns of a suspension without a hint.
const refreshEvery = time.Second

// Refresh reads which tenants are inactive, which are under a legal hold, and which kinds
// of data they do not store.
func (s *Service) Refresh(ctx context.Context) error {
	inactive, err := s.Store.ListInactive(ctx)
	if err != nil {
		return err
	}
	held, err := s.Store.ListHeld(ctx)
	if err != nil {
		return err
	}
	named, err := s.Store.ListRedacted(ctx)
	if err != nil {
		return err
	}
	redacted := make(map[string]*redact.Redactor, len(named))
	for tenant, kinds := range named {
		redacted[tenant] = redact.New(kinds...)
	}
	s.redacted.Store(&redacted)
	s.inactive.Store(setOf(inactive))
	s.underHold.Store(setOf(held))
	return nil
}

func setOf(ids []string) *map[string]struct{} {
	set := make(map[string]struct{}, len(ids))
	for _, id := range ids {
		set[id] = struct{}{}
	}
	return &set
}

// UnderHold reports whether a tenant is under a legal hold.
func (s *Service) UnderHold(tenant string) bool {
	_, held := (*s.underHold.Load())[tenant]
	return held
}

// Redactor returns what replaces the kinds of data that a tenant does not store; nil if it
// stores all.
func (s *Service) Redactor(tenant string) *redact.Redactor { return (*s.redacted.Load())[tenant] }

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
