package app

import (
	"context"
	"time"

	"agentd/internal/accounts/usage"
	"agentd/internal/agents/agent"
	"agentd/internal/base/clock"
	"agentd/internal/base/page"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/kernel/quota"
)

// agentStats finds out how agents do, for a page of a list: by three statements, however
// many agents there are.
type agentStats struct {
	clock clock.Clock
	runs  *runsql.Activity
	usage usage.Store
}

// of implements agent.StatsFunc.
func (s agentStats) of(ctx context.Context, tenant string, ids []string) (map[string]agent.Stats, error) {
	now := s.clock.Now()
	recent, err := s.runs.ListRecent(ctx, tenant, ids, now.Add(-24*time.Hour), page.MaxCount+1)
	if err != nil {
		return nil, err
	}
	uses, err := usage.AgentUses(ctx, s.usage, tenant, now, 30, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[string]agent.Stats, len(ids))
	for _, id := range ids {
		out[id] = statsOf(recent[id], uses[id])
	}
	return out, nil
}

func statsOf(r run.Recent, u quota.Use) agent.Stats {
	st := agent.Stats{
		Runs24h: min(r.Runs, page.MaxCount), Failures24h: min(r.Failures, page.MaxCount), LowerBound: r.Runs > page.MaxCount,
		LastRunID: r.LastID, LastStatus: string(r.LastStatus),
		Runs30d: u.Runs, Failures30d: u.Failures, Cost30d: usage.USD(u),
	}
	if !r.LastAt.IsZero() {
		st.LastRunAt = &r.LastAt
	}
	if ended := u.Ended(); ended > 0 {
		rate := float64(u.Failures) / float64(ended)
		st.FailureRate = &rate
	}
	return st
}
