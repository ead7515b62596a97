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

// overage reports whether a tenant may use more than its plan includes: it switched that
// on, the plan is paid for, and a budget bounds it.
func (v *view) overage() bool { return v.paid && v.budget != nil && v.budget.Overage }

// paid reports whether a plan is one that companies pay for.
func (c *tenantCache) paid(p quota.Plan) bool { return p.PriceCents > 0 || c.shop.sells(p.ID) }

// noOverage returns why a tenant cannot use more than its plan includes; "": it can.
func (c *tenantCache) noOverage(p quota.Plan, b *Budget) string {
	switch {
	case !c.paid(p):
		return "needs a plan that is paid for; the company's is " + p.Name
	case b == nil:
		return "needs a budget, which bounds it: set one with PUT /api/v1/billing/budget"
	}
	return ""
}

// OverageAnswer is whether a tenant may use more than its plan includes, and what it does.
type OverageAnswer struct {
	_ struct{} `json:"-" name:"BillingOverage"`

	Enabled   bool          `json:"enabled" required:"true" doc:"Whether runs, tokens and tool calls beyond the plan's limits are allowed, until the budget is used up."`
	Available bool          `json:"available" required:"true" doc:"Whether it can be switched on: the plan is one that is paid for, and there is a budget."`
	Reason    string        `json:"reason,omitzero" doc:"Why it cannot."`
	CapUSD    *float64      `json:"cap_usd" required:"true" doc:"US dollars of the budget's period at which runs are refused all the same; null: there is no budget."`
	Over      []overCounter `json:"over" required:"true" doc:"Counters that are above the plan's limits now."`
}

type overCounter struct {
	_ struct{} `json:"-" name:"BillingOverageCounter"`

	Resource quota.Resource `json:"resource" required:"true" doc:"Its name in limits."`
	Used     int64          `json:"used" required:"true"`
	Limit    int64          `json:"limit" required:"true" doc:"What the plan includes."`
	OverBy   int64          `json:"over_by" required:"true"`
	ResetsAt time.Time      `json:"resets_at" required:"true"`
}

func (s budgets) showOverage(p quota.Plan, b *Budget, totals []Totals, now time.Time) OverageAnswer {
	out := OverageAnswer{Reason: s.tenants.noOverage(p, b), Over: []overCounter{}}
	out.Available = out.Reason == ""
	out.Enabled = out.Available && b.Overage
	if b != nil {
		limit := usd(b.mark(b.Hard))
		out.CapUSD = &limit
	}
	v := view{inMonth: totals[0], inDay: totals[1]}
	for _, r := range quota.Refilling {
		if limit := p.Limits.Of(r); limit != nil && v.of(r) > *limit {
			out.Over = append(out.Over, overCounter{
				Resource: r, Used: v.of(r), Limit: *limit, OverBy: v.of(r) - *limit, ResetsAt: r.Period().End(now),
			})
		}
	}
	return out
}

// overageOf reads what showOverage shows.
func (s budgets) overageOf(ctx context.Context, tenant string) (p quota.Plan, b *Budget, totals []Totals, err error) {
	t, err := s.store.GetTerms(ctx, nil, tenant)
	if err != nil {
		return p, nil, nil, err
	}
	p, _ = s.tenants.plans.Of(t.Plan)
	now := s.clock.Now()
	totals, err = s.store.ListTotals(ctx, tenant, monthOf(now), dayOf(now))
	return p, t.Budget, totals, err
}

func (s budgets) getOverage(ctx context.Context, who authz.Caller, _ *struct{}) (OverageAnswer, error) {
	p, b, totals, err := s.overageOf(ctx, who.TenantID)
	if err != nil {
		return OverageAnswer{}, err
	}
	return s.showOverage(p, b, totals, s.clock.Now()), nil
}

type (
	setOverageIn struct{ Body newOverage }
	newOverage   struct {
		_ struct{} `json:"-" name:"BillingOverageReplace"`

		Enabled bool `json:"enabled" required:"true" doc:"Whether runs, tokens and tool calls beyond the plan's limits are allowed."`
	}
)

func (s budgets) setOverage(ctx context.Context, who authz.Caller, in *setOverageIn) (out OverageAnswer, err error) {
	p, _, totals, err := s.overageOf(ctx, who.TenantID)
	if err != nil {
		return out, err
	}
	err = s.writer.Write(ctx, func(tx txn.Tx) error {
		b, err := s.store.LockBudgetTx(tx, who.TenantID)
		if err != nil {
			return err
		}
		if why := s.tenants.noOverage(p, b); in.Body.Enabled && why != "" {
			return fault.BadFields(fault.Field{Field: "enabled", Message: why})
		}
		if b != nil && b.Overage != in.Body.Enabled {
			b.Overage = in.Body.Enabled
			if err := s.store.UpdateOverageTx(tx, who.TenantID, b.Overage); err != nil {
				return err
			}
		}
		out = s.showOverage(p, b, totals, s.clock.Now())
		if s.audit != nil {
			details, err := json.Marshal(map[string]bool{"enabled": in.Body.Enabled})
			if err != nil {
				return err
			}
			entry := audit.Entry{Action: "billing.overage_updated", TargetType: "budget", TargetID: who.TenantID, Details: details}
			if err := s.audit.Record(tx, who, entry); err != nil {
				return err
			}
		}
		tx.AfterCommit(func() { s.tenants.termsChanged(who.TenantID) })
		return txn.Answer(tx, out)
	})
	return out, err
}
