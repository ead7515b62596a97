package usage

import (
	"context"
	"time"

	"agentd/internal/kernel/quota"
)

// AgentUses returns what agents used on the last days, including today, by agent.
func AgentUses(ctx context.Context, s Store, tenant string, now time.Time, days int, agents []string) (map[string]quota.Use, error) {
	names := make([]string, days)
	for i := range names {
		names[i] = dayOf(now.UTC().AddDate(0, 0, -i))
	}
	return s.ListAgentUses(ctx, tenant, names, agents)
}

// USD returns a use's cost in dollars.
func USD(u quota.Use) float64 { return usd(u.CostNano) }
