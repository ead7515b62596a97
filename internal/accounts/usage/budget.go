package usage

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
)

// Period is the period of a budget, in UTC. A week begins on Monday.
type Period string

// The periods.
const (
	Monthly Period = "monthly"
	Weekly  Period = "weekly"
	Daily   Period = "daily"
)

// bounds returns the beginning and the end of the period that contains a time.
func (p Period) bounds(at time.Time) (from, to time.Time) {
	y, m, d := at.UTC().Date()
	day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	switch p {
	case Daily:
		return day, day.AddDate(0, 0, 1)
	case Weekly:
		from = day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
		return from, from.AddDate(0, 0, 7)
	}
	from = time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	return from, from.AddDate(0, 1, 0)
}

// Budget limits what a tenant spends on models.
type Budget struct {
	LimitNano int64 // billionths of a US dollar
	Soft      float64
	Hard      float64
	Period    Period
	UpdatedAt time.Time
	Overage   bool // more than the plan includes may be used, within the budget
}

// mark returns the amount of a share of the budget.
func (b *Budget) mark(share float64) int64 { return int64(float64(b.LimitNano) * share) }

// exceeded returns the error for a budget that is used up.
func (b *Budget) exceeded(spent int64, now time.Time) error {
	_, resets := b.Period.bounds(now)
	f := fault.New(fault.Forbidden, quota.CodeBudget,
		"The company's %s budget of $%.2f is used up: $%.2f have been spent. It resets at %s; an admin can raise it.",
		b.Period, usd(b.LimitNano), usd(spent), resets.Format(time.RFC3339))
	f.Extra = map[string]any{"budget": struct {
		LimitUSD float64   `json:"limit_usd"`
		SpentUSD float64   `json:"spent_usd"`
		Period   Period    `json:"period"`
		ResetsAt time.Time `json:"resets_at"`
	}{usd(b.LimitNano), usd(spent), b.Period, resets}}
	return f
}

func usd(nano int64) float64 { return float64(nano) / 1e9 }

type newBudget struct {
	_ struct{} `json:"-" name:"BillingBudgetReplace"`

	LimitUSD float64 `json:"limit_usd" required:"true" exclusiveMinimum:"0" maximum:"1000000000" doc:"US dollars for model calls per period, by the catalogue's prices."`
	Soft     float64 `json:"soft_threshold" default:"0.8" exclusiveMinimum:"0" maximum:"1" doc:"The share at which admins are notified."`
	Hard     float64 `json:"hard_threshold" default:"1" exclusiveMinimum:"0" maximum:"1" doc:"The share at which runs and model calls are refused."`
	Period   Period  `json:"period" enum:"monthly,weekly,daily" default:"monthly" doc:"When the sum begins again: on the first of the month, on Monday, or every day, in UTC."`
}

// BudgetAnswer is a budget with its current status.
type BudgetAnswer struct {
	_ struct{} `json:"-" name:"BillingBudget"`

	Configured bool          `json:"configured" required:"true"`
	Budget     *budgetFields `json:"budget" required:"true"`
	Status     *budgetStatus `json:"status" required:"true"`
}

// Editable implements route.Editable.
func (b BudgetAnswer) Editable() any { return b.Budget }

type budgetFields struct {
	_ struct{} `json:"-" name:"BillingBudgetSettings"`

	LimitUSD  float64   `json:"limit_usd"`
	Soft      float64   `json:"soft_threshold"`
	Hard      float64   `json:"hard_threshold"`
	Period    Period    `json:"period" enum:"monthly,weekly,daily"`
	UpdatedAt time.Time `json:"updated_at"`
}

type budgetStatus struct {
	_ struct{} `json:"-" name:"BillingBudgetStatus"`

	SpentUSD     float64   `json:"spent_usd"`
	LimitUSD     float64   `json:"limit_usd"`
	RemainingUSD float64   `json:"remaining_usd" doc:"Until the hard threshold; never negative."`
	Utilization  float64   `json:"utilization" doc:"Share of the limit that is spent, at most 1."`
	PeriodStart  time.Time `json:"period_start"`
	PeriodEnd    time.Time `json:"period_end"`
	SoftAlert    bool      `json:"soft_alert"`
	HardReached  bool      `json:"hard_limit_reached"`
}

