package app

import (
	"context"

	"agentd/internal/accounts/identity"
	"agentd/internal/agents/agent"
	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
)

// runNames implements run.Names.
type runNames struct {
	agents   *agent.Agents
	identity *identity.Service
}

// AgentName implements run.Names.
func (n runNames) AgentName(ctx context.Context, tenant, id string) (string, error) {
	g, err := n.agents.Get(ctx, tenant, id)
	return g.Name, err
}

// InitiatorName implements run.Names.
func (n runNames) InitiatorName(ctx context.Context, tenant string, by run.Initiator) (string, error) {
	switch by.Type {
	case run.ByKey:
		return n.identity.KeyName(ctx, tenant, by.ID)
	case run.ByMember:
		_, person := n.identity.NamesOf(ctx, tenant, by.ID)
		return person, nil
	case run.BySchedule:
		return n.AgentName(ctx, tenant, by.ID)
	case run.ByRun, run.BySensor, run.ByTodo, run.ByVisitor, run.ByImprovement, run.ByEvaluation, run.ByPlatform:
		return "", nil
	default:
		return "", fault.New(fault.Internal, "", "run: the initiator %s is unknown", by.Type)
	}
}
