package app

import (
	"context"

	"agentd/internal/accounts/usage"
	"agentd/internal/agents/guardrail"
	"agentd/internal/edge/bridgeserver"
	"agentd/internal/execution/run"
	"agentd/internal/teams/bridge"
	"agentd/internal/teams/bridge/bridgesql"
)

// machines is the machines that carry the runs of their agents.
type machines struct{ bridge *bridge.Service }

func newMachines(p *platform, agents *agents) *machines {
	return &machines{&bridge.Service{
		Store: bridgesql.New(p.db), Agents: agents.agents, Specs: agents.source,
		Gate:   guardrail.Gate{All: agents.guardrails, Platform: p.config.PlatformGuardrails},
		Writer: p.db, Hub: p.hub, Clock: p.clock, Box: p.box, Audit: p.audit,
	}}
}

// connect lets machines report on runs.
func (m *machines) connect(execution *execution) {
	m.bridge.Connect(run.Carried{Service: execution.runs}, execution.runs.Runs)
}

func (m *machines) part(p *platform) part {
	server := &bridgeserver.Server{Bridge: m.bridge}
	return part{
		name: "machines", routes: m.bridge.Routes(), endpoints: server.Endpoints(),
		watchers:    []watcher{{"machines", m.bridge.OnRunState}},
		subscribers: []subscriber{onAgentDeleted("keep-machines-of-deleted-agents-out", m.bridge.AgentDeleted)},
		services:    []service{p.onSignal(bridge.Signal, m.bridge.Ring)},
	}
}

// machineStates returns how the machines of a tenant are, for analytics.
func machineStates(p *platform) func(ctx context.Context, tenant string) ([]usage.MachineInfo, error) {
	store := bridgesql.New(p.db)
	return func(ctx context.Context, tenant string) (all []usage.MachineInfo, err error) {
		states, err := bridge.States(ctx, store, tenant, p.clock.Now())
		for _, s := range states {
			all = append(all, usage.MachineInfo{AgentID: s.AgentID, Status: s.Status})
		}
		return all, err
	}
}
