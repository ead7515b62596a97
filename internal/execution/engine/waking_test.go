package engine_test

import (
	"sync"
	"testing"
	"time"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// A model that was down is tried by one run at a time, about once a second, although
// all runs and the circuit breaker rest for longer; when it is back, the runs are done
// as fast as its limit allows (rules D22-probe, D22-limits-return).
func TestProbesModelThatIsDown(t *testing.T) {
	const runs, limit = 100, 20
	const takes = 500 * time.Millisecond
	for lasts, pause := range map[time.Duration]time.Duration{
		time.Second: time.Second, 10 * time.Second: time.Second, 2 * time.Minute: 2 * time.Second,
	} {
		t.Run(lasts.String(), func(t *testing.T) {
			inBubble(t, &fakeModel{}, func(h *harness, n *node) {
				n.stop()
				b := &busy{takes: takes}
				back := time.Now().Add(lasts)
				var mu sync.Mutex
				var tries []time.Time
				h.client = &fakeModel{answer: func(call int, req model.Request, sink func(model.Delta)) (model.Response, error) {
					if now := time.Now(); now.Before(back) {
						mu.Lock()
						tries = append(tries, now)
						mu.Unlock()
						return model.Response{}, unavailable(0)
					}
					return b.answer(call, req, sink)
				}}
				h.limits, h.rests = model.Limits{MaxConcurrency: limit}, true
				n = h.start("two", 64, nil)
				defer n.stop()
				var ids []string
				for range runs {
					ids = append(ids, n.begin(run.Request{}).RunID)
				}
				for _, id := range ids {
					r, err := n.Wait(h.t.Context(), h.who.TenantID, id, time.Hour)
					if err != nil || r.Status != run.Completed {
						h.t.Fatalf("a run is %+v, %v", r, err)
					}
				}
				took, least := time.Since(back), runs*takes/limit
				if took > pause+takes+least*12/10 {
					h.t.Errorf("all were done %v after the model came back; its limit allows %v", took, least)
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
				late := 0
				for _, at := range tries {
					if back.Sub(at) < lasts/2 {
						late++
					}
				}
				if most := int(lasts/2/time.Second)*3/2 + 2; lasts > time.Second && late > most {
					h.t.Errorf("in the second half of %v it was called %d times", lasts, late)
				}
				h.t.Logf("%v after its return all runs were done; it was called %d times while it was down", took, len(tries))
			})
		})
	}
}

// A run that fails by itself, while the model answers others, is not tried again with
// each of their answers (rule D22-probe).
func TestRunThatFailsByItselfIsNotTriedOnAndOn(t *testing.T) {
	var mu sync.Mutex
	var failures []time.Time
	inBubble(t, &fakeModel{answer: func(_ int, req model.Request, sink func(model.Delta)) (model.Response, error) {
		if req.Messages[len(req.Messages)-1].Text == "poison" {
			mu.Lock()
			failures = append(failures, time.Now())
			mu.Unlock()
			return model.Response{}, &model.Error{Code: run.CodeModelError, Detail: "It failed.", Status: 500, Retryable: true, Passing: true}
		}
		return says("Done.", sink)
	}}, func(h *harness, n *node) {
		mu.Lock()
		failures = nil
		mu.Unlock()
		id := n.begin(run.Request{Input: []byte(`{"message":"poison"}`)}).RunID
		n.waiting(id)
		for range 200 {
			n.end(n.begin(run.Request{}).RunID)
			rest(50 * time.Millisecond)
		}
		mu.Lock()
		tries := len(failures)
		mu.Unlock()
		if tries > 25 { // ten probes, its own attempts, and those after answers
			h.t.Errorf("it was tried %d times in ten seconds", tries)
		}
		if _, err := n.Cancel(h.t.Context(), h.who.TenantID, id); err != nil {
			h.t.Error(err)
		}
	})
}
