package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/accounts/usage"
	"agentd/internal/kernel/quota"
	"agentd/internal/operation/reconciliation"
	"agentd/internal/operation/reconciliation/reconciliationsql"
)

// reconciliationPart compares what companies are billed by with what their runs say.
func reconciliationPart(p *platform, accounts *accounts) part {
	drifting := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "agentd_reconciliation_drifting_companies",
		Help: "Companies whose usage counters differed from their runs by more than the threshold, in the last comparison that this node made.",
	})
	p.metrics.MustRegister(drifting)
	s := &reconciliation.Service{Deps: reconciliation.Deps{
		Store: reconciliationsql.New(p.db), Settings: reconciliation.Section(p.settings), Writer: p.db, Clock: p.clock, Audit: p.audit,
		Log: p.log, Counted: accounts.countedBySource, Drifting: func(n int) { drifting.Set(float64(n)) },
	}}
	return part{name: "reconciliation", routes: s.Routes(), services: []service{background(s.Serve)}}
}

// countedBySource returns what was counted for a tenant's agents.
func (a *accounts) countedBySource(ctx context.Context, tenant, from, to string) (map[string]quota.Use, error) {
	rows, err := a.usageStore.ListParts(ctx, tenant, usage.PartQuery{From: from, To: to, By: usage.PartSource})
	all := make(map[string]quota.Use, len(rows))
	for i := range rows {
		all[rows[i].Key] = rows[i].Use
	}
	return all, err
}