func showBudget(b *Budget, spent int64, now time.Time) BudgetAnswer {
	if b == nil {
		return BudgetAnswer{}
	}
	from, to := b.Period.bounds(now)
	return BudgetAnswer{
		Configured: true,
		Budget:     &budgetFields{LimitUSD: usd(b.LimitNano), Soft: b.Soft, Hard: b.Hard, Period: b.Period, UpdatedAt: b.UpdatedAt},
		Status: &budgetStatus{
			SpentUSD: usd(spent), LimitUSD: usd(b.LimitNano), RemainingUSD: usd(max(0, b.mark(b.Hard)-spent)),
			Utilization: min(1, float64(spent)/float64(b.LimitNano)), PeriodStart: from, PeriodEnd: to,
			SoftAlert: spent >= b.mark(b.Soft), HardReached: spent >= b.mark(b.Hard),
		},
	}
}

// budgets reads and changes budgets.
type budgets struct {
	tenants *tenantCache
	store   Store
	writer  txn.Writer
	clock   clock.Clock
	audit   audit.Recorder // nil: not recorded
}

// spentOf returns what was spent in the current period of a budget.
func (s budgets) spentOf(ctx context.Context, tx txn.Tx, tenant string, b *Budget, now time.Time) (int64, error) {
	if b == nil {
		return 0, nil
	}
	from, to := b.Period.bounds(now)
	return s.store.GetSpent(ctx, tx, tenant, dayOf(from), dayOf(to.Add(-1)))
}

func (s budgets) getBudget(ctx context.Context, who authz.Caller, _ *struct{}) (BudgetAnswer, error) {
	t, err := s.store.GetTerms(ctx, nil, who.TenantID)
	if err != nil {
		return BudgetAnswer{}, err
	}
	now := s.clock.Now()
	spent, err := s.spentOf(ctx, nil, who.TenantID, t.Budget, now)
	return showBudget(t.Budget, spent, now), err
}

type setBudgetIn struct {
	Body newBudget
}

func (s budgets) setBudget(ctx context.Context, who authz.Caller, in *setBudgetIn) (out BudgetAnswer, err error) {
	body := &in.Body
	if body.Hard < body.Soft {
		return out, fault.BadFields(fault.Field{Field: "hard_threshold", Message: "must not be less than soft_threshold"})
	}
	limit := int64(body.LimitUSD * 1e9)
	if limit == 0 {
		return out, fault.BadFields(fault.Field{Field: "limit_usd", Message: "must be at least a billionth of a dollar"})
	}
	return s.writeBudget(ctx, who, "billing.budget_updated", func(tx txn.Tx, before *Budget, now time.Time) (*Budget, error) {
		b := &Budget{LimitNano: limit, Soft: body.Soft, Hard: body.Hard, Period: body.Period, UpdatedAt: now}
		b.Overage = before != nil && before.Overage
		return b, s.store.PutBudgetTx(tx, who.TenantID, *b)
	})
}

func (s budgets) deleteBudget(ctx context.Context, who authz.Caller, _ *struct{}) (BudgetAnswer, error) {
	p, err := s.tenants.planOf(ctx, who.TenantID)
	if err != nil {
		return BudgetAnswer{}, err
	}
	return s.writeBudget(ctx, who, "billing.budget_deleted", func(tx txn.Tx, b *Budget, _ time.Time) (*Budget, error) {
		if b != nil && b.Overage && s.tenants.paid(p) {
			return nil, fault.New(fault.Conflict, "OVERAGE_ENABLED",
				"The budget bounds what is used beyond the plan. Switch that off first, with PUT /api/v1/billing/overage.")
		}
		return nil, s.store.DeleteBudgetTx(tx, who.TenantID)
	})
}

// writeBudget stores and records a change of the budget, which is called with the one
// before, and returns the new budget.
func (s budgets) writeBudget(
	ctx context.Context, who authz.Caller, action string, change func(txn.Tx, *Budget, time.Time) (*Budget, error),
) (out BudgetAnswer, err error) {
	err = s.writer.Write(ctx, func(tx txn.Tx) error {
		now := s.clock.Now()
		b, err := s.store.LockBudgetTx(tx, who.TenantID)
		if err != nil {
			return err
		}
		if err := route.Match(tx.Context(), showBudget(b, 0, now)); err != nil {
			return err
		}
		b, err = change(tx, b, now)
		if err != nil {
			return err
		}
		spent, err := s.spentOf(tx.Context(), tx, who.TenantID, b, now)
		if err != nil {
			return err
		}
		out = showBudget(b, spent, now)
		if s.audit != nil {
			details, err := json.Marshal(out.Budget)
			if err != nil {
				return err
			}
			entry := audit.Entry{Action: action, TargetType: "budget", TargetID: who.TenantID}
			if b != nil {
				entry.Details = details
			}
			if err := s.audit.Record(tx, who, entry); err != nil {
				return err
			}
		}
		tx.AfterCommit(func() { s.tenants.termsChanged(who.TenantID) })
		return txn.Answer(tx, out)
	})
	return out, err
}
