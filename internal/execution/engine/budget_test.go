package engine_test

import (
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
