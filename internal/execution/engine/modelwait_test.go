package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// fakeModel is a model.Client that answers by a function. It notes when it was
// called.
type fakeModel struct {
	answer func(call int, req model.Request, sink func(model.Delta)) (model.Response, error)

	mu    sync.Mutex
	calls []time.Time
	asked []string // models
}

func (f *fakeModel) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	f.mu.Lock()
	f.calls, f.asked = append(f.calls, time.Now()), append(f.asked, req.Target.Model)
	n := len(f.calls)
	f.mu.Unlock()
	if ctx.Err() != nil {
		return model.Response{}, ctx.Err()
	}
	return f.answer(n, req, sink)
}

func (f *fakeModel) times() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// says streams a text and returns it.
func says(text string, sink func(model.Delta)) (model.Response, error) {
	for _, piece := range strings.SplitAfter(text, " ") {
		if sink != nil {
			sink(model.Delta{Text: piece})
		}
	}
	return model.Response{Text: text, FinishReason: model.FinishStop, Usage: model.Usage{InputTokens: 1, OutputTokens: 1}}, nil
}

func unavailable(after time.Duration) error {
	return &model.Error{
		Code: run.CodeModelError, Detail: "The model endpoint failed (status 503).", Status: 503, Retryable: true, Passing: true, RetryAfter: after,
	}
}

