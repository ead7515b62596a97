package usage

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
)

// meter counts usage and refuses what exceeds plans and budgets.
type meter struct {
	tenants *tenantCache
	store   Store
	writer  txn.Writer
	clock   clock.Clock
	logger  *slog.Logger
	outbox  resource.Outbox

	appended func() // called after a commit that left entries
}

// AllowRun implements quota.Meter.
func (s *meter) AllowRun(ctx context.Context, tenant string) error {
	v, err := s.tenants.current(ctx, tenant)
	if err != nil {
		return err
	}
	if v.pastDue {
		return errPastDue
	}
	now := s.clock.Now()
	if f := v.exhausted(now, quota.RunsPerMonth, 1); f != nil {
		return f
	}
	return v.checkModelCall(now)
}

// AllowModelCall implements quota.Meter.
func (s *meter) AllowModelCall(ctx context.Context, tenant string) error {
	v, err := s.tenants.current(ctx, tenant)
	if err != nil {
		return err
	}
	return v.checkModelCall(s.clock.Now())
}

// AllowToolCalls implements quota.Meter.
func (s *meter) AllowToolCalls(ctx context.Context, tenant string, calls int) error {
	v, err := s.tenants.current(ctx, tenant)
	if err != nil {
		return err
	}
	if f := v.exhausted(s.clock.Now(), quota.ToolCallsPerMonth, int64(calls)); f != nil {
		return f
	}
	return nil
}

// errPastDue is the refusal of what costs money while the company owes some.
var errPastDue = fault.New(fault.Payment, "",
	"The company's last payment failed. Pay it on the page of POST /api/v1/billing/portal-session.")

func (v *view) checkModelCall(now time.Time) error {
	if v.pastDue {
		return errPastDue
	}
	for _, r := range []quota.Resource{quota.TokensPerMonth, quota.TokensPerDay} {
		if f := v.exhausted(now, r, 1); f != nil {
			return f
		}
	}
	if v.budget != nil && v.spent() >= v.budget.mark(v.budget.Hard) {
		return v.budget.exceeded(v.spent(), now)
	}
	return nil
}

// exhausted returns the error of using more of a resource, or nil if the limit
// allows it.
func (v *view) exhausted(now time.Time, r quota.Resource, more int64) *fault.Error {
	limit := v.plan.Limits.Of(r)
	if limit == nil || v.of(r)+more <= *limit || v.overage() {
		return nil
	}
	return quota.Refuse(r, *limit, v.of(r), now)
}

// Count implements quota.Meter.
func (s *meter) Count(tenant string, uses ...quota.Use) txn.Op {
	uses = merge(uses)
	var runs int64
	for _, u := range uses {
		runs += u.Runs
	}
	return func(tx txn.Tx) error {
		v, err := s.tenants.currentTx(tx, tenant)
		if err != nil {
			return err
		}
		now := s.clock.Now()
		month, day := monthOf(now), dayOf(now)
		if !v.bounded() || unlimited(uses) {
			tx.AfterCommit(s.appended)
			return s.store.AppendTx(tx, tenant, day, uses)
		}
		m, d, err := s.store.IncrementTx(tx, tenant, month, day, uses)
		if err != nil {
			return err
		}
		if limit := v.plan.Limits.RunsPerMonth; runs > 0 && limit != nil && m.Runs > *limit && !v.overage() {
			return quota.Refuse(quota.RunsPerMonth, *limit, m.Runs-runs, now)
		}
		v.month, v.day, v.inMonth, v.inDay = month, day, m, d
		if v.inWeek, err = s.tenants.weekly(tx.Context(), tx, tenant, v.budget, now); err != nil {
			return err
		}
		st := s.tenants.state(tenant)
		tx.AfterCommit(func() { st.update(month, day, m, d, v.inWeek, now) })
		return s.recordEvents(tx, tenant, st, &v, now)
	}
}

// unlimited reports whether uses have nothing that plans and budgets limit: only how
// runs ended. They need no lock of the counters, which others might wait for while the
// transaction goes on to end other runs.
func unlimited(uses []quota.Use) bool {
	return !slices.ContainsFunc(uses, func(u quota.Use) bool {
		return u.Runs+u.ModelCalls+u.InputTokens+u.OutputTokens+u.ToolCalls+u.CostNano != 0
	})
}

// merge sorts uses, and sums those of the same agent, model, source and key.
func merge(uses []quota.Use) []quota.Use {
	order := func(a, b quota.Use) int {
		return cmp.Or(cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.KeyID, b.KeyID))
	}
	sorted := slices.SortedStableFunc(slices.Values(uses), order)
	var out []quota.Use
	for _, u := range sorted {
		if n := len(out); n > 0 && order(out[n-1], u) == 0 {
			out[n-1] = Sum(out[n-1], u)
			continue
		}
		out = append(out, u)
	}
	return out
}

// Sum adds the numbers of b to a.
func Sum(a, b quota.Use) quota.Use {
	a.Runs += b.Runs
	a.ModelCalls += b.ModelCalls
	a.InputTokens += b.InputTokens
	a.OutputTokens += b.OutputTokens
	a.ThinkingTokens += b.ThinkingTokens
	a.CachedTokens += b.CachedTokens
	a.CacheWriteTokens += b.CacheWriteTokens
	a.ToolCalls += b.ToolCalls
	a.ToolErrors += b.ToolErrors
	a.Completed += b.Completed
	a.Failures += b.Failures
	a.Cancelled += b.Cancelled
	a.DurationMS += b.DurationMS
	a.CostNano += b.CostNano
	return a
}

// Reserve implements quota.Gate.
func (s *meter) Reserve(tx txn.Tx, tenant string, r quota.Resource) error {
	st, now := s.tenants.state(tenant), s.clock.Now()
	v := st.copy()
	if now.Sub(v.termsAt) >= freshFor || now.Before(v.termsAt) {
		var err error
		if v, err = s.tenants.readTerms(tx.Context(), tx, tenant, st, now); err != nil {
			return err
		}
	}
	limit := v.plan.Limits.Of(r)
	if limit == nil {
		return nil
	}
	// Count after locking, so that everything created by earlier holders of the
	// lock is included.
	if err := s.store.LockTx(tx, tenant, r); err != nil {
		return err
	}
	n, _, err := s.store.CountHeld(tx.Context(), tx, tenant, r, now, *limit)
	if err != nil {
		return err
	}
	if n >= *limit {
		return quota.Refuse(r, *limit, n, now)
	}
	return nil
}
