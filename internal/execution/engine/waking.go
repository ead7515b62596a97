package engine

import (
	"context"
	"sync"
	"time"

	"agentd/internal/base/lasting"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// Runs that wait for a model come back by themselves, after up to a minute. Once
// the model has answered one call, the others are woken earlier: firstWaking of
// them, and each wakeEvery twice as many as before, so that the endpoint is not
// run over when it has just come back.
const (
	firstWaking = 8
	maxWaking   = 512
	wakeEvery   = time.Second
)

// waking wakes the runs that wait for an endpoint that answers again. It knows the
// endpoints for which runs of this node began to wait; the runs, of all nodes, are
// in the database.
type waking struct {
	e *Engine

	mu        sync.Mutex
	endpoints map[string]*outage
	recovered chan struct{} // capacity 1: an endpoint answered
}

// outage is the state of an endpoint for which runs wait.
type outage struct {
	state *lasting.State // nil: no run of this node began to wait
	next  int            // runs to wake next; 0: the endpoint has not answered yet
}

// maxOutages bounds the endpoints that are known. Runs that wait for others come
// back by themselves.
const maxOutages = 10_000

func newWaking(e *Engine) *waking {
	return &waking{e: e, endpoints: map[string]*outage{}, recovered: make(chan struct{}, 1)}
}

// failed notes that a run waits for an endpoint, and stops the waking of others.
func (w *waking) failed(endpoint string, t model.Target, why *model.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.endpoints[endpoint]
	if o == nil {
		if len(w.endpoints) >= maxOutages {
			return
		}
		o = &outage{}
		w.endpoints[endpoint] = o
	}
	if o.state == nil {
		o.state = lasting.New(w.e.Logger.With("model", t.Provider+"/"+t.Model), "runs wait for a model")
	}
	o.next = 0
	o.state.Notice("code", why.Code, "status", why.Status, "err", why.Cause)
}

// answered notes that an endpoint answered. waited: the call belongs to a run that
// waited for it, maybe on another node.
func (w *waking) answered(t model.Target, waited bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.endpoints) == 0 && !waited {
		return
	}
	endpoint := endpointKey(t)
	o := w.endpoints[endpoint]
	if o == nil {
		if !waited || len(w.endpoints) >= maxOutages {
			return
		}
		o = &outage{}
		w.endpoints[endpoint] = o
	}
	if o.next == 0 {
		o.next = firstWaking
		select {
		case w.recovered <- struct{}{}:
		default:
		}
	}
}

// due returns how many runs to wake now, by endpoint.
func (w *waking) due() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]int{}
	for endpoint, o := range w.endpoints {
		if o.next > 0 {
			all[endpoint] = o.next
			o.next = min(2*o.next, maxWaking)
		}
	}
	return all
}

// over notes that no run waits for an endpoint any more.
func (w *waking) over(endpoint string) {
	w.mu.Lock()
	o := w.endpoints[endpoint]
	if o == nil || o.next == 0 { // it failed again meanwhile
		w.mu.Unlock()
		return
	}
	delete(w.endpoints, endpoint)
	w.mu.Unlock()
	if o.state != nil {
		o.state.End()
	}
}

// serve wakes runs until ctx ends.
func (w *waking) serve(ctx context.Context) {
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.recovered:
		case <-timer.C:
		}
		due := w.due()
		for endpoint, n := range due {
			w.wake(ctx, endpoint, n)
		}
		if len(due) > 0 {
			timer.Reset(wakeEvery)
		}
	}
}

// wake makes up to n runs that wait for an endpoint due now.
func (w *waking) wake(ctx context.Context, endpoint string, n int) {
	waits, err := w.e.Runs.ListModelWaits(ctx, endpoint, n)
	if err == nil && len(waits) > 0 {
		err = w.e.Writer.Write(ctx, func(tx txn.Tx) error { return w.wakeTx(tx, waits) })
	}
	switch {
	case err != nil:
		w.e.Logger.Warn("runs that wait for a model could not be woken yet", "err", err)
	case len(waits) < n:
		w.over(endpoint)
	}
}

func (w *waking) wakeTx(tx txn.Tx, waits []run.ModelWait) error {
	now := w.e.Clock.Now()
	for _, wait := range waits {
		if err := w.e.Queue.EnqueueTx(tx, w.e.item(&run.Record{Run: run.Run{RunID: wait.RunID, TenantID: wait.TenantID}}, now)); err != nil {
			return err
		}
		if err := w.e.Runs.DeleteModelWait(wait.TenantID, wait.RunID)(tx); err != nil {
			return err
		}
	}
	return nil
}
