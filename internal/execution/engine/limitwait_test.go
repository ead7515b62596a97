package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// busy is a model whose calls take a while. It counts those that are under way.
type busy struct {
	takes time.Duration

	mu        sync.Mutex
	now, most int
	starts    []time.Time
}

func (b *busy) answer(_ int, _ model.Request, sink func(model.Delta)) (model.Response, error) {
	b.mu.Lock()
	b.now++
	b.most = max(b.most, b.now)
	b.starts = append(b.starts, time.Now())
	b.mu.Unlock()
	rest(b.takes)
	b.mu.Lock()
	b.now--
	b.mu.Unlock()
	return says("Done.", sink)
}

// Runs beyond the provider's limit wait in the queue without a worker, and are
// served in turn of their tenants as places become free (rules D22-limits,
// D22-limits-fair).
func TestWaitsForLimit(t *testing.T) {
	const runs, limit = 40, 4
	const takes = 500 * time.Millisecond
	inBubble(t, &fakeModel{}, func(h *harness, n *node) {
		n.stop()
		b := &busy{takes: takes}
		h.client = &fakeModel{answer: b.answer}
		h.limits = model.Limits{MaxConcurrency: limit}
		n = h.start("two", 64, nil)
		defer n.stop()
		began := time.Now()
		var ids []string
		for range runs {
			ids = append(ids, n.begin(run.Request{}).RunID)
		}
		waits := n.waiting(ids[runs-1])
		if waits.Status != run.Running || waits.WaitingFor != run.WaitsForLimit || waits.NextAttemptAt == nil || waits.Attempts != 0 {
			h.t.Errorf("a run that waits is %+v", waits)
		}
		// A run that finds no place holds a worker until it is put off.
		for range 200 {
			if n.engine.Active() <= limit {
				break
			}
			rest(10 * time.Millisecond)
		}
		if active := n.engine.Active(); active > limit {
			h.t.Errorf("%d runs hold a worker", active)
		}
		first := h.who
		h.who.TenantID = ident.New()
		late := n.begin(run.Request{})
		if r := n.end(late.RunID); r.Status != run.Completed || time.Since(r.CreatedAt) > 4*takes {
			h.t.Errorf("the run of the second tenant is %s after %v", r.Status, time.Since(r.CreatedAt))
		}
		h.who = first
		for _, id := range ids {
			r := n.end(id)
			if events := h.events(id); r.Status != run.Completed || count(events, "step.retrying") != 0 || count(events, "step.started") != 1 {
				h.t.Errorf("a run is %s, its events are %v", r.Status, names(events))
			}
			h.checkEnded(r)
		}
		took, least := time.Since(began), (runs+1)*takes/limit
		if b.most != limit || len(b.starts) != runs+1 || took > least*12/10 {
			h.t.Errorf("%d calls, at most %d at a time, took %v, at least %v", len(b.starts), b.most, took, least)
		}
		var left int
		if err := h.db.QueryRow(h.t.Context(), `SELECT COUNT(*) FROM model_waits`).Scan(&left); err != nil || left != 0 {
			h.t.Errorf("%d waits are left: %v", left, err)
		}
	})
}

// A provider that comes back gets at most twice its limit of calls in the first
// second, however many runs wait, and no run fails (rule D22-limits-return).
func TestLimitAtTheReturnOfAProvider(t *testing.T) {
	const runs, limit = 60, 5
	inBubble(t, &fakeModel{}, func(h *harness, n *node) {
		n.stop()
		b := &busy{takes: 600 * time.Millisecond}
		back := time.Now().Add(10 * time.Second)
		h.client = &fakeModel{answer: func(call int, req model.Request, sink func(model.Delta)) (model.Response, error) {
			if time.Now().Before(back) {
				return model.Response{}, unavailable(0)
			}
			return b.answer(call, req, sink)
		}}
		h.limits = model.Limits{MaxConcurrency: limit}
		n = h.start("two", 64, nil)
		defer n.stop()
		var ids []string
		for range runs {
			ids = append(ids, n.begin(run.Request{}).RunID)
		}
		for _, id := range ids {
			if r := n.end(id); r.Status != run.Completed {
				h.t.Errorf("a run is %s: %v", r.Status, *r.Error)
			}
		}
		inFirst := 0
		for _, at := range b.starts {
			if at.Sub(b.starts[0]) < time.Second {
				inFirst++
			}
		}
		if b.most > limit || inFirst > 2*limit || len(b.starts) != runs {
			h.t.Errorf("%d calls, at most %d at a time, %d in the first second", len(b.starts), b.most, inFirst)
		}
	})
}

// Two nodes share a limit, and each wakes runs of the other (rule D22-limits-nodes).
func TestLimitOfTwoNodes(t *testing.T) {
	const runs, limit = 24, 3
	inBubble(t, &fakeModel{}, func(h *harness, n *node) {
		n.stop()
		b := &busy{takes: 500 * time.Millisecond}
		h.client = &fakeModel{answer: b.answer}
		h.limits, h.hub = model.Limits{MaxConcurrency: limit}, n.Hub
		h.share = model.Share{Index: 0, Of: 2}
		one := h.start("two", 64, nil)
		defer one.stop()
		h.share = model.Share{Index: 1, Of: 2}
		two := h.start("three", 64, nil)
		defer two.stop()
		began := time.Now()
		var ids []string
		for range runs {
			ids = append(ids, one.begin(run.Request{}).RunID)
		}
		for _, id := range ids {
			if r := one.end(id); r.Status != run.Completed {
				h.t.Errorf("a run is %s", r.Status)
			}
		}
		if took := time.Since(began); b.most != limit || took > runs/limit*b.takes*13/10 {
			h.t.Errorf("at most %d calls at a time, %v in all", b.most, took)
		}
	})
}

