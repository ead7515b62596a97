package usage

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/kernel/quota"
)

// Routes lists the operations on usage, plans and the budget.
func (s *Service) Routes() []route.Route {
	r, b := s.reports, s.budgets
	row := func(method, path, id, summary, doc string) route.Row {
		return route.Row{
			Method: method, Path: "/api/v1" + path, ID: id, Tag: "Billing", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"billing:read"}, Role: authz.Viewer,
		}
	}
	sum := row("GET", "/usage", "getUsage", "Get usage",
		"Usage is counted in the transaction that consumes it, so it equals the metrics of the runs. "+
			"A run's tokens count on the day on which they were used.")
	sum.Errors = []int{422}
	series := row("GET", "/usage/timeseries", "getUsageTimeseries", "Get usage by day", "")
	series.Errors = []int{400}
	set := row("PUT", "/billing/budget", "setBillingBudget", "Set the budget",
		"Replaces the existing budget. At the soft threshold the admins are notified; "+
			"at the hard one runs and model calls are refused with BUDGET_EXCEEDED until the period ends.")
	set.Role, set.Errors = authz.Admin, []int{422}
	del := row("DELETE", "/billing/budget", "deleteBillingBudget", "Delete the budget", "Succeeds if there is none.")
	del.Role = authz.Admin
	get := row("GET", "/billing/budget", "getBillingBudget", "Get the budget and what is spent of it", "")
	over := row("GET", "/billing/overage", "getBillingOverage", "Get whether more than the plan includes may be used", "")
	more := row("PUT", "/billing/overage", "setBillingOverage", "Allow more than the plan includes",
		"With it, runs, tokens and tool calls beyond the plan's limits are counted instead of refused, until the budget is used up. "+
			"It needs a plan that is paid for and a budget, which cannot be deleted meanwhile.")
	more.Role, more.Errors, more.Example = authz.Admin, []int{422}, `{"enabled":false}`
	del.Errors = []int{409}
	get.Conditional, set.Conditional, del.Conditional = true, true, true
	return []route.Route{
		route.Action(sum, r.usage),
		route.Action(row("GET", "/usage/quota", "checkQuota", "Get the status of the plan's limits", ""), r.quota),
		route.Action(series, r.timeseries),
		r.llmRoute(),
		route.Action(row("GET", "/billing/plans", "listBillingPlans", "List plans",
			"The plans of this deployment. Its operator assigns plans to companies; those with a price at Stripe can be bought."), r.listPlans),
		route.Action(get, b.getBudget),
		route.Action(set, b.setBudget),
		route.Action(del, b.deleteBudget),
		route.Action(over, b.getOverage),
		route.Action(more, b.setOverage),
	}
}

type usageIn struct {
	Period    string `query:"period" doc:"A month, YYYY-MM. Default: the current month."`
	Days      string `query:"days" doc:"The last 1 to 90 days, including today, instead of a month."`
	AgentID   string `query:"agent_id" doc:"Only usage of this agent, which may be deleted."`
	Breakdown string `query:"breakdown" doc:"Comma-separated: model, source, key. Adds by_model, by_source, by_key."`
}

func (s reports) usage(ctx context.Context, who authz.Caller, in *usageIn) (Summary, error) {
	var invalid []fault.Field
	var parts []string
	for part := range strings.SplitSeq(in.Breakdown, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if part != byModel && part != bySource && part != byKey {
			invalid = append(invalid, fault.Field{Field: "breakdown", Message: "must be model, source, key or a comma-separated list of them"})
			break
		}
		parts = append(parts, part)
	}
	now := s.clock.Now()
	w, err := wholeMonth(now, in.Period)
	if err != nil {
		invalid = append(invalid, fault.From(err).Fields...)
	}
	if invalid != nil {
		return Summary{}, fault.BadFields(invalid...)
	}
	if in.Days != "" && in.Period == "" {
		w = lastDays(now, days(in.Days, w.days()))
	}
	return s.summary(ctx, who.TenantID, w, agentOf(in.AgentID), parts)
}

// days parses a number of days and clamps it, as limits of lists are. It returns
// fallback for a text that is not a number.
func days(text string, fallback int) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return fallback
	}
	return min(max(n, 1), maxDays)
}

// agentOf returns an agent ID. For an invalid one it returns an ID that no agent
// has.
func agentOf(id string) string {
	if id == "" || ident.Valid(id) {
		return id
	}
	return "?"
}

type seriesIn struct {
	Metric  string `query:"metric" doc:"runs (default), tokens or cost."`
	Days    string `query:"days" doc:"Number of days, including today: 1 to 90. Default: 14."`
	AgentID string `query:"agent_id"`
}

func (s reports) timeseries(ctx context.Context, who authz.Caller, in *seriesIn) (Series, error) {
	if in.Metric == "" {
		in.Metric = "runs"
	}
	value, ok := metrics[in.Metric]
	if !ok {
		return Series{}, fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter metric must be runs, tokens or cost.")
	}
	return s.series(ctx, who.TenantID, lastDays(s.clock.Now(), days(in.Days, 14)), agentOf(in.AgentID), value)
}

// PlanList answers GET /billing/plans.
type PlanList struct {
	_ struct{} `json:"-" name:"BillingPlanList"`

	Plans []shownPlan `json:"plans" required:"true"`
}

type shownPlan struct {
	_ struct{} `json:"-" name:"BillingPlan"`

	ID       string       `json:"id" required:"true"`
	Name     string       `json:"name" required:"true"`
	Limits   quota.Limits `json:"limits" required:"true" doc:"Null: no limit."`
	Current  bool         `json:"current" required:"true" doc:"Whether it is the company's plan."`
	Checkout bool         `json:"checkout_available" required:"true" doc:"Whether the company can buy it with POST /billing/checkout-session. The operator assigns the others."`

	PriceCents    int64  `json:"price_amount_cents" required:"true" doc:"Price in hundredths of price_currency, as the operator names it; 0: none is named. What Stripe charges is the price that is set there."`
	PriceCurrency string `json:"price_currency" required:"true" doc:"ISO 4217, lower case."`
}

func (s reports) listPlans(ctx context.Context, who authz.Caller, _ *struct{}) (PlanList, error) {
	current, err := s.tenants.planOf(ctx, who.TenantID)
	if err != nil {
		return PlanList{}, err
	}
	all := s.plans.All()
	list := PlanList{Plans: make([]shownPlan, len(all))}
	for i, p := range all {
		list.Plans[i] = shownPlan{
			ID: p.ID, Name: p.Name, Limits: p.Limits, Current: p.ID == current.ID,
			Checkout: s.shop.sells(p.ID), PriceCents: p.PriceCents, PriceCurrency: cmp.Or(p.PriceCurrency, "usd"),
		}
	}
	return list, nil
}
