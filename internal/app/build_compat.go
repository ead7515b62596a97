package app

import (
	"context"
	"slices"

	"agentd/internal/agent"
	"agentd/internal/compat/openai"
	"agentd/internal/event"
	"agentd/internal/httpapi"
	"agentd/internal/run"
)

// compatible gives the routes that answer the API shapes of others.
func (a *App) compatible(runs *run.Service, agents *agent.Agents, source run.AgentSource, log event.Log) []httpapi.Raw {
	chat := &openai.Chat{Runs: runs, Agents: source, Models: catalogue{agents}, Log: log, Hub: a.hub}
	proxy := &openai.Proxy{Gateway: a.gateway, CheckAgent: func(ctx context.Context, tenant, id string) error {
		_, err := agents.Get(ctx, tenant, id)
		return err
	}}
	return slices.Concat(
		chat.Routes(), proxy.Routes(), a.embeddings().Routes(),
	)
}
