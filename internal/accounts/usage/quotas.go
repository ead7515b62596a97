package usage

import (
	"context"
	"math"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/quota"
)

// Quota reports how much of the plan is used.
type Quota struct {
	_ struct{} `json:"-" name:"QuotaStatus"`

	Plan      string       `json:"plan" required:"true"`
	Allowed   bool         `json:"allowed" required:"true" doc:"Whether a run can be started now."`
	Reason    string       `json:"reason,omitzero" doc:"Why a run cannot be started."`
	Usage     quotaUsage   `json:"usage" required:"true"`
	Daily     quotaDay     `json:"daily" required:"true" doc:"Tokens of today, UTC."`
	ResetsAt  quotaResets  `json:"resets_at" required:"true"`
	Limits    quota.Limits `json:"limits" required:"true" doc:"Null: no limit."`
	Counters  []counter    `json:"counters" required:"true"`
	Resources heldThings   `json:"resource_usage" required:"true" doc:"Number of things, by their names in limits."`
}

type heldThings struct {
	_ struct{} `json:"-" name:"QuotaThings"`

	Agents         *heldThing `json:"agents,omitzero"`
	Teams          *heldThing `json:"teams,omitzero"`
	KnowledgeBases *heldThing `json:"knowledge_bases,omitzero"`
	Workspaces     *heldThing `json:"workspaces,omitzero" doc:"Shared workspaces; workspaces of agents do not count."`
	Webhooks       *heldThing `json:"webhooks,omitzero"`
	ActiveSessions *heldThing `json:"active_sessions,omitzero"`
	TeamRuns       *heldThing `json:"concurrent_team_runs,omitzero"`
	OverTier       bool       `json:"any_over_tier" required:"true" doc:"Whether anything exceeds the plan, as after a change of plans."`
}

func (h *heldThings) at(r quota.Resource) **heldThing {
	return map[quota.Resource]**heldThing{
		quota.Agents: &h.Agents, quota.Teams: &h.Teams, quota.KnowledgeBases: &h.KnowledgeBases,
		quota.Workspaces: &h.Workspaces, quota.Webhooks: &h.Webhooks, quota.ActiveSessions: &h.ActiveSessions,
		quota.TeamRuns: &h.TeamRuns,
	}[r]
}

type quotaUsage struct {
	_ struct{} `json:"-" name:"QuotaUsage"`

	Period    string  `json:"period" required:"true" doc:"The month, YYYY-MM."`
	Runs      int64   `json:"runs_count" required:"true"`
	Tokens    int64   `json:"total_tokens" required:"true"`
	ToolCalls int64   `json:"tool_calls_count" required:"true"`
	TotalCost float64 `json:"total_cost" required:"true"`
}

type quotaDay struct {
	_ struct{} `json:"-" name:"QuotaDay"`

	Used      int64     `json:"used" required:"true"`
	Limit     *int64    `json:"limit" required:"true"`
	Remaining *int64    `json:"remaining" required:"true"`
	ResetsAt  time.Time `json:"resets_at" required:"true"`
}

type quotaResets struct {
	_ struct{} `json:"-" name:"QuotaResets"`

	Day   time.Time `json:"day" required:"true"`
	Month time.Time `json:"month" required:"true"`
}

type counter struct {
	_ struct{} `json:"-" name:"QuotaCounter"`

	Resource quota.Resource `json:"resource" required:"true" doc:"Its name in limits."`
	Kind     string         `json:"kind" enum:"runs,tokens,tool_calls" required:"true"`
	Used     int64          `json:"used" required:"true"`
	Limit    *int64         `json:"limit" required:"true"`
	Period   quota.Period   `json:"period" enum:"day,month" required:"true"`
	ResetsAt time.Time      `json:"resets_at" required:"true"`
}

type heldThing struct {
	_ struct{} `json:"-" name:"QuotaHeld"`

	Count  int64  `json:"count" required:"true"`
	Limit  *int64 `json:"limit" required:"true"`
	OverBy int64  `json:"over_by" required:"true"`
}

func (s reports) quota(ctx context.Context, who authz.Caller, _ *struct{}) (out Quota, err error) {
	st, err := s.tenants.current(ctx, who.TenantID)
	if err != nil {
		return out, err
	}
	now := s.clock.Now()
	month, day := monthOf(now), dayOf(now)
	totals, err := s.store.ListTotals(ctx, who.TenantID, month, day)
	if err != nil {
		return out, err
	}
	st.month, st.day, st.inMonth, st.inDay = month, day, totals[0], totals[1]
	limits := st.plan.Limits
	out = Quota{
		Plan: st.plan.ID, Allowed: true, Limits: limits,
		Usage: quotaUsage{Period: month, Runs: totals[0].Runs, Tokens: totals[0].Tokens, ToolCalls: totals[0].ToolCalls,
			TotalCost: usd(totals[0].CostNano)},
		Daily:    quotaDay{Used: totals[1].Tokens, Limit: limits.TokensPerDay, ResetsAt: quota.Day.End(now)},
		ResetsAt: quotaResets{Day: quota.Day.End(now), Month: quota.Month.End(now)},
	}
	if l := limits.TokensPerDay; l != nil {
		left := max(0, *l-totals[1].Tokens)
		out.Daily.Remaining = &left
	}
	for _, r := range quota.Refilling {
		out.Counters = append(out.Counters, counter{Resource: r, Kind: r.Kind(), Used: st.of(r), Limit: limits.Of(r), Period: r.Period(),
			ResetsAt: r.Period().End(now)})
	}
	if err := s.meter.AllowRun(ctx, who.TenantID); err != nil {
		f := fault.From(err)
		if f.Kind == fault.Unavailable || f.Kind == fault.Internal {
			return out, err
		}
		out.Allowed, out.Reason = false, f.Detail
	}
	for _, r := range quota.Things {
		n, counted, err := s.store.CountHeld(ctx, nil, who.TenantID, r, now, math.MaxInt64)
		if err != nil {
			return out, err
		}
		if !counted {
			continue
		}
		h := &heldThing{Count: n, Limit: limits.Of(r)}
		if h.Limit != nil {
			h.OverBy = max(0, n-*h.Limit)
		}
		out.Resources.OverTier = out.Resources.OverTier || h.OverBy > 0
		*out.Resources.at(r) = h
	}
	return out, nil
}