// inBubble runs a test with a node in a synctest bubble, on both databases.
func inBubble(t *testing.T, client *fakeModel, test func(h *harness, n *node), adjust ...func(h *harness)) {
	t.Parallel()
	for _, kind := range []sqldbtest.Engine{sqldbtest.SQLite, sqldbtest.Postgres} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			cfg := migrated(t, kind)
			synctest.Test(t, func(t *testing.T) {
				db, err := sqldb.Open(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				own := &fakeModel{answer: client.answer}
				h := &harness{
					t: t, db: db, runs: runsql.New(db), log: runsql.NewEvents(db), sim: &modeltest.Server{URL: "http://127.0.0.1:1/v1"},
					who:  authz.Caller{TenantID: ident.New(), UserID: ident.New(), Role: authz.Owner, Scopes: []authz.Scope{authz.Wildcard}},
					gate: policy.AllowAll{}, tools: tool.Builtins(clock.System{}), client: own, model: own,
					agents: &agents{spec: run.AgentSpec{ID: ident.New(), Version: 1, ModelRetry: run.DefaultModelRetry}},
				}
				for _, a := range adjust {
					a(h)
				}
				n := h.start("one", 64, nil)
				test(h, n)
				n.stop()
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// waiting returns the run once it waits for its model.
func (n *node) waiting(id string) *run.Run {
	n.h.t.Helper()
	for range 200 {
		r, err := n.Get(n.h.t.Context(), n.h.who.TenantID, id)
		if err != nil {
			n.h.t.Fatal(err)
		}
		if r.WaitingFor != "" {
			return r
		}
		rest(10 * time.Millisecond)
	}
	n.h.t.Fatal("the run does not wait")
	return nil
}

func count(events []event.Event, name string) (n int) {
	for _, e := range events {
		if e.Name == name {
			n++
		}
	}
	return n
}

// A failure that passes does not end a run: it waits in the queue, without a
// worker, and the same step is tried again (rule D22-passing).
func TestWaitsForModel(t *testing.T) {
	inBubble(t, &fakeModel{answer: func(call int, _ model.Request, sink func(model.Delta)) (model.Response, error) {
		if call <= 3 {
			return model.Response{}, unavailable(0)
		}
		return says("It is 42.", sink)
	}}, func(h *harness, n *node) {
		began := time.Now()
		id := n.begin(run.Request{}).RunID
		r := n.waiting(id)
		for range 200 { // it may be woken just now, to see whether the model is back
			if n.engine.Active() == 0 {
				break
			}
			rest(10 * time.Millisecond)
			r = n.waiting(id)
		}
		if r.Status != run.Running || r.WaitingFor != run.WaitsForModel || r.Attempts < 1 || r.NextAttemptAt == nil || n.engine.Active() != 0 {
			h.t.Errorf("the run that waits is %+v, %d are driven", r, n.engine.Active())
		}
		r = n.end(id)
		if r.Status != run.Completed || h.output(r).Text != "It is 42." || r.WaitingFor != "" || r.NextAttemptAt != nil || r.Attempts != 0 {
			h.t.Errorf("the run is %+v", r)
		}
		h.checkEnded(r)
		events, steps := h.events(id), h.steps(id)
		// A try of a run that was woken early, to see whether the model is back, is no attempt.
		retried := count(events, "step.retrying")
		if calls := len(h.model.times()); calls != 4 || retried < 1 || retried > 3 || count(events, "step.started") != 1 || count(events, "step.draft_void") != 0 {
			h.t.Errorf("the events are %v", names(events))
		}
		if len(steps) != 1 || len(steps[0].Attempts) != retried || steps[0].Attempts[0].Error != "The model endpoint failed (status 503)." {
			h.t.Errorf("the steps are %+v", steps)
		}
		for _, e := range events {
			if !strings.HasPrefix(e.Name, "run.") && !strings.Contains(string(e.Data), `"step_id":"`+steps[0].StepID+`","step_seq":1`) {
				h.t.Errorf("%s %s does not name its step", e.Name, e.Data)
			}
		}
		if took := time.Since(began); r.Metrics.DurationMS < milli(took)*0.8 || r.Metrics.DurationMS > milli(took)*1.2 {
			h.t.Errorf("the run took %v, and counts %v ms", took, r.Metrics.DurationMS)
		}
	})
}

func milli(d time.Duration) float64 { return float64(d.Milliseconds()) }

// An answer that breaks off is void, and made again. Readers learn of it before the
// new text comes; the log has only the answer that counts (rule D22-void).
func TestBrokenStreamIsVoid(t *testing.T) {
	broken := &model.Error{Code: run.CodeModelError, Detail: "The connection broke.", Status: 200, Passing: true}
	inBubble(t, &fakeModel{answer: func(call int, _ model.Request, sink func(model.Delta)) (model.Response, error) {
		if call == 1 {
			sink(model.Delta{Thinking: "Hm. "})
			sink(model.Delta{Text: "It is "})
			rest(200 * time.Millisecond) // a draft is stored
			sink(model.Delta{Text: "41"})
			return model.Response{}, broken
		}
		return says("It is 42.", sink)
	}}, func(h *harness, n *node) {
		id := ident.New()
		follower := event.Follower{Log: h.log, Hub: n.Hub, Complete: true}
		sub := n.Hub.Subscribe(id)
		defer sub.Close()
		n.begin(run.Request{RunID: id})
		var seen []string
		for e, err := range follower.FollowNew(h.t.Context(), h.who.TenantID, sub) {
			if err != nil {
				h.t.Fatal(err)
			}
			switch e.Name {
			case "llm.chunk", "llm.thinking", "step.draft_void", "step.retrying", "llm.completed":
				seen = append(seen, e.Name)
			}
			if run.FinalEvent(e.Name) {
				break
			}
		}
		want := "[llm.thinking llm.chunk llm.chunk step.draft_void step.retrying llm.chunk llm.chunk llm.chunk llm.completed]"
		if got := fmt.Sprint(seen); got != want {
			h.t.Errorf("a reader sees %v, want %v", got, want)
		}
		r := n.end(id)
		h.checkEnded(r)
		text := ""
		for _, e := range h.events(id) {
			if e.Name == "llm.chunk" || e.Name == "llm.thinking" {
				text += string(e.Data[:strings.Index(string(e.Data), ",")])
			}
		}
		if r.Status != run.Completed || text != `{"text":"It "{"text":"is "{"text":"42."` {
			h.t.Errorf("the run is %s; its log has %s", r.Status, text)
		}
	})
}

// The fallback is called before a wait begins, also when the first model's answer
// broke off; the texts of two models do not mix (rule D22-fallback).
func TestFallbackAfterBrokenStream(t *testing.T) {
	inBubble(t, &fakeModel{answer: func(_ int, req model.Request, sink func(model.Delta)) (model.Response, error) {
		if req.Target.Model == "sim-model" {
			sink(model.Delta{Text: "It is "})
			return model.Response{}, unavailable(time.Hour)
		}
		return says("Forty-two.", sink)
	}}, func(h *harness, n *node) {
		h.agents.spec.Fallback = &model.Spec{ModelRef: "default/other-model"}
		r := n.end(n.begin(run.Request{}).RunID)
		h.checkEnded(r)
		events := h.events(r.RunID)
		if r.Status != run.Completed || h.output(r).Text != "Forty-two." || count(events, "step.draft_void") != 1 || count(events, "step.retrying") != 0 {
			h.t.Errorf("the run is %s, %s; its events are %v", r.Status, r.Output, names(events))
		}
	})
}

// A wait ends with the run where the next attempt would be beyond what the agent or
// the run allows (rules D22-bounds, D22-lasting).
func TestBoundsOfModelWaits(t *testing.T) {
	limited := func(after time.Duration) error {
		return &model.Error{Code: run.CodeModelRateLimited, Detail: "Too many calls.", Status: 429, Retryable: true, Passing: true, RetryAfter: after}
	}
	ms := int64(3000)
	for name, c := range map[string]struct {
		err    error
		retry  run.ModelRetry
		limits run.Limits
		status run.Status
		code   string
		calls  int // 0: any number
		longer time.Duration
		within time.Duration
	}{
		"retry-after-a-year": {err: limited(365 * 24 * time.Hour), retry: run.DefaultModelRetry, status: run.Failed, code: "model_rate_limited", calls: 1, within: time.Second},
		"lasting":            {err: &model.Error{Code: "model_error", Status: 400}, retry: run.DefaultModelRetry, status: run.Failed, code: "model_error", calls: 1, within: time.Second},
		"no-waits":           {err: unavailable(0), status: run.Failed, code: "model_error", calls: 1, within: time.Second},
		"max-attempts":       {err: unavailable(0), retry: run.ModelRetry{MaxElapsed: time.Hour, MaxAttempts: 4}, status: run.Failed, code: "model_error", within: 30 * time.Second},
		"max-elapsed":        {err: unavailable(0), retry: run.ModelRetry{MaxElapsed: 10 * time.Minute}, status: run.Failed, code: "model_error", longer: 8 * time.Minute, within: 10*time.Minute + time.Second},
		"retry-after":        {err: limited(45 * time.Second), retry: run.ModelRetry{MaxElapsed: 100 * time.Second}, status: run.Failed, code: "model_rate_limited", calls: 3, longer: 90 * time.Second, within: 92 * time.Second},
		"max-duration":       {err: unavailable(0), retry: run.DefaultModelRetry, limits: run.Limits{MaxDurationMS: &ms}, status: run.TimedOut, code: "MAX_DURATION_EXCEEDED", within: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &fakeModel{answer: func(int, model.Request, func(model.Delta)) (model.Response, error) {
				return model.Response{}, c.err
			}}, func(h *harness, n *node) {
				h.agents.spec.ModelRetry = c.retry
				began := time.Now()
				id := n.begin(run.Request{Limits: c.limits}).RunID
				r, err := n.Wait(h.t.Context(), h.who.TenantID, id, time.Hour)
				if err != nil {
					h.t.Fatal(err)
				}
				took := time.Since(began)
				if r.Status != c.status || r.ErrorCode != c.code || took > c.within || took < c.longer {
					h.t.Errorf("the run is %s, %s, after %v", r.Status, r.ErrorCode, took)
				}
				calls := h.model.times()
				attempts := h.steps(id)[0].Attempts
				if n := c.retry.MaxAttempts; n > 0 && len(attempts) != n || n == 0 && c.calls > 0 && len(calls) != c.calls {
					h.t.Errorf("%d attempts and %d calls, want %d", len(attempts), len(calls), max(n, c.calls))
				}
				if f, ok := errors.AsType[*model.Error](c.err); ok && len(calls) > 1 && f.RetryAfter > 0 {
					if gap := calls[1].Sub(calls[0]); gap < f.RetryAfter || gap >= f.RetryAfter+time.Second {
						h.t.Errorf("asked to wait %v, it waited %v", f.RetryAfter, gap)
					}
				}
				if a := h.steps(id)[0].Attempts; len(a) > run.MaxAttemptsKept {
					h.t.Errorf("%d attempts are kept", len(a))
				}
				h.checkEnded(r)
			})
		})
	}
}

// People act at once on a run that waits for its model (rule D22-act).
func TestActsDuringModelWait(t *testing.T) {
	inBubble(t, &fakeModel{}, func(h *harness, n *node) {
		var down atomic.Bool
		down.Store(true)
		h.client.(*fakeModel).answer = func(_ int, _ model.Request, sink func(model.Delta)) (model.Response, error) {
			if down.Load() {
				return model.Response{}, unavailable(10 * time.Minute)
			}
			return says("Done.", sink)
		}
		ctx, tenant := h.t.Context(), h.who.TenantID
		usd := 1.0
		id := n.begin(run.Request{Limits: run.Limits{MaxCostUSD: &usd}}).RunID
		n.waiting(id)
		if got, err := n.Cancel(ctx, tenant, id); err != nil || !got.Cancelled {
			h.t.Errorf("cancel: %+v, %v", got, err)
		}
		r := n.end(id)
		if r.Status != run.Cancelled || r.WaitingFor != "" || r.Metrics.DurationMS > 5000 {
			h.t.Errorf("the cancelled run is %+v", r)
		}
		h.checkEnded(r)
		var spent, reserved int64
		if err := h.db.QueryRow(ctx, `SELECT spent, reserved FROM run_budgets WHERE budget_id = ?`, id).Scan(&spent, &reserved); err != nil || spent != 0 || reserved != 0 {
			h.t.Errorf("a call that was not made cost %d, %d are reserved: %v", spent, reserved, err)
		}

		id = n.begin(run.Request{}).RunID
		n.waiting(id)
		if err := n.Pause(ctx, tenant, id); err != nil {
			h.t.Error(err)
		}
		if r, err := n.Get(ctx, tenant, id); err != nil || r.Status != run.Paused || r.WaitingFor != "" {
			h.t.Errorf("the paused run is %+v, %v", r, err)
		}
		down.Store(false)
		if err := n.Resume(ctx, tenant, id, "Go on."); err != nil {
			h.t.Error(err)
		}
		if r := n.end(id); r.Status != run.Completed || time.Since(r.CreatedAt) > 10*time.Second {
			h.t.Errorf("the resumed run is %s after %v", r.Status, time.Since(r.CreatedAt))
		}

		down.Store(true)
		id = n.begin(run.Request{}).RunID
		n.waiting(id)
		if err := n.AgentDeleted(ctx, tenant, h.agents.spec.ID); err != nil {
			h.t.Error(err)
		}
		if r := n.end(id); r.Status != run.Cancelled || r.ErrorCode != run.CodeAgentDeleted {
			h.t.Errorf("the run of the deleted agent is %s, %s", r.Status, r.ErrorCode)
		}
		id = n.begin(run.Request{}).RunID
		n.waiting(id)
		h.agents.delete() // and the event of it is late
		rest(11 * time.Minute)
		if r := n.end(id); r.Status != run.Cancelled || r.ErrorCode != run.CodeAgentDeleted {
			h.t.Errorf("the run of the deleted agent is %s, %s", r.Status, r.ErrorCode)
		}
		var left int
		if err := h.db.QueryRow(ctx, `SELECT COUNT(*) FROM model_waits WHERE tenant_id = ?`, tenant).Scan(&left); err != nil || left != 0 {
			h.t.Errorf("%d waits are left: %v", left, err)
		}
		if err := n.Pause(ctx, tenant, id); !fault.Is(err, fault.Conflict) {
			h.t.Errorf("pausing a run that ended: %v", err)
		}
	})
}

// Once the model answers again, the runs that wait are woken in steps that double,
// not at once and not after their long waits (rule D22-waking).
func TestWakesWaitingRuns(t *testing.T) {
	const runs = 100
	inBubble(t, &fakeModel{answer: func(call int, _ model.Request, sink func(model.Delta)) (model.Response, error) {
		if call <= runs {
			return model.Response{}, unavailable(10 * time.Minute)
		}
		return says("Done.", sink)
	}}, func(h *harness, n *node) {
		var ids []string
		for range runs {
			ids = append(ids, n.begin(run.Request{}).RunID)
		}
		for _, id := range ids {
			n.waiting(id)
		}
		rest(time.Minute)
		back := time.Now()
		if r := n.end(n.begin(run.Request{}).RunID); r.Status != run.Completed {
			h.t.Fatalf("the first run is %s", r.Status)
		}
		for _, id := range ids {
			if r := n.end(id); r.Status != run.Completed {
				h.t.Errorf("a run that waited is %s", r.Status)
			}
		}
		if took := time.Since(back); took > 6*time.Second || took < 2*time.Second {
			h.t.Errorf("all were done %v after the model came back", took)
		}
		first := 0
		for _, at := range h.model.times()[runs:] {
			if at.Sub(back) < 500*time.Millisecond {
				first++
			}
		}
		if first > 10 {
			h.t.Errorf("%d calls in the first half second", first)
		}
	})
}
