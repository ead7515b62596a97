package usage

import (
	"context"
	"sync"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
)

// freshFor is how old the view of a tenant's plan and counters may be.
const freshFor = time.Second

// standing is where a tenant stands, as this process knows it.
type standing struct {
	mu sync.Mutex
	view
	requests   tallies   // to the model proxy
	requestsAt time.Time // when what is stored of them was read

	told map[string]bool // events of which there is no need to look
	odd  string          // a plan of the tenant that there is not, told in the log
}

// view is a copy of that.
type view struct {
	plan    quota.Plan
	budget  *Budget
	termsAt time.Time // zero: they are not known

	month, day string // of the totals
	inMonth    Totals
	inDay      Totals
	inWeek     int64 // cost, where the budget is a weekly one
	at         time.Time
}

// bounded says whether anything that refills is limited. Counters of the
// others are written, and never read on the way.
func (v *view) bounded() bool { return v.budget != nil || v.plan.Limits.Refills() }

// spent is what a tenant spent of its budget.
func (v *view) spent() int64 {
	switch v.budget.Period {
	case Daily:
		return v.inDay.CostNano
	case Weekly:
		return v.inWeek
	}
	return v.inMonth.CostNano
}

func (st *standing) expire() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.termsAt, st.at = time.Time{}, time.Time{}
}

func (s *Service) of(tenant string) *standing {
	if st, ok := s.known.Get(tenant); ok {
		return st
	}
	return s.known.First(tenant, &standing{told: map[string]bool{}})
}

// copy gives the view as it is.
func (st *standing) copy() view {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.view
}

// standing gives a view that is at most freshFor old. No lock is held while the
// database is read: whoever counts holds a transaction, and asks here too.
func (s *Service) standing(ctx context.Context, tenant string) (view, error) {
	st, now := s.of(tenant), s.Clock.Now()
	v := st.copy()
	if now.Sub(v.termsAt) >= freshFor || now.Before(v.termsAt) {
		var err error
		if v, err = s.readTerms(ctx, nil, tenant, st, now); err != nil {
			return v, err
		}
	}
	if !v.bounded() {
		return v, nil
	}
	month, day := monthOf(now), dayOf(now)
	if v.day == day && now.Sub(v.at) < freshFor {
		return v, nil
	}
	totals, err := s.Store.ListTotals(ctx, tenant, month, day)
	if err != nil {
		return v, err
	}
	week, err := s.weekly(ctx, nil, tenant, v.budget, now)
	if err != nil {
		return v, err
	}
	return st.learn(month, day, totals[0], totals[1], week, now), nil
}

// terms gives a view whose plan is known, however long ago it was read, inside
// a transaction that counts.
func (s *Service) terms(tx txn.Tx, tenant string) (view, error) {
	st := s.of(tenant)
	if v := st.copy(); !v.termsAt.IsZero() {
		return v, nil
	}
	return s.readTerms(tx.Context(), tx, tenant, st, s.Clock.Now())
}

func (s *Service) readTerms(ctx context.Context, tx txn.Tx, tenant string, st *standing, now time.Time) (view, error) {
	t, err := s.Store.GetTerms(ctx, tx, tenant)
	if err != nil {
		return view{}, err
	}
	plan, known := s.Deps.Plans.Of(t.Plan)
	st.mu.Lock()
	defer st.mu.Unlock()
	if !known && t.Plan != "" && st.odd != t.Plan {
		st.odd = t.Plan
		s.Logger.Warn("a tenant has a plan that is not configured; the default plan holds for it", "tenant", tenant, "plan", t.Plan, "default", plan.ID)
	}
	st.plan, st.budget, st.termsAt = plan, t.Budget, now
	return st.view, nil
}

// weekly is what was spent in the week, where there is a budget for that.
func (s *Service) weekly(ctx context.Context, tx txn.Tx, tenant string, b *Budget, now time.Time) (int64, error) {
	if b == nil || b.Period != Weekly {
		return 0, nil
	}
	from, to := b.Period.bounds(now)
	return s.Store.GetSpent(ctx, tx, tenant, dayOf(from), dayOf(to.Add(-1)))
}

// learn takes in totals that were true at a moment. Within a period they only
// grow: what is known already may be newer.
func (st *standing) learn(month, day string, m, d Totals, week int64, at time.Time) view {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case day < st.day: // a transaction of the day before
		return st.view
	case day > st.day:
		if month > st.month {
			st.inMonth = Totals{}
		}
		st.inDay, st.inWeek = Totals{}, 0
		st.month, st.day = month, day
		clear(st.told) // most of them are of periods that are over
	}
	st.inMonth, st.inDay = st.inMonth.atLeast(m), st.inDay.atLeast(d)
	st.inWeek = max(st.inWeek, week)
	st.at = at
	return st.view
}

func (t Totals) atLeast(o Totals) Totals {
	return Totals{max(t.Runs, o.Runs), max(t.Tokens, o.Tokens), max(t.ToolCalls, o.ToolCalls), max(t.CostNano, o.CostNano)}
}

// of is how much was used of what refills.
func (v *view) of(r quota.Resource) int64 {
	switch r {
	case quota.RunsPerMonth:
		return v.inMonth.Runs
	case quota.TokensPerMonth:
		return v.inMonth.Tokens
	case quota.TokensPerDay:
		return v.inDay.Tokens
	case quota.ToolCallsPerMonth:
		return v.inMonth.ToolCalls
	}
	return 0
}
