package app

import (
	"context"

	"agentd/internal/audit"
	"agentd/internal/engine"
	"agentd/internal/page"
	"agentd/internal/sqlstore"
	"agentd/internal/tenancy"
	"agentd/internal/work"
)

// signalTenants tells every node that tenants were suspended or let in.
const signalTenants = "tenants"

func (a *App) buildAudit(cursors *page.Cursors) {
	a.audit = &audit.Log{Store: sqlstore.NewAudit(a.db), Writer: a.db, Cursors: cursors, Clock: a.clock}
}

// buildTenancy makes what the operator does with tenants. It comes before
// anything that starts runs.
func (a *App) buildTenancy(ctx context.Context, queue work.Queue, cursors *page.Cursors) (*tenancy.Service, error) {
	s := tenancy.New(tenancy.Config{
		DB: a.db, Store: sqlstore.NewTenancy(a.db), People: a.people, Audit: a.audit, Queue: queue, Cursors: cursors,
		Clock: a.clock, Log: a.log, RunKind: engine.WorkKind, Lease: lease, Forget: a.people.Forget,
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
