package usage

import (
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
	row := func(method, path, id, summary, doc string) route.Row {
		return route.Row{
			Method: method, Path: "/api/v1" + path, ID: id, Tag: "Billing", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"billing:read"}, Role: authz.Viewer,
		}
	}
	sum := row("GET", "/usage", "getUsage", "Sum what was used in a month",
		"Counted in the transactions of what was used: it agrees with the metrics of the runs. A run's tokens count on the day on which they were used.")
	sum.Errors = []int{422}
	series := row("GET", "/usage/timeseries", "getUsageTimeseries", "List what was used day by day", "")
	series.Errors = []int{400}
	set := row("PUT", "/billing/budget", "setBillingBudget", "Say what may be spent on models in a period",
		"Replaces the budget that there is. At the soft threshold the admins are told; at the hard one runs and model calls are refused with BUDGET_EXCEEDED until the period ends.")
	set.Role, set.Errors = authz.Admin, []int{422}
	drop := row("DELETE", "/billing/budget", "deleteBillingBudget", "Have no budget any more", "Also where there is none.")
	drop.Role = authz.Admin
	return []route.Route{
		route.Action(sum, s.usage),
		route.Action(row("GET", "/usage/quota", "checkQuota", "See how much of the plan is left", ""), s.quota),
		route.Action(series, s.timeseries),
		s.llmRoute(),
		route.Action(row("GET", "/billing/plans", "listBillingPlans", "List the plans of this deployment",
			"Its operator puts companies on plans; nothing is sold here."), s.plans),
		route.Action(row("GET", "/billing/budget", "getBillingBudget", "Read the budget, and what is spent of it", ""), s.getBudget),
		route.Action(set, s.setBudget),
		route.Action(drop, s.dropBudget),
	}
}

type usageIn struct {
	Period    string `query:"period" doc:"A month, YYYY-MM; the one that is now if it is left out."`
	Days      string `query:"days" doc:"The last so many days, today included, in place of a month: 1 to 90."`
	AgentID   string `query:"agent_id" doc:"Only what this agent used, also one that is deleted."`
	Breakdown string `query:"breakdown" doc:"model, source and key, or some of them by commas: adds by_model, by_source and by_key."`
}

func (s *Service) usage(ctx context.Context, who authz.Caller, in *usageIn) (Summary, error) {
	var wrong []fault.Field
	var parts []string
	for part := range strings.SplitSeq(in.Breakdown, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if part != byModel && part != bySource && part != byKey {
			wrong = append(wrong, fault.Field{Field: "breakdown", Message: "expected model, source, key or some of them by commas"})
			break
		}
		parts = append(parts, part)
	}
	now := s.Clock.Now()
	w, err := wholeMonth(now, in.Period)
	if err != nil {
		wrong = append(wrong, fault.From(err).Fields...)
	}
	if wrong != nil {
		return Summary{}, fault.BadFields(wrong...)
	}
	if in.Days != "" && in.Period == "" {
		w = lastDays(now, days(in.Days, w.days()))
	}
	return s.summary(ctx, who.TenantID, w, agentOf(in.AgentID), parts)
}

// days reads how many are asked for: clamped as limits of lists are, and other
// where it is no number.
func days(text string, other int) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return other
	}
	return min(max(n, 1), maxDays)
}

// agentOf is an agent's id; of what is none, one that nobody has.
func agentOf(id string) string {
	if id == "" || ident.Valid(id) {
		return id
	}
	return "?"
}

type seriesIn struct {
	Metric  string `query:"metric" doc:"runs, the default, tokens or cost."`
	Days    string `query:"days" doc:"How many days, today included: 1 to 90, 14 if it is left out."`
	AgentID string `query:"agent_id"`
}

func (s *Service) timeseries(ctx context.Context, who authz.Caller, in *seriesIn) (Series, error) {
	if in.Metric == "" {
		in.Metric = "runs"
	}
	value, ok := metrics[in.Metric]
	if !ok {
		return Series{}, fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter metric is one of runs, tokens and cost.")
	}
	return s.series(ctx, who.TenantID, lastDays(s.Clock.Now(), days(in.Days, 14)), agentOf(in.AgentID), value)
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
	Limits   quota.Limits `json:"limits" required:"true" doc:"Null is no limit."`
	Current  bool         `json:"current" required:"true" doc:"Whether it holds for the company."`
	Checkout bool         `json:"checkout_available" required:"true" doc:"Always false: plans are the operator's to give."`
}

func (s *Service) plans(ctx context.Context, who authz.Caller, _ *struct{}) (PlanList, error) {
	current, err := s.PlanOf(ctx, who.TenantID)
	if err != nil {
		return PlanList{}, err
	}
	all := s.Plans()
	list := PlanList{Plans: make([]shownPlan, len(all))}
	for i, p := range all {
		list.Plans[i] = shownPlan{ID: p.ID, Name: p.Name, Limits: p.Limits, Current: p.ID == current.ID}
	}
	return list, nil
}
