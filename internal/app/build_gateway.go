package app

import (
	"agentd/internal/gateway"
	"agentd/internal/usage"
)

// buildGateway makes the model proxy. Its limits and counters are those of
// usage, which stores what it gathers for as long as the app runs.
func (a *App) buildGateway(models gateway.Models, client gateway.Client, used *usage.Service) {
	a.serve(used.Serve)
	a.gateway = &gateway.Gateway{Models: models, Client: client, Plans: used, Fallback: a.cfg.Models.Fallback}
}
