package usage

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"agentd/internal/base/cache"
	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
)

const (
	// freshFor is the maximum age of the view of a tenant's plan and counters.
	freshFor = time.Second
	// maxTenants bounds the tenants whose state this process caches.
	maxTenants = 50_000
)

// tenantCache caches the plans and counters of tenants.
type tenantCache struct {
	plans  *quota.Plans
	store  Store
	shop   *shop
	clock  clock.Clock
	logger *slog.Logger
	states *cache.Cache[string, *tenantState] // by tenant
}

func newStates() *cache.Cache[string, *tenantState] {
	return cache.New(cache.Options[string, *tenantState]{Most: maxTenants})
}

// tenantState is what this process knows about a tenant.
type tenantState struct {
	mu sync.Mutex
	view
	requests   requestCounters // to the model proxy
	requestsAt time.Time       // when the stored requests were read

	seenEvents  map[string]bool // events that are known to exist
	unknownPlan string          // name of an unknown plan that is already logged
}

// view is the part of a tenantState that is copied to its readers.
type view struct {
	plan    quota.Plan
	paid    bool // the plan is paid for
	budget  *Budget
	pastDue bool
	termsAt time.Time // when plan and budget were read; zero: never

	month, day string // of the totals
	inMonth    Totals
	inDay      Totals
	inWeek     int64     // cost, if the budget is weekly
	at         time.Time // when the totals were read
}

// bounded reports whether any counter has a limit. Counters without a limit are
// written, but not read.
func (v *view) bounded() bool { return v.budget != nil || v.plan.Limits.Refills() }

// spent returns how much of its budget a tenant has spent.
func (v *view) spent() int64 {
	switch v.budget.Period {
	case Daily:
		return v.inDay.CostNano
	case Weekly:
		return v.inWeek
	}
	return v.inMonth.CostNano
}

func (st *tenantState) expire() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.termsAt, st.at = time.Time{}, time.Time{}
}

// planOf returns the plan in effect for a tenant.
func (c *tenantCache) planOf(ctx context.Context, tenant string) (quota.Plan, error) {
	v, err := c.current(ctx, tenant)
	return v.plan, err
}

func (c *tenantCache) termsChanged(tenant string) {
	if st, ok := c.states.Get(tenant); ok {
		st.expire()
	}
}

func (c *tenantCache) state(tenant string) *tenantState {
	if st, ok := c.states.Get(tenant); ok {
		return st
	}
	return c.states.First(tenant, &tenantState{seenEvents: map[string]bool{}})
}

// copy returns the current view.
func (st *tenantState) copy() view {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.view
}

// current returns a view that is at most freshFor old. It holds no lock while it
// reads the database, because code that counts calls it inside a transaction.
func (c *tenantCache) current(ctx context.Context, tenant string) (view, error) {
	st, now := c.state(tenant), c.clock.Now()
	v := st.copy()
	if now.Sub(v.termsAt) >= freshFor || now.Before(v.termsAt) {
		var err error
		if v, err = c.readTerms(ctx, nil, tenant, st, now); err != nil {
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
	totals, err := c.store.ListTotals(ctx, tenant, month, day)
	if err != nil {
		return v, err
	}
	week, err := c.weekly(ctx, nil, tenant, v.budget, now)
	if err != nil {
		return v, err
	}
	return st.update(month, day, totals[0], totals[1], week, now), nil
}

// currentTx returns a view whose plan is known, of any age, inside a transaction
// that counts.
func (c *tenantCache) currentTx(tx txn.Tx, tenant string) (view, error) {
	st := c.state(tenant)
	if v := st.copy(); !v.termsAt.IsZero() {
		return v, nil
	}
	return c.readTerms(tx.Context(), tx, tenant, st, c.clock.Now())
}

func (c *tenantCache) readTerms(ctx context.Context, tx txn.Tx, tenant string, st *tenantState, now time.Time) (view, error) {
	t, err := c.store.GetTerms(ctx, tx, tenant)
	if err != nil {
		return view{}, err
	}
	plan, known := c.plans.Of(t.Plan)
	st.mu.Lock()
	defer st.mu.Unlock()
	if !known && t.Plan != "" && st.unknownPlan != t.Plan {
		st.unknownPlan = t.Plan
		c.logger.Warn("tenant has a plan that is not configured; the default plan applies",
			"tenant", tenant, "plan", t.Plan, "default", plan.ID)
	}
	st.plan, st.paid, st.budget, st.pastDue, st.termsAt = plan, c.paid(plan), t.Budget, t.PastDue, now
	return st.view, nil
}

// weekly returns what was spent in the week, if the budget is weekly.
func (c *tenantCache) weekly(ctx context.Context, tx txn.Tx, tenant string, b *Budget, now time.Time) (int64, error) {
	if b == nil || b.Period != Weekly {
		return 0, nil
	}
	from, to := b.Period.bounds(now)
	return c.store.GetSpent(ctx, tx, tenant, dayOf(from), dayOf(to.Add(-1)))
}

// update merges totals that were read at a time. Totals only grow within a
// period, so the larger ones are kept: what is cached may be newer.
func (st *tenantState) update(month, day string, m, d Totals, week int64, at time.Time) view {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case day < st.day: // read in a transaction of the day before
		return st.view
	case day > st.day:
		if month > st.month {
			st.inMonth = Totals{}
		}
		st.inDay, st.inWeek = Totals{}, 0
		st.month, st.day = month, day
		clear(st.seenEvents) // most of them belong to past periods
	}
	st.inMonth, st.inDay = st.inMonth.atLeast(m), st.inDay.atLeast(d)
	st.inWeek = max(st.inWeek, week)
	st.at = at
	return st.view
}

func (t Totals) atLeast(o Totals) Totals {
	return Totals{max(t.Runs, o.Runs), max(t.Tokens, o.Tokens), max(t.ToolCalls, o.ToolCalls), max(t.CostNano, o.CostNano)}
}

// of returns the usage of a resource that is counted per period.
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
