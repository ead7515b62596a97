package engine_test

import (
	"context"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/quota"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// TestCancelledRunsKeepTheirText cancels runs while a model streams: by the node that
// drives them, and by one that cannot reach it.
func TestCancelledRunsKeepTheirText(t *testing.T) {
	t.Parallel()
	for name, remote := range map[string]bool{"worker": false, "unreachable_worker": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				r := newHarness(t, db, modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(12), HangAfter: 8}))
				counted := &countingMeter{}
				r.meter = counted
				n := r.start("node", 1, nil)
				by := n
				if remote {
					by = r.start("other", 0, nil)
				}
				id := n.begin(run.Request{}).RunID
				want := modeltest.Tokens(8)
				waitFor(t, func() bool { return r.textOf(id) == want })

				got, err := by.Cancel(t.Context(), r.who.TenantID, id)
				if err != nil || !got.Cancelled {
					t.Fatalf("%+v, %v", got, err)
				}
				end := n.end(id)
				r.checkAborted(end)
				var out run.Output
				if err := json.Unmarshal(end.Output, &out); err != nil {
					t.Fatal(err)
				}
				if end.Status != run.Cancelled || end.ErrorCode != run.CodeCancelled || out.Text != want || out.FinishReason != run.FinishCancelled {
					t.Errorf("the run is %s, %s, with %q, %q", end.Status, end.ErrorCode, out.Text, out.FinishReason)
				}
				if text := r.textOf(id); text != want {
					t.Errorf("the log has %q", text)
				}
				m := end.Metrics
				if m.LLMCallsCount != 1 || m.OutputTokens < 5 || m.InputTokens < 1 || m.StepsCount != 1 {
					t.Errorf("the metrics are %+v", m)
				}
				if known := m.TotalCostUSD != nil && *m.TotalCostUSD > 0; known == remote {
					t.Errorf("the cost is %v", m.TotalCostUSD)
				}
				use := counted.sum()
				if use.ModelCalls != 1 || use.OutputTokens != m.OutputTokens || use.InputTokens != m.InputTokens {
					t.Errorf("%+v is counted", use)
				}
				steps, err := r.runs.ListSteps(t.Context(), r.who.TenantID, id, 0, 0)
				if err != nil || len(steps) != 1 || steps[0].Status != run.StepFailed {
					t.Errorf("the steps are %+v, %v", steps, err)
				}
			})
		})
	}
}

// A run that ran out of time counts, too; numbers of the endpoint count instead of an
// estimate.
func TestUsageOfBrokenOffCalls(t *testing.T) {
	t.Parallel()
	limit := int64(300)
	for name, c := range map[string]struct {
		limits   run.Limits
		reported model.Usage
		want     run.Status
		output   int64
	}{
		"estimated":   {want: run.Cancelled, output: 3},
		"reported":    {reported: model.Usage{InputTokens: 70, OutputTokens: 4}, want: run.Cancelled, output: 4},
		"of_its_head": {reported: model.Usage{InputTokens: 70, OutputTokens: 1}, want: run.Cancelled, output: 3},
		"out_of_time": {limits: run.Limits{MaxDurationMS: &limit}, want: run.TimedOut, output: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite))
			r.client = reporting{c.reported}
			n := r.start("node", 1, nil)
			id := n.begin(run.Request{Limits: c.limits}).RunID
			waitFor(t, func() bool { return r.textOf(id) == "twelve bytes" })
			if c.want == run.Cancelled {
				if _, err := n.Cancel(t.Context(), r.who.TenantID, id); err != nil {
					t.Fatal(err)
				}
			}
			end := n.end(id)
			if end.Status != c.want || end.Metrics.OutputTokens != c.output || end.Metrics.LLMCallsCount != 1 {
				t.Errorf("the run is %s with %+v", end.Status, end.Metrics)
			}
		})
	}
}

// reporting is a model that says something, reports usage, and hangs.
type reporting struct{ usage model.Usage }

func (h reporting) Generate(ctx context.Context, _ model.Request, sink func(model.Delta)) (model.Response, error) {
	sink(model.Delta{Text: "twelve bytes"})
	<-ctx.Done()
	return model.Response{Usage: h.usage}, ctx.Err()
}

// textOf returns the text that is stored of a run.
func (r *harness) textOf(id string) (text string) {
	r.t.Helper()
	for _, e := range r.events(id) {
		if e.Name == "llm.chunk" {
			var data struct {
				Text string `json:"text"`
			}
			if err := json.Unmarshal(e.Data, &data); err != nil {
				r.t.Fatal(err)
			}
			text += data.Text
		}
	}
	return text
}

// countingMeter allows everything and adds up what is counted.
type countingMeter struct {
	mu    sync.Mutex
	total quota.Use
}

func (m *countingMeter) AllowRun(context.Context, string) error            { return nil }
func (m *countingMeter) AllowModelCall(context.Context, string) error      { return nil }
func (m *countingMeter) AllowToolCalls(context.Context, string, int) error { return nil }

func (m *countingMeter) Count(_ string, uses ...quota.Use) txn.Op {
	return func(tx txn.Tx) error {
		tx.AfterCommit(func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, u := range uses {
				m.total.ModelCalls += u.ModelCalls
				m.total.InputTokens += u.InputTokens
				m.total.OutputTokens += u.OutputTokens
			}
		})
		return nil
	}
}

func (m *countingMeter) sum() quota.Use {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

// Providers charge the input of a call that was cancelled before any of its answer
// arrived. Where answers are not streamed that is known to have happened, so the input is
// counted by estimate; where they are, nothing arrived and nothing is counted.
func TestInputOfACancelledCallIsCounted(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"unstreamed": true, "streamed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite))
			counted, asked := &countingMeter{}, make(silent, 1)
			r.meter, r.client = counted, asked
			n := r.start("node", 1, nil)
			id := n.begin(run.Request{Options: run.Options{Plain: plain}}).RunID
			<-asked
			waitFor(t, func() bool { return n.engine.Active() == 1 }) // the call may be made before a worker holds the run
			if _, err := n.Cancel(t.Context(), r.who.TenantID, id); err != nil {
				t.Fatal(err)
			}
			end := n.end(id)
			m, use := end.Metrics, counted.sum()
			if end.Status != run.Cancelled || (m.InputTokens > 0) != plain || m.OutputTokens != 0 || (m.LLMCallsCount == 1) != plain {
				t.Errorf("the run is %s with %+v", end.Status, m)
			}
			if use.InputTokens != m.InputTokens || use.OutputTokens != 0 || (use.ModelCalls == 1) != plain {
				t.Errorf("%+v is counted, of %+v", use, m)
			}
		})
	}
}

// silent is a model that never says anything. It holds who was asked.
type silent chan struct{}

func (s silent) Generate(ctx context.Context, _ model.Request, _ func(model.Delta)) (model.Response, error) {
	s <- struct{}{}
	<-ctx.Done()
	return model.Response{}, ctx.Err()
}
