package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// ruler is a model.Counter whose tokens are shorter than those of the estimate.
type ruler struct {
	times int   // as many tokens as the estimate has
	err   error // in place of a count

	mu    sync.Mutex
	asked int
}

func (r *ruler) CountTokens(_ context.Context, req model.Request) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return model.EstimateInput(req) * r.times, r.err
}

func (r *ruler) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// A conversation that may be too long is counted by its model, and compacted before the
// model could refuse it. One that is short is not counted, nor is one twice that has not
// grown (rule D23-foreseen).
func TestForeseesTooLong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		times           int
		err             error // of the count
		turns, counts   int
		strategy        string
		compacts, sends bool // sends: less than everything
	}{
		"short":      {times: 3, turns: 4},
		"counted":    {times: 3, turns: 20, counts: 1, compacts: true},
		"fits":       {times: 1, turns: 20, counts: 1},
		"cuts":       {times: 3, turns: 20, counts: 1, strategy: "truncate", sends: true},
		"no-counter": {err: model.ErrCannotCount, turns: 20, counts: 1},
		"fails":      {err: errors.New("down"), turns: 20, counts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				r := newHarness(t, db, writer(answers("The answer.")))
				r.window, r.agents.spec.Tools, r.agents.spec.ContextStrategy = 4000, nil, c.strategy
				counter := ruler{times: c.times, err: c.err}
				r.counter = &counter
				n := r.start("n", 4, nil)
				got := n.end(n.begin(run.Request{Input: historyOf(c.turns)}).RunID)
				if out := r.output(got); got.Status != run.Completed || out.Text != "The answer." {
					t.Fatalf("%s: %+v %v", got.Status, out, got.Error)
				}
				compacted := false
				for _, s := range r.steps(got.RunID) {
					compacted = compacted || s.Type == run.StepCompaction && s.Status == run.StepCompleted
					if s.Status == run.StepFailed && (s.Error == nil || !strings.Contains(*s.Error, "by the model's own count")) {
						t.Errorf("a step failed: %v", s.Error)
					}
				}
				requests := r.sim.Requests()
				last := len(said(requests[len(requests)-1]))
				if compacted != c.compacts || counter.count() != c.counts || c.sends && last >= 2*c.turns {
					t.Errorf("compacted: %t, counted %d times, sent %d messages", compacted, counter.count(), last)
				}
				r.checkEnded(got)
				if c.err == nil || errors.Is(c.err, model.ErrCannotCount) {
					return
				}
				n.end(n.begin(run.Request{Input: historyOf(c.turns)}).RunID)
				if counter.count() != 1 {
					t.Errorf("a model that does not count was asked again: %d times", counter.count())
				}
			})
		})
	}
}
