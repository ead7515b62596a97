package app

import (
	"context"

	"agentd/internal/agent"
	"agentd/internal/gateway"
	"agentd/internal/usage"
)

// buildGateway makes the model proxy. Its limits and counters are those of
// usage, which stores what it gathers for as long as the app runs.
func (a *App) buildGateway(models gateway.Models, client gateway.Client, used *usage.Service, agents *agent.Agents) {
	a.serve(used.Serve)
	a.gateway = &gateway.Gateway{
		Models: models, Client: client, Plans: used, Fallback: a.cfg.Models.Fallback,
		CheckAgent: func(ctx context.Context, tenant, id string) error {
			_, err := agents.Get(ctx, tenant, id)
			return err
		},
	}
}