// Runs that wait for a limit when the process dies are served by the next one.
func TestLimitWaitsOutliveTheProcess(t *testing.T) {
	const runs = 10
	inBubble(t, &fakeModel{}, func(h *harness, n *node) {
		n.stop()
		b := &busy{takes: 3 * time.Second}
		h.client = &fakeModel{answer: b.answer}
		h.limits = model.Limits{MaxConcurrency: 1}
		n = h.start("two", 64, nil)
		var ids []string
		for range runs {
			ids = append(ids, n.begin(run.Request{}).RunID)
		}
		n.waiting(ids[runs-1])
		n.stop()
		b.mu.Lock()
		b.takes = 100 * time.Millisecond
		b.mu.Unlock()
		n = h.start("two", 64, nil)
		defer n.stop()
		began := time.Now()
		for _, id := range ids {
			if r := n.end(id); r.Status != run.Completed {
				h.t.Errorf("a run is %s", r.Status)
			}
		}
		if took := time.Since(began); took > 15*time.Second {
			h.t.Errorf("the runs took %v after the start", took)
		}
	})
}

// What an endpoint asks for holds for all runs of its model: they wait instead of
// meeting the same refusal (rule D22-limits-learnt).
func TestRetryAfterHoldsForAllRuns(t *testing.T) {
	const runs = 20
	inBubble(t, &fakeModel{}, func(h *harness, n *node) {
		n.stop()
		until := time.Now().Add(45 * time.Second)
		m := &fakeModel{answer: func(_ int, _ model.Request, sink func(model.Delta)) (model.Response, error) {
			if left := time.Until(until); left > 0 {
				return model.Response{}, &model.Error{
					Code: run.CodeModelRateLimited, Detail: "Too many calls.", Status: 429, Retryable: true, Passing: true, RetryAfter: left,
				}
			}
			return says("Done.", sink)
		}}
		h.client = m
		n = h.start("two", 64, nil)
		defer n.stop()
		ids := []string{n.begin(run.Request{}).RunID}
		if r := n.waiting(ids[0]); r.WaitingFor != run.WaitsForModel {
			h.t.Errorf("the first run waits for %s", r.WaitingFor)
		}
		for range runs - 1 {
			ids = append(ids, n.begin(run.Request{}).RunID)
		}
		if r := n.waiting(ids[runs-1]); r.WaitingFor != run.WaitsForLimit {
			h.t.Errorf("the last run waits for %s", r.WaitingFor)
		}
		rest(40 * time.Second)
		if calls := m.times(); len(calls) != 1 {
			h.t.Errorf("%d calls met the pause", len(calls))
		}
		for _, id := range ids {
			if r := n.end(id); r.Status != run.Completed {
				h.t.Errorf("a run is %s", r.Status)
			}
		}
		calls := m.times()
		slices.SortFunc(calls, time.Time.Compare)
		if len(calls) != runs+1 || calls[1].Before(until) || calls[1].After(until.Add(time.Second)) {
			h.t.Errorf("%d calls, the second %v after the pause", len(calls), fmt.Sprint(calls[1].Sub(until)))
		}
	})
}

// hooked is a writer that calls a function before one of its writes.
type hooked struct {
	txn.Writer
	left atomic.Int64 // writes until then
	hook func()
}

func (w *hooked) Write(ctx context.Context, do func(txn.Tx) error) error {
	if w.left.Add(-1) == 0 {
		w.hook()
	}
	return w.Writer.Write(ctx, do)
}

// A pause that is requested while a run begins to wait for a limit pauses it.
func TestPauseAsLimitWaitBegins(t *testing.T) {
	inBubble(t, &fakeModel{}, func(h *harness, n *node) {
		n.stop()
		m := hanging{make(chan time.Time)}
		w := &hooked{Writer: h.db}
		h.client, h.limits = m, model.Limits{MaxConcurrency: 1}
		n = h.start("two", 8, w)
		defer n.stop()
		ctx, tenant := h.t.Context(), h.who.TenantID
		holder := n.begin(run.Request{}).RunID
		<-m.under
		w.hook = func() {
			var id string
			if err := h.db.QueryRow(ctx, `SELECT run_id FROM runs ORDER BY run_id DESC LIMIT 1`).Scan(&id); err != nil || id == holder {
				h.t.Errorf("the newest run is %q: %v", id, err)
			}
			if err := n.Pause(ctx, tenant, id); err != nil {
				h.t.Error(err)
			}
		}
		w.left.Store(2) // the first stores the run
		id := n.begin(run.Request{}).RunID
		rest(5 * time.Second)
		r, err := n.Get(ctx, tenant, id)
		if err != nil || r.Status != run.Paused || w.left.Load() >= 0 {
			h.t.Errorf("the run is %+v, %v", r, err)
		}
	})
}
