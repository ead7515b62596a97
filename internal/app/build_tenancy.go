package app

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/tenantadmin"
	"agentd/internal/accounts/tenantadmin/tenantadminsql"
	"agentd/internal/accounts/usage"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/execution/engine"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/work"
	"agentd/internal/store/auditsql"
)

// signalTenants tells every node that tenants were suspended or let in.
const signalTenants = "tenants"

func (a *App) buildAudit(cursors *page.Cursors) {
	a.audit = &audit.Log{Store: auditsql.New(a.db), Writer: a.db, Cursors: cursors, Clock: a.clock}
}

// buildTenancy makes what the operator does with tenants. It comes before
// anything that starts runs.
func (a *App) buildTenancy(ctx context.Context, queue work.Queue, cursors *page.Cursors) (*tenantadmin.Service, error) {
	s := tenantadmin.New(tenantadmin.Config{
		DB: a.db, Store: tenantadminsql.New(a.db), Tenants: a.people.Tenants, Audit: a.audit, Queue: queue, Cursors: cursors,
		Clock: a.clock, Log: a.log, RunKind: engine.WorkKind, Lease: lease, Forget: a.people.InvalidateAll,
		Plans: a.plans, Limits: a.limitsOf,
		Changed: func() { a.hub.Signal(signalTenants, "") },
		Woke:    func() { a.hub.Signal(signalWork, engine.WorkKind) },
	})
	if err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	hints := make(chan struct{}, 1)
	a.onStop(stopper(a.hub.OnSignal(signalTenants, func(string) {
		select {
		case hints <- struct{}{}:
		default:
		}
	})))
	a.serve(func(ctx context.Context) { s.Serve(ctx, hints) })
	return s, nil
}

// limitsOf are a plan's limits as the API shows them.
func (a *App) limitsOf(plan string) schema.Object {
	p, _ := a.plans.Of(plan)
	limits, _ := json.Marshal(p.Limits) // numbers alone
	return schema.Object(limits)
}

// meterTenants tells the operator what tenants use, and the meter of plans that
// the operator changes.
func meterTenants(s *tenantadmin.Service, used *usage.Service) {
	s.PlanChanged = used.TermsChanged
	s.Usage = func(ctx context.Context, tenant, period string) (schema.Object, error) {
		sum, err := used.UsageOf(ctx, tenant, period)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(sum)
		return schema.Object(text), err
	}
}
