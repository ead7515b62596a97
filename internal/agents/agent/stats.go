package agent

import (
	"context"
	"time"

	"agentd/internal/kernel/resource"
)

// Stats is how an agent does, in lists of agents.
type Stats struct {
	_ struct{} `json:"-" name:"AgentStats"`

	Runs24h     int64      `json:"runs_24h" required:"true" doc:"Runs that were made in the last 24 hours, counted up to 1,000."`
	Failures24h int64      `json:"failures_24h" required:"true" doc:"Those of the last 24 hours that failed, timed out, were blocked or rejected, counted up to 1,000."`
	LowerBound  bool       `json:"counts_are_lower_bounds,omitzero" doc:"Whether there are more than the 1,000 runs or failures of 24 hours that are counted."`
	LastRunID   string     `json:"last_run_id,omitzero" doc:"The newest run. Absent: there is none."`
	LastRunAt   *time.Time `json:"last_run_at,omitzero" doc:"When the newest run was made."`
	LastStatus  string     `json:"last_run_status,omitzero" doc:"State of the newest run."`

	Runs30d     int64    `json:"runs_30d" required:"true" doc:"Runs that began on the last 30 days, including today (UTC), also those that were deleted since."`
	Failures30d int64    `json:"failures_30d" required:"true" doc:"Runs that failed, timed out, were blocked or rejected on these days."`
	FailureRate *float64 `json:"failure_rate_30d" required:"true" doc:"Share of failures in the runs that ended on these days, 0 to 1. Null: none ended."`
	Cost30d     float64  `json:"cost_30d_usd" required:"true" doc:"What they cost on these days; models without a price count as 0."`
}

// StatsFunc returns how agents of a tenant do, by their ids.
type StatsFunc func(ctx context.Context, tenant string, ids []string) (map[string]Stats, error)

// include is the member stats of lists; the zero Include where nothing is known of runs.
func (f StatsFunc) include() resource.Include {
	if f == nil {
		return resource.Include{}
	}
	return resource.Including("stats", "how many runs it had and how they ended, the last one, and what it cost.", f)
}
