package usage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
)

// MayStart implements quota.Meter.
func (s *Service) MayStart(ctx context.Context, tenant string) error {
	v, err := s.standing(ctx, tenant)
	if err != nil {
		return err
	}
	now := s.Clock.Now()
	if f := v.exhausted(now, quota.RunsPerMonth, 1); f != nil {
		return f
	}
	return v.mayAsk(now)
}

// MayAsk implements quota.Meter.
func (s *Service) MayAsk(ctx context.Context, tenant string) error {
	v, err := s.standing(ctx, tenant)
	if err != nil {
		return err
	}
	return v.mayAsk(s.Clock.Now())
}

// MayCall implements quota.Meter.
func (s *Service) MayCall(ctx context.Context, tenant string, calls int) error {
	v, err := s.standing(ctx, tenant)
	if err != nil {
		return err
	}
	if f := v.exhausted(s.Clock.Now(), quota.ToolCallsPerMonth, int64(calls)); f != nil {
		return f
	}
	return nil
}

func (v *view) mayAsk(now time.Time) error {
	for _, r := range []quota.Resource{quota.TokensPerMonth, quota.TokensPerDay} {
		if f := v.exhausted(now, r, 1); f != nil {
			return f
		}
	}
	if v.budget != nil && v.spent() >= v.budget.mark(v.budget.Hard) {
		return v.budget.refuse(v.spent(), now)
	}
	return nil
}

// exhausted is the refusal of so much more of something, nil where there is
// room for it.
func (v *view) exhausted(now time.Time, r quota.Resource, more int64) *fault.Error {
	limit := v.plan.Limits.Of(r)
	if limit == nil || v.of(r)+more <= *limit {
		return nil
	}
	return quota.Refuse(r, *limit, v.of(r), now)
}

// Count implements quota.Meter.
func (s *Service) Count(tenant string, uses ...quota.Use) txn.Op {
	uses = merge(uses)
	var runs int64
	for _, u := range uses {
		runs += u.Runs
	}
	return func(tx txn.Tx) error {
		v, err := s.terms(tx, tenant)
		if err != nil {
			return err
		}
		now := s.Clock.Now()
		month, day := monthOf(now), dayOf(now)
		m, d, err := s.Store.IncrementTx(tx, tenant, month, day, uses, v.bounded())
		if err != nil || !v.bounded() {
			return err
		}
		if limit := v.plan.Limits.RunsPerMonth; runs > 0 && limit != nil && m.Runs > *limit {
			return quota.Refuse(quota.RunsPerMonth, *limit, m.Runs-runs, now)
		}
		v.month, v.day, v.inMonth, v.inDay = month, day, m, d
		if v.inWeek, err = s.weekly(tx.Context(), tx, tenant, v.budget, now); err != nil {
			return err
		}
		st := s.of(tenant)
		tx.AfterCommit(func() { st.learn(month, day, m, d, v.inWeek, now) })
		return s.tell(tx, tenant, st, &v, now)
	}
}

// merge joins uses of the same agent, model, source and key, in one order.
func merge(uses []quota.Use) []quota.Use {
	order := func(a, b quota.Use) int {
		return cmp.Or(cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Source, b.Source), cmp.Compare(a.KeyID, b.KeyID))
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
	a.ToolCalls += b.ToolCalls
	a.CostNano += b.CostNano
	return a
}

// Take implements quota.Gate.
func (s *Service) Take(tx txn.Tx, tenant string, r quota.Resource) error {
	st, now := s.of(tenant), s.Clock.Now()
	v := st.copy()
	if now.Sub(v.termsAt) >= freshFor || now.Before(v.termsAt) {
		var err error
		if v, err = s.readTerms(tx.Context(), tx, tenant, st, now); err != nil {
			return err
		}
	}
	limit := v.plan.Limits.Of(r)
	if limit == nil {
		return nil
	}
	// Counted behind the lock, so that everybody who had it before is counted.
	if err := s.Store.LockTx(tx, tenant, r); err != nil {
		return err
	}
	n, _, err := s.Store.CountHeld(tx.Context(), tx, tenant, r, now, *limit)
	if err != nil {
		return err
	}
	if n >= *limit {
		return quota.Refuse(r, *limit, n, now)
	}
	return nil
}
