package usage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/kernel/quota"
)

// LLMUsage is the use of the model proxy: calls that are not part of a run.
type LLMUsage struct {
	_ struct{} `json:"-" name:"LlmUsageSummary"`

	Plan    string      `json:"plan" required:"true"`
	Period  llmPeriod   `json:"billing_period" required:"true" doc:"The current month, UTC."`
	Usage   llmCounts   `json:"usage" required:"true"`
	Limits  llmLimits   `json:"limits" required:"true" doc:"Limits of the plan; null: no limit."`
	Models  *[]string   `json:"models" required:"true" doc:"Models of the plan; a trailing * matches any ending. Null: all."`
	ByModel []ModelPart `json:"by_model" required:"true"`
}

type llmPeriod struct {
	_ struct{} `json:"-" name:"LlmUsagePeriod"`

	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

type llmCounts struct {
	_ struct{} `json:"-" name:"LlmUsageCounts"`

	Minute    int64  `json:"requests_this_minute" required:"true" doc:"Requests admitted by this node."`
	Hour      int64  `json:"requests_this_hour" required:"true" doc:"Of all nodes if the plan limits them, otherwise of this node."`
	Day       int64  `json:"requests_today" required:"true" doc:"As requests_this_hour."`
	Used      int64  `json:"tokens_used" required:"true" doc:"Tokens used by the proxy this month."`
	Remaining *int64 `json:"tokens_remaining" required:"true" doc:"Remaining tokens of the month, which runs use too; null: no limit."`
}

type llmLimits struct {
	_ struct{} `json:"-" name:"LlmUsageLimits"`

	Minute *int64 `json:"requests_per_minute" required:"true"`
	Hour   *int64 `json:"requests_per_hour" required:"true"`
	Day    *int64 `json:"requests_per_day" required:"true"`
	Tokens *int64 `json:"tokens_per_month" required:"true"`
}

func (s reports) llmRoute() route.Route {
	return route.Action(route.Row{
		Method: "GET", Path: "/api/v1/llm/usage", ID: "getLlmUsage", Tag: "Providers", Scopes: []authz.Scope{"agents:read"}, Role: authz.Viewer,
		Summary: "Get usage of the model proxy", Doc: "Does not include usage by runs; see GET /api/v1/usage.",
	}, s.llmUsage)
}

func (s reports) llmUsage(ctx context.Context, who authz.Caller, _ *struct{}) (out LLMUsage, err error) {
	v, err := s.tenants.current(ctx, who.TenantID)
	if err != nil {
		return out, err
	}
	now := s.clock.Now()
	month := monthOf(now)
	w, err := wholeMonth(now, month)
	if err != nil {
		return out, err
	}
	st, limits := s.tenants.state(who.TenantID), v.plan.Limits
	if limitsAllNodes(&limits) {
		if err := s.proxy.readRequests(ctx, who.TenantID, st, now); err != nil {
			return out, err
		}
	}
	rows, err := s.store.ListRows(ctx, who.TenantID, Query{From: dayOf(w.from), To: dayOf(w.to)})
	if err != nil {
		return out, err
	}
	models := map[string]quota.Use{}
	var total quota.Use
	for _, r := range rows {
		if slices.Contains(quota.ProxySources, r.Source) {
			models[r.Model] = Sum(models[r.Model], r.Use)
			total = Sum(total, r.Use)
		}
	}
	requests := st.requestsAs(now)
	out = LLMUsage{
		Plan: v.plan.ID, Period: llmPeriod{Start: w.from, End: quota.Month.End(now)}, ByModel: modelParts(models),
		Usage: llmCounts{Minute: requests[0].all(), Hour: requests[1].all(), Day: requests[2].all(),
			Used: total.InputTokens + total.OutputTokens},
		Limits: llmLimits{Minute: limits.RequestsPerMinute, Hour: limits.RequestsPerHour, Day: limits.RequestsPerDay,
			Tokens: limits.TokensPerMonth},
	}
	if v.plan.Models != nil {
		out.Models = &v.plan.Models
	}
	if limits.TokensPerMonth == nil {
		return out, nil
	}
	totals, err := s.store.ListTotals(ctx, who.TenantID, month)
	if err != nil {
		return out, err
	}
	left := max(0, *limits.TokensPerMonth-totals[0].Tokens)
	out.Usage.Remaining = &left
	return out, nil
}

func (st *tenantState) requestsAs(now time.Time) requestCounters {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.requests.roll(now)
	return st.requests
}

// modelParts lists models by tokens used, most first.
func modelParts(models map[string]quota.Use) []ModelPart {
	all := []ModelPart{}
	for name, u := range models {
		a := amountsOf(u)
		all = append(all, ModelPart{
			Model: name, InputTokens: a.InputTokens, OutputTokens: a.OutputTokens, ThinkingTokens: a.ThinkingTokens,
			CachedTokens: a.CachedTokens, CacheWriteTokens: a.CacheWriteTokens,
			TotalTokens: a.TotalTokens, ModelCalls: a.ModelCalls, TotalCost: a.TotalCost,
		})
	}
	slices.SortFunc(all, func(a, b ModelPart) int {
		return cmp.Or(cmp.Compare(b.TotalTokens, a.TotalTokens), strings.Compare(a.Model, b.Model))
	})
	return all
}
