package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// contextOverflow refuses requests of more than limit tokens, as endpoints do.
func contextOverflow(limit int) func(modeltest.Request) modeltest.Answer {
	return func(req modeltest.Request) modeltest.Answer {
		if tokens(req) > limit {
			return modeltest.Answer{Status: 400, Error: fmt.Sprintf("This model's maximum context length is %d tokens.", limit)}
		}
		return modeltest.Answer{Text: "The answer."}
	}
}

// A model without a configured context window refuses a conversation as too
// long: the conversation is shortened once, and the call repeated.
func TestOverflow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		strategy string
		most     int
		turns    int
		steps    []string
		calls    int
		code     string
	}{
		"compaction":         {"compaction", 1500, 20, []string{"llm failed", "compaction completed", "compaction completed", "llm completed"}, 4, ""},
		"summarize":          {"summarize", 1500, 20, []string{"llm failed", "compaction completed", "compaction completed", "llm completed"}, 4, ""},
		"truncate":           {"truncate", 1500, 20, []string{"llm completed"}, 2, ""},
		"sliding-window":     {"sliding_window", 500, 20, []string{"llm completed"}, 2, ""},
		"refused-again":      {"truncate", 100, 20, []string{"llm failed"}, 2, "CONTEXT_LENGTH_EXCEEDED"},
		"nothing-to-compact": {"compaction", 1, 0, []string{"llm failed"}, 1, "CONTEXT_LENGTH_EXCEEDED"},
		"nothing-to-drop":    {"truncate", 1, 0, []string{"llm failed"}, 1, "CONTEXT_LENGTH_EXCEEDED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				r := newHarness(t, db, writer(contextOverflow(tt.most)))
				r.agents.spec.ContextStrategy, r.agents.spec.Tools = tt.strategy, nil
				n := r.start("n", 4, nil)
				got := n.end(n.begin(run.Request{Input: historyOf(tt.turns)}).RunID)
				r.checkEnded(got)
				if got.ErrorCode != tt.code || (tt.code == "") != (got.Status == run.Completed) {
					t.Errorf("%s %q: %v", got.Status, got.ErrorCode, got.Error)
				}
				if diff := cmp.Diff(tt.steps, kinds(r.steps(got.RunID))); diff != "" || r.sim.Calls() != tt.calls {
					t.Errorf("%d calls, steps (-want +got):\n%s", r.sim.Calls(), diff)
				}
			})
		})
	}
}

// Without a summary the run continues, and the model is sent less.
func TestFailedCompaction(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]modeltest.Answer{
		"failed":   {Status: 500, Error: "overloaded"},
		"empty":    {Text: ""},
		"too-long": {Text: strings.Repeat("word ", 3000)},
		"calls":    {ToolCalls: []model.ToolCall{call("x", "t", "{}")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				r := newHarness(t, db, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
					if asksForSummary(req) {
						return bad
					}
					return modeltest.Answer{Text: "The answer."}
				}))
				r.window, r.agents.spec.Tools = 2400, nil
				n := r.start("n", 4, nil)
				got := n.end(n.begin(run.Request{Input: historyOf(20)}).RunID)
				r.checkEnded(got)
				steps := r.steps(got.RunID)
				if diff := cmp.Diff([]string{"compaction failed", "llm completed"}, kinds(steps)); diff != "" || got.Status != run.Completed {
					t.Fatalf("%s (-want +got):\n%s", got.Status, diff)
				}
				requests := r.sim.Requests()
				last := requests[len(requests)-1]
				if read := said(last); tokens(last) > 2400 || read[0] != "Be" || read[len(read)-1] != "request:" || slices.Contains(read, "summary") {
					t.Errorf("%d tokens: %v", tokens(last), read)
				}
				if steps[0].Error == nil || strings.Contains(*steps[0].Error, "overloaded") {
					t.Errorf("the step says %v", steps[0].Error)
				}
			})
		})
	}
}

// A summary does not count against max_steps, and none is requested at the end of
// the run.
func TestCompactionAndLimits(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		one, few := int64(1), int64(1000)
		for name, tt := range map[string]struct {
			limits    run.Limits
			folds     bool
			truncated bool
		}{
			"one-step":   {run.Limits{MaxSteps: &one}, true, false},
			"few-tokens": {run.Limits{MaxTokensPerRun: &few}, false, false},
		} {
			r := newHarness(t, db, writer(answers("The answer.")))
			r.window, r.agents.spec.Limits = 2400, tt.limits
			n := r.start("n", 4, nil)
			got := n.end(n.begin(run.Request{Input: historyOf(20)}).RunID)
			r.checkEnded(got)
			folds := slices.ContainsFunc(r.sim.Requests(), asksForSummary)
			if out := r.output(got); got.Status != run.Completed || out.Truncated != tt.truncated || folds != tt.folds {
				t.Errorf("%s: %s %+v, folded: %v", name, got.Status, out, folds)
			}
			n.stop()
		}
		// At the end of its steps a run reads less, and pays for no summary.
		r := longWorker(t, db, 30)
		four := int64(4)
		r.agents.spec.Limits = run.Limits{MaxSteps: &four}
		r.window = 300
		n := r.start("n", 4, nil)
		got := n.end(n.begin(run.Request{Input: schema.Object(`{"message":"request: toil"}`)}).RunID)
		r.checkEnded(got)
		requests := r.sim.Requests()
		if last := requests[len(requests)-1]; tokens(last) > 300 || slices.ContainsFunc(requests, asksForSummary) || !strings.HasPrefix(last.Chat().Last(model.User), "The limit of this run") {
			t.Errorf("the last request has %d tokens and ends with %q", tokens(last), last.Chat().Last(model.User))
		}
	})
}

// A run that is paused while a summary is written keeps the summary.
func TestPausedWhileCompacting(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		begun, proceed := make(chan struct{}, 9), make(chan struct{})
		r := newHarness(t, db, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
			if asksForSummary(req) {
				begun <- struct{}{}
				<-proceed
				return modeltest.Answer{Text: theSummary}
			}
			return modeltest.Answer{Text: "The answer."}
		}))
		r.window, r.agents.spec.Tools = 2400, nil
		n := r.start("n", 4, nil)
		started := n.begin(run.Request{Input: historyOf(20)})
		<-begun
		if err := n.Pause(t.Context(), r.who.TenantID, started.RunID); err != nil {
			t.Fatal(err)
		}
		close(proceed)
		n.reaches(started.RunID, run.Paused)
		stored := kinds(r.steps(started.RunID))
		if !slices.Contains(stored, "compaction completed") {
			t.Fatalf("paused with %v", stored)
		}
		if err := n.Resume(t.Context(), r.who.TenantID, started.RunID, ""); err != nil {
			t.Fatal(err)
		}
		got := n.end(started.RunID)
		r.checkEnded(got)
		folds, summaries := 0, 0
		for _, s := range r.steps(got.RunID) {
			if s.Type == run.StepCompaction {
				folds++
			}
		}
		for _, req := range r.sim.Requests() {
			if asksForSummary(req) {
				summaries++
			}
		}
		if got.Status != run.Completed || folds != summaries {
			t.Errorf("%s: %d summaries were asked for, %d stored", got.Status, summaries, folds)
		}
	})
}
