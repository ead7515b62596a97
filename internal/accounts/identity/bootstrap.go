package identity

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
)

// Bootstrap creates the operator's tenant, its owner and the owner's key unless
// they exist, and reports whether it did. The key is ownerKey if that is given,
// and random otherwise. Of several processes that start at once, only one
// creates them.
func (s *Tenants) Bootstrap(ctx context.Context, ownerKey secret.String) (g Grant, created bool, err error) {
	if exists, err := s.bootstrapped(ctx); exists || err != nil {
		return Grant{}, false, err
	}
	raw := NewRawKey()
	if !ownerKey.Empty() {
		var ok bool
		if raw, ok = ParseRawKey(ownerKey.Reveal()); !ok {
			return Grant{}, false, errors.New("AGENTD_OWNER_KEY is not a valid key: it must be svc_, 8 letters or digits, _, and 32 " +
				"letters or digits")
		}
	}
	err = s.Add(ctx, NewTenant{Name: "Operator", raw: raw, operator: true}, func(_ txn.Tx, _ Tenant, _ Member, granted Grant) error {
		g = granted
		return nil
	})
	if errors.Is(err, ErrTaken) {
		if exists, err := s.bootstrapped(ctx); exists || err != nil {
			return Grant{}, false, err
		}
	}
	return g, err == nil, err
}

func (s *Tenants) bootstrapped(ctx context.Context) (bool, error) {
	_, err := s.store.GetOperator(ctx)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Create is CreateOn with the default plan.
func (s *Tenants) Create(ctx context.Context, name, email string) (Grant, error) {
	return s.CreateOn(ctx, "", name, email)
}

// CreateOn creates a tenant on a plan, its owner and a key that allows the
// owner everything. email may be empty, and so may plan: the default one then.
// Errors: 422 with the invalid fields.
func (s *Tenants) CreateOn(ctx context.Context, plan, name, email string) (Grant, error) {
	email, badEmail := readEmail(email)
	var invalid []fault.Field
	if message := badName(name); message != "" {
		invalid = append(invalid, fault.Field{Field: "name", Message: message})
	}
	if badEmail != "" {
		invalid = append(invalid, fault.Field{Field: "email", Message: badEmail})
	}
	plan = cmp.Or(plan, s.plans.Default())
	if !s.plans.Known(plan) {
		invalid = append(invalid, fault.Field{Field: "plan", Message: "is not one of the plans: " + s.plans.Names()})
	}
	if invalid != nil {
		return Grant{}, fault.BadFields(invalid...)
	}
	var g Grant
	err := s.Add(ctx, NewTenant{Name: strings.TrimSpace(name), OwnerEmail: email, Plan: plan},
		func(_ txn.Tx, _ Tenant, _ Member, granted Grant) error {
			g = granted
			return nil
		})
	return g, err
}
