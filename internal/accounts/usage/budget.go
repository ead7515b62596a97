package usage

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
)

// Period is how long a budget lasts, in UTC. A week begins on Monday.
type Period string

// The periods.
const (
	Monthly Period = "monthly"
	Weekly  Period = "weekly"
	Daily   Period = "daily"
)

// bounds are the beginning of the period that a moment is in, and its end.
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

// Budget is what a tenant wants to spend on models at most.
type Budget struct {
	LimitNano int64 // billionths of a US dollar
	Soft      float64
	Hard      float64
	Period    Period
	UpdatedAt time.Time
}

// mark is how much a share of the budget is.
func (b *Budget) mark(share float64) int64 { return int64(float64(b.LimitNano) * share) }

// refuse is the refusal where the budget is spent.
func (b *Budget) refuse(spent int64, now time.Time) error {
	_, resets := b.Period.bounds(now)
	f := fault.New(fault.Forbidden, quota.CodeBudget,
		"The company's %s budget of $%.2f is used up: $%.2f are spent. It is new at %s, and an admin can raise it.",
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

	LimitUSD float64 `json:"limit_usd" required:"true" exclusiveMinimum:"0" maximum:"1000000000" doc:"US dollars for model calls in a period, by the catalogue's prices."`
	Soft     float64 `json:"soft_threshold" default:"0.8" exclusiveMinimum:"0" maximum:"1" doc:"The share at which admins are told."`
	Hard     float64 `json:"hard_threshold" default:"1" exclusiveMinimum:"0" maximum:"1" doc:"The share at which runs and model calls are refused."`
	Period   Period  `json:"period" enum:"monthly,weekly,daily" default:"monthly"`
}

// BudgetAnswer is a budget and what is left of it.
type BudgetAnswer struct {
	_ struct{} `json:"-" name:"BillingBudget"`

	Configured bool          `json:"configured" required:"true"`
	Budget     *budgetFields `json:"budget" required:"true"`
	Status     *budgetStatus `json:"status" required:"true"`
}

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
	RemainingUSD float64   `json:"remaining_usd" doc:"Up to the hard threshold; never below 0."`
	Utilization  float64   `json:"utilization" doc:"The share of the limit that is spent, 1 at most."`
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

// spentOf sums what was spent in the period of a budget, from the days.
func (s *Service) spentOf(ctx context.Context, tx txn.Tx, tenant string, b *Budget, now time.Time) (int64, error) {
	if b == nil {
		return 0, nil
	}
	from, to := b.Period.bounds(now)
	return s.Store.GetSpent(ctx, tx, tenant, dayOf(from), dayOf(to.Add(-1)))
}

func (s *Service) getBudget(ctx context.Context, who authz.Caller, _ *struct{}) (BudgetAnswer, error) {
	t, err := s.Store.GetTerms(ctx, nil, who.TenantID)
	if err != nil {
		return BudgetAnswer{}, err
	}
	now := s.Clock.Now()
	spent, err := s.spentOf(ctx, nil, who.TenantID, t.Budget, now)
	return showBudget(t.Budget, spent, now), err
}

type setBudgetIn struct {
	Body newBudget
}

func (s *Service) setBudget(ctx context.Context, who authz.Caller, in *setBudgetIn) (out BudgetAnswer, err error) {
	body := &in.Body
	if body.Hard < body.Soft {
		return out, fault.BadFields(fault.Field{Field: "hard_threshold", Message: "it is less than soft_threshold"})
	}
	limit := int64(body.LimitUSD * 1e9)
	if limit == 0 {
		return out, fault.BadFields(fault.Field{Field: "limit_usd", Message: "it is less than a billionth of a dollar"})
	}
	return s.writeBudget(ctx, who, "billing.budget_updated", func(tx txn.Tx, now time.Time) (*Budget, error) {
		b := &Budget{LimitNano: limit, Soft: body.Soft, Hard: body.Hard, Period: body.Period, UpdatedAt: now}
		return b, s.Store.PutBudgetTx(tx, who.TenantID, *b)
	})
}

func (s *Service) dropBudget(ctx context.Context, who authz.Caller, _ *struct{}) (BudgetAnswer, error) {
	return s.writeBudget(ctx, who, "billing.budget_deleted", func(tx txn.Tx, _ time.Time) (*Budget, error) {
		return nil, s.Store.DeleteBudgetTx(tx, who.TenantID)
	})
}

// writeBudget makes a change of the budget, and gives what it is then.
func (s *Service) writeBudget(ctx context.Context, who authz.Caller, action string, change func(txn.Tx, time.Time) (*Budget, error)) (out BudgetAnswer, err error) {
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		now := s.Clock.Now()
		b, err := change(tx, now)
		if err != nil {
			return err
		}
		spent, err := s.spentOf(tx.Context(), tx, who.TenantID, b, now)
		if err != nil {
			return err
		}
		out = showBudget(b, spent, now)
		if s.Audit != nil {
			details, err := json.Marshal(out.Budget)
			if err != nil {
				return err
			}
			entry := audit.Entry{Action: action, TargetType: "budget", TargetID: who.TenantID}
			if b != nil {
				entry.Details = details
			}
			if err := s.Audit.Record(tx, who, entry); err != nil {
				return err
			}
		}
		tx.AfterCommit(func() { s.TermsChanged(who.TenantID) })
		return txn.Answer(tx, out)
	})
	return out, err
}
