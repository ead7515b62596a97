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

// LLMUsage is what went through the model proxy: calls that are no part of a run.
type LLMUsage struct {
	_ struct{} `json:"-" name:"LlmUsageSummary"`

	Plan    string      `json:"plan" required:"true"`
	Period  llmPeriod   `json:"billing_period" required:"true" doc:"The month that is now, UTC."`
	Usage   llmCounts   `json:"usage" required:"true"`
	Limits  llmLimits   `json:"limits" required:"true" doc:"Of the plan; null is no limit."`
	Models  *[]string   `json:"models" required:"true" doc:"Those that the plan has, where a * stands for whatever follows; null is all."`
	ByModel []ModelPart `json:"by_model" required:"true"`
}

type llmPeriod struct {
	_ struct{} `json:"-" name:"LlmUsagePeriod"`

	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

type llmCounts struct {
	_ struct{} `json:"-" name:"LlmUsageCounts"`

	Minute    int64  `json:"requests_this_minute" required:"true" doc:"That this node let through."`
	Hour      int64  `json:"requests_this_hour" required:"true" doc:"By all nodes where the plan limits them, otherwise by this one."`
	Day       int64  `json:"requests_today" required:"true" doc:"The same."`
	Used      int64  `json:"tokens_used" required:"true" doc:"By the proxy in this month."`
	Remaining *int64 `json:"tokens_remaining" required:"true" doc:"Of the plan's month, of which runs take too; null where it has no limit."`
}

type llmLimits struct {
	_ struct{} `json:"-" name:"LlmUsageLimits"`

	Minute *int64 `json:"requests_per_minute" required:"true"`
	Hour   *int64 `json:"requests_per_hour" required:"true"`
	Day    *int64 `json:"requests_per_day" required:"true"`
	Tokens *int64 `json:"tokens_per_month" required:"true"`
}

func (s *Service) llmRoute() route.Route {
	return route.Action(route.Row{
		Method: "GET", Path: "/api/v1/llm/usage", ID: "getLlmUsage", Tag: "Providers", Scopes: []authz.Scope{"agents:read"}, Role: authz.Viewer,
		Summary: "See what went through the model proxy", Doc: "What runs used is not in it; see GET /api/v1/usage.",
	}, s.llmUsage)
}

func (s *Service) llmUsage(ctx context.Context, who authz.Caller, _ *struct{}) (out LLMUsage, err error) {
	v, err := s.standing(ctx, who.TenantID)
	if err != nil {
		return out, err
	}
	now := s.Clock.Now()
	month := monthOf(now)
	w, err := wholeMonth(now, month)
	if err != nil {
		return out, err
	}
	st, limits := s.of(who.TenantID), v.plan.Limits
	if stores(&limits) {
		if err := s.readRequests(ctx, who.TenantID, st, now); err != nil {
			return out, err
		}
	}
	rows, err := s.Store.ListRows(ctx, who.TenantID, Query{From: dayOf(w.from), To: dayOf(w.to)})
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
		Usage:  llmCounts{Minute: requests[0].all(), Hour: requests[1].all(), Day: requests[2].all(), Used: total.InputTokens + total.OutputTokens},
		Limits: llmLimits{Minute: limits.RequestsPerMinute, Hour: limits.RequestsPerHour, Day: limits.RequestsPerDay, Tokens: limits.TokensPerMonth},
	}
	if v.plan.Models != nil {
		out.Models = &v.plan.Models
	}
	if limits.TokensPerMonth == nil {
		return out, nil
	}
	totals, err := s.Store.ListTotals(ctx, who.TenantID, month)
	if err != nil {
		return out, err
	}
	left := max(0, *limits.TokensPerMonth-totals[0].Tokens)
	out.Usage.Remaining = &left
	return out, nil
}

func (st *standing) requestsAs(now time.Time) tallies {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.requests.turn(now)
	return st.requests
}

// modelParts lists models, those first that used most tokens.
func modelParts(models map[string]quota.Use) []ModelPart {
	all := []ModelPart{}
	for name, u := range models {
		a := amountsOf(u)
		all = append(all, ModelPart{
			Model: name, InputTokens: a.InputTokens, OutputTokens: a.OutputTokens, ThinkingTokens: a.ThinkingTokens,
			TotalTokens: a.TotalTokens, ModelCalls: a.ModelCalls, TotalCost: a.TotalCost,
		})
	}
	slices.SortFunc(all, func(a, b ModelPart) int {
		return cmp.Or(cmp.Compare(b.TotalTokens, a.TotalTokens), strings.Compare(a.Model, b.Model))
	})
	return all
}
