package app

import (
	"context"
	"errors"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/agents/agent"
	"agentd/internal/base/page"
	"agentd/internal/execution/run"
	"agentd/internal/execution/sensor"
	"agentd/internal/execution/sensor/sensorsql"
	"agentd/internal/kernel/resource"
)

// buildSensors makes the addresses at which agents listen. Their tool is part of
// what runs are made of: bindSensors completes them.
func (a *App) buildSensors(cursors *page.Cursors) *sensor.Service {
	return sensor.New(sensor.Deps{
		Store: sensorsql.New(a.db), Writer: a.db, Clock: a.clock, Cursors: cursors, Box: a.box, Audit: a.audit,
		Public: a.public, Suspended: a.suspended,
	})
}

// bindSensors connects sensors with the runs that they start.
func bindSensors(s *sensor.Service, runs *run.Service, agents *agent.Agents, changes *resource.Subscribers) {
	s.Bind(runs, agents.Store())
	changes.Subscribe("end-sensors-of-deleted-agents", "agent", []string{resource.Deleted}, func(ctx context.Context, c resource.Change) error {
		return s.AgentDeleted(ctx, c.TenantID, c.ID)
	})
}

// suspended says whether a company is suspended, or gone.
func (a *App) suspended(ctx context.Context, tenant string) (bool, error) {
	t, err := identitysql.New(a.db).GetTenant(ctx, tenant)
	if errors.Is(err, identity.ErrNotFound) {
		return true, nil
	}
	return t.Status == identity.Suspended, err
}
