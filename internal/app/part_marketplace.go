package app

import (
	"context"

	"agentd/internal/commerce/marketplace"
	"agentd/internal/commerce/marketplace/marketplacesql"
)

// marketPart is the agents that companies offer to one another.
func marketPart(p *platform, agents *agents, execution *execution) part {
	market := marketplace.New(marketplace.Deps{
		Store: marketplacesql.New(p.db), Writer: p.db, Counters: p.kernel.Counters, Cursors: p.cursors, Clock: p.clock, Audit: p.audit,
		Suspended: suspended(p),
	})
	market.Connect(agents.agents, execution.runs)
	return part{
		name: "marketplace", routes: market.Routes(),
		watchers: []watcher{{"marketplace", market.OnRunState}},
		subscribers: []subscriber{
			onAgentDeleted("take-listings-of-deleted-agents-back", func(ctx context.Context, c agentChange) error {
				return market.AgentDeleted(ctx, c.TenantID, c.ID)
			}),
		},
	}
}
