package app

import (
	"context"

	"agentd/internal/accounts/usage"
	"agentd/internal/agents/agent"
	"agentd/internal/agents/modelproxy"
)

// buildGateway makes the model proxy. Its limits and counters are those of
// usage, which stores what it gathers for as long as the app runs.
func (a *App) buildGateway(models modelproxy.Models, client modelproxy.Client, used *usage.Service, agents *agent.Agents) {
	a.serve(used.Serve)
	a.gateway = &modelproxy.Proxy{
		Models: models, Client: client, Plans: used, Fallback: a.cfg.Models.Fallback,
		CheckAgent: func(ctx context.Context, tenant, id string) error {
			_, err := agents.Get(ctx, tenant, id)
			return err
		},
	}
}
