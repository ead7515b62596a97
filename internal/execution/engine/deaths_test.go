package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// hanging is a model whose calls, except those whose message is "Quick.", never end
// by themselves. It sends when a call was made.
type hanging struct{ under chan time.Time }

func (m hanging) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	if req.Messages[len(req.Messages)-1].Text == "Quick." {
		return says("Done.", sink)
	}
	select {
	case m.under <- time.Now():
	case <-ctx.Done():
	}
	<-ctx.Done()
	return model.Response{}, ctx.Err()
}

// dies starts a node and kills it when it called the model. It returns when that was.
func (r *harness) dies(m hanging, before func(*node)) time.Time {
	r.t.Helper()
	w := &flaky{Writer: r.db}
	n := r.start("a", 8, w)
	before(n)
	at := <-m.under
	w.kill()
	n.stop()
	return at
}

// lastRetry returns the newest event step.retrying of a run.
func lastRetry(r *harness, id string) (d run.StepRetryingData) {
	r.t.Helper()
	for _, e := range r.events(id) {
		if e.Name == "step.retrying" {
			if err := json.Unmarshal(e.Data, &d); err != nil {
				r.t.Error(err)
			}
		}
	}
	return d
}

// A model call during which the process died is made again at once, and then
// after longer and longer waits, during which other runs go on. At the fifth death it
// is given up (rule X-steps-that-kill).
func TestWaitsBetweenDeaths(t *testing.T) {
	inBubble(t, &fakeModel{}, func(h *harness, n *node) {
		n.stop()
		m := hanging{make(chan time.Time)}
		h.client = m
		var id string
		var died time.Time
		for i, wait := range []time.Duration{0, 0, 2 * time.Second, 8 * time.Second, 30 * time.Second} {
			at := h.dies(m, func(n *node) {
				if id == "" {
					id = n.begin(run.Request{}).RunID
				}
				if wait == 0 {
					return
				}
				r := n.waiting(id)
				if r.Status != run.Running || r.WaitingFor != run.WaitsForModel || r.NextAttemptAt == nil || r.Attempts != i {
					h.t.Errorf("after %d deaths the run is %+v", i, r)
				}
				if d := lastRetry(h, id); d.Attempt != i || d.AfterMS != wait.Milliseconds() || !strings.Contains(d.Reason, "stopped") {
					h.t.Errorf("after %d deaths the event is %+v", i, d)
				}
				if r := n.end(n.begin(run.Request{Input: []byte(`{"message":"Quick."}`)}).RunID); r.Status != run.Completed {
					h.t.Errorf("another run is %s meanwhile", r.Status)
				}
			})
			if took := at.Sub(died); i > 0 && (took < wait-10*time.Millisecond || took > wait+2*time.Second) {
				h.t.Errorf("after %d deaths the model is called after %v, want %v", i, took, wait)
			}
			died = time.Now()
		}
		n = h.start("a", 8, nil)
		defer n.stop()
		r := n.end(id)
		h.checkEnded(r)
		steps := h.steps(id)
		if r.Status != run.Failed || r.ErrorCode != run.CodeStepCrashed || len(steps) != 1 || len(steps[0].Attempts) != 5 {
			h.t.Errorf("the run is %s, %s, its steps are %+v", r.Status, r.ErrorCode, steps)
		}
	})
}

// A run that waits after deaths can be cancelled and paused at once; a node that
// stops meanwhile, in whichever way, is no death; the run's time ends it.
func TestActsBetweenDeaths(t *testing.T) {
	inBubble(t, &fakeModel{}, func(h *harness, n *node) {
		n.stop()
		ctx, tenant := h.t.Context(), h.who.TenantID
		m := hanging{make(chan time.Time)}
		h.client = m
		var id string
		dieTwice := func(limits run.Limits) *node {
			h.t.Helper()
			id = ""
			for range 2 {
				h.dies(m, func(n *node) {
					if id == "" {
						id = n.begin(run.Request{Limits: limits}).RunID
					}
				})
			}
			return h.start("a", 8, nil)
		}

		n = dieTwice(run.Limits{})
		n.waiting(id)
		if got, err := n.Cancel(ctx, tenant, id); err != nil || !got.Cancelled {
			h.t.Errorf("cancel: %+v, %v", got, err)
		}
		h.checkEnded(n.end(id))
		n.stop()

		n = dieTwice(run.Limits{})
		n.waiting(id)
		if err := n.Pause(ctx, tenant, id); err != nil {
			h.t.Error(err)
		}
		if r, err := n.Get(ctx, tenant, id); err != nil || r.Status != run.Paused {
			h.t.Errorf("the paused run is %+v, %v", r, err)
		}
		if err := n.Resume(ctx, tenant, id, "Quick."); err != nil {
			h.t.Error(err)
		}
		if r := n.end(id); r.Status != run.Completed {
			h.t.Errorf("the resumed run is %s", r.Status)
		}
		n.stop()

		ms := int64(1500)
		n = dieTwice(run.Limits{MaxDurationMS: &ms})
		if r := n.end(id); r.Status != run.TimedOut || time.Since(r.CreatedAt) > 10*time.Second {
			h.t.Errorf("a run of 1.5 s is %s after %v", r.Status, time.Since(r.CreatedAt))
		}
		n.stop()

		n = dieTwice(run.Limits{})
		n.waiting(id)
		n.stop()
		w := &flaky{Writer: h.db}
		n = h.start("a", 8, w)
		n.waiting(id)
		w.kill()
		n.stop()
		n = h.start("a", 8, nil)
		defer n.stop()
		if r := n.waiting(id); r.Attempts != 2 {
			h.t.Errorf("stops meanwhile are counted: %+v", r)
		}
		<-m.under
		names := names(h.events(id))
		if i := slices.Index(names, "step.retrying"); i < 0 || slices.Contains(names[i+1:], "run.resumed") {
			h.t.Errorf("the events are %v", names)
		}
	})
}
