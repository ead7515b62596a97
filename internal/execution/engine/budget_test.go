package engine_test

import (
	"context"
	"sync"
	"testing"

	"agentd/internal/base/ptr"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A run with a budget ends before a call that could cost more than is left, and
// never spends more than the budget (rule D6-budget).
func TestBudget(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, modeltest.Respond(modeltest.ToolRounds(1000, modeltest.Answer{Text: "Done."})))
		n := r.start("n", 4, nil)
		limit := 0.002 // two thousand tokens at a dollar a million
		end := n.end(n.begin(run.Request{Limits: run.Limits{MaxCostUSD: &limit}}).RunID)
		if end.Status != run.Failed || end.ErrorCode != run.CodeBudgetExceeded {
			t.Fatalf("%s %s %v", end.Status, end.ErrorCode, ptr.Value(end.Error))
		}
		if m := end.Metrics; m.LLMCallsCount < 2 || *m.TotalCostUSD <= 0 || *m.TotalCostUSD > limit {
			t.Errorf("it spent %v in %d calls", *m.TotalCostUSD, m.LLMCallsCount)
		}
		r.checkEnded(end)
	})
}

// Runs that a run started share its budget, also when they are parallel.
func TestBudgetIsShared(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, modeltest.Respond(modeltest.ToolRounds(1000, modeltest.Answer{Text: "Done."})))
		a, b := r.start("a", 8, nil), r.start("b", 8, nil)
		limit := 0.004
		parent := a.begin(run.Request{Limits: run.Limits{MaxCostUSD: &limit}})
		ids := []string{parent.RunID}
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				child := []*node{a, b}[i%2].begin(run.Request{Parent: parent.RunID})
				mu.Lock()
				defer mu.Unlock()
				ids = append(ids, child.RunID)
			})
		}
		all.Wait()
		spent := 0.0
		for _, id := range ids {
			end := a.end(id)
			if end.ErrorCode != run.CodeBudgetExceeded {
				t.Errorf("%s %s", end.Status, end.ErrorCode)
			}
			if end.Metrics.TotalCostUSD != nil {
				spent += *end.Metrics.TotalCostUSD
			}
			r.checkEnded(end)
		}
		if spent == 0 || spent > limit {
			t.Errorf("they spent %v of %v", spent, limit)
		}
	})
}

func TestBudgetNeedsAPrice(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db)
		r.agents.spec.Model.ModelRef = "unpriced"
		n := r.start("n", 4, nil)
		limit := 1.0
		end := n.end(n.begin(run.Request{Limits: run.Limits{MaxCostUSD: &limit}}).RunID)
		if end.Status != run.Failed || end.ErrorCode != run.CodePricing {
			t.Errorf("%s %s", end.Status, end.ErrorCode)
		}
		zero := 0.0
		if end := n.end(n.begin(run.Request{Limits: run.Limits{MaxCostUSD: &zero}}).RunID); end.Status != run.Completed {
			t.Errorf("0 is no cap: %s %s", end.Status, end.ErrorCode)
		}
	})
}

// The reservation of a cancelled run's call is spent: its cost is unknown.
func TestBudgetOfACancelledCall(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, modeltest.Script(modeltest.Answer{HangFirst: true}))
		n := r.start("n", 4, nil)
		limit := 0.009 // a default answer is reserved as 0.008 and more
		id := n.begin(run.Request{Limits: run.Limits{MaxCostUSD: &limit}}).RunID
		waitFor(t, func() bool { return len(r.sim.Requests()) == 1 })
		if _, err := n.Cancel(t.Context(), r.who.TenantID, id); err != nil {
			t.Fatal(err)
		}
		end := n.end(n.begin(run.Request{Parent: id}).RunID)
		if end.Status == run.Completed && *end.Metrics.TotalCostUSD > 0.0009 {
			t.Errorf("a sibling spent %v more", *end.Metrics.TotalCostUSD)
		}
	})
}

// The permissions of an agent bound what a run and those that it starts spend together:
// ten children at once never spend more than their parent may, and each no more than it
// may itself.
func TestPermissionsBoundAFamily(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, modeltest.Respond(modeltest.ToolRounds(1000, modeltest.Answer{Text: "Done."})))
		a, b := r.start("a", 8, nil), r.start("b", 8, nil)
		whole := 0.006
		allowed := func(usd float64) run.CostCap {
			return func(context.Context, string, string) (float64, bool, bool, error) { return usd, true, false, nil }
		}
		a.CostCap = allowed(whole)
		parent := a.begin(run.Request{})
		a.CostCap, b.CostCap = allowed(whole/2), allowed(whole/2)
		ids := []string{parent.RunID}
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				child := []*node{a, b}[i%2].begin(run.Request{Parent: parent.RunID})
				mu.Lock()
				defer mu.Unlock()
				ids = append(ids, child.RunID)
			})
		}
		all.Wait()
		spent := 0.0
		for _, id := range ids {
			end := a.end(id)
			if end.ErrorCode != run.CodeBudgetExceeded {
				t.Errorf("%s %s", end.Status, end.ErrorCode)
			}
			if cost := end.Metrics.TotalCostUSD; cost != nil {
				spent += *cost
				if id != parent.RunID && *cost > whole/2 {
					t.Errorf("a child spent %v", *cost)
				}
			}
			r.checkEnded(end)
		}
		if spent == 0 || spent > whole {
			t.Errorf("they spent %v of %v", spent, whole)
		}
	})
}

// A budget that nobody asked for does not bind a model without a price; one of a parent
// that somebody did ask for does.
func TestLenientBudgets(t *testing.T) {
	t.Parallel()
	r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite))
	r.agents.spec.Model.ModelRef = "unpriced"
	n := r.start("n", 4, nil)
	n.CostCap = func(context.Context, string, string) (float64, bool, bool, error) { return 1, true, true, nil }
	first := n.begin(run.Request{})
	for name, test := range map[string]struct {
		id   string
		code string
	}{
		"alone":            {first.RunID, ""},
		"child":            {n.begin(run.Request{Parent: first.RunID}).RunID, ""},
		"asked for":        {n.begin(run.Request{Limits: run.Limits{MaxCostUSD: new(2.0)}}).RunID, run.CodePricing},
		"parent's asked":   {n.begin(run.Request{Parent: n.begin(run.Request{Limits: run.Limits{MaxCostUSD: new(2.0)}}).RunID}).RunID, run.CodePricing},
		"nothing to spend": {n.poor().RunID, run.CodePricing},
	} {
		if end := n.end(test.id); end.ErrorCode != test.code || test.code == "" && end.Status != run.Completed {
			t.Errorf("%s: %s %s", name, end.Status, end.ErrorCode)
		}
	}
}

// poor begins a run whose agent may spend nothing.
func (n *node) poor() *run.Run {
	before := n.CostCap
	defer func() { n.CostCap = before }()
	n.CostCap = func(context.Context, string, string) (float64, bool, bool, error) { return 0, true, false, nil }
	return n.begin(run.Request{})
}
