package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/tenantadmin"
	"agentd/internal/accounts/tenantadmin/tenantadminsql"
	"agentd/internal/accounts/usage"
	"agentd/internal/accounts/usage/usagesql"
	"agentd/internal/base/schema"
	"agentd/internal/execution/engine"
	"agentd/internal/kernel/quota"
)

const (
	// signalCredentials reaches every node when credentials change; the key is
	// identity's own.
	signalCredentials = "credentials"
	// signalTenants reaches every node when tenants are suspended or reactivated.
	signalTenants = "tenants"
)

// accounts is who calls, in which tenant, and what that tenant may use.
type accounts struct {
	plans      *quota.Plans
	identity   *identity.Service
	grant      identity.Grant // the first owner's key
	first      bool           // this start made the first tenant
	usage      *usage.Service
	usageStore *usagesql.Store
	tenants    *tenantadmin.Service
}

// newAccounts comes before everything that starts runs, so that no run of a
// suspended tenant starts.
func newAccounts(ctx context.Context, p *platform, out *egress) (*accounts, error) {
	plans, err := quota.Load(p.cfg.Tenancy.Plans)
	if err != nil {
		return nil, fmt.Errorf("AGENTD_PLANS: %w", err)
	}
	a := &accounts{plans: plans, usageStore: usagesql.New(p.db)}
	a.identity = identity.New(identity.Config{
		DB: p.db, Store: identitysql.New(p.db), Clock: p.clock, Log: p.log, Box: p.box, Audit: p.audit, Plans: plans,
		Hint: func(hint string) { p.hub.Signal(signalCredentials, hint) },
	})
	if a.grant, a.first, err = a.identity.Tenants.Bootstrap(ctx, p.cfg.Security.OwnerKey); err != nil {
		return nil, err
	}
	a.usage = usage.New(usage.Deps{
		Plans: plans, Store: a.usageStore, Writer: p.db, Clock: p.clock, Logger: p.log, Outbox: p.changes, Audit: p.audit,
	})
	a.tenants = tenantadmin.New(tenantadmin.Config{
		DB: p.db, Store: tenantadminsql.New(p.db), Tenants: a.identity.Tenants, Audit: p.audit, Queue: p.queue, Cursors: p.cursors,
		Clock: p.clock, Log: p.log, RunKind: engine.WorkKind, Lease: lease, InvalidateAll: a.identity.InvalidateAll,
		Plans: plans, Limits: a.limitsOf, OnPlanChange: a.usage.TermsChanged, Usage: a.usageOf,
		OnChange:    func() { p.hub.Signal(signalTenants, "") },
		OnResume:    func() { p.hub.Signal(signalWork, engine.WorkKind) },
		CheckEgress: out.check, OnEgress: func(tenant string) { p.hub.Signal(signalEgress, tenant) },
	})
	if err := newOperatorConfig(p, plans); err != nil {
		return nil, err
	}
	return a, a.tenants.Refresh(ctx)
}

func (a *accounts) part(p *platform) part {
	// The hint is sent without waiting: one that is pending is enough.
	hints := make(chan struct{}, 1)
	hint := func(string) {
		select {
		case hints <- struct{}{}:
		default:
		}
	}
	return part{
		name:    "accounts",
		routes:  append(append(a.identity.Routes(), a.tenants.Routes()...), a.usage.Routes()...),
		workers: []worker{p.worker(tenantadmin.WorkKind, 2, a.tenants.Handle)},
		services: []service{
			p.onSignal(signalCredentials, a.identity.Invalidate),
			func() (func(context.Context), error) {
				a.identity.Start()
				return func(context.Context) { a.identity.Stop() }, nil
			},
			p.onSignal(signalTenants, hint),
			background(func(ctx context.Context) { a.tenants.Serve(ctx, hints) }),
			background(a.usage.Serve),
			background(a.usage.ServeEntries),
		},
	}
}

// limitsOf returns a plan's limits as the API shows them.
func (a *accounts) limitsOf(plan string) schema.Object {
	p, _ := a.plans.Of(plan)
	limits, _ := json.Marshal(p.Limits) // it holds numbers alone
	return schema.Object(limits)
}

// usageOf returns what a tenant used in a period as the API shows it.
func (a *accounts) usageOf(ctx context.Context, tenant, period string) (schema.Object, error) {
	sum, err := a.usage.UsageOf(ctx, tenant, period)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(sum)
	return schema.Object(text), err
}

// suspended reports whether a tenant is suspended or deleted.
func suspended(p *platform) func(ctx context.Context, tenant string) (bool, error) {
	store := identitysql.New(p.db)
	return func(ctx context.Context, tenant string) (bool, error) {
		t, err := store.GetTenant(ctx, tenant)
		if errors.Is(err, identity.ErrNotFound) {
			return true, nil
		}
		return t.Status == identity.Suspended, err
	}
}
