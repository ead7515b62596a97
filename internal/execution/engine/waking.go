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

// Runs that wait for a model come back by themselves, after up to a minute. Until the
// model answers, one of them is woken every second or so to try; its failure is no
// attempt of its step. Once the model has answered one call, the others are woken:
// firstWaking of them, and each wakeEvery twice as many as before, so that the
// endpoint is not run over when it has just come back. Where the provider has a limit,
// which keeps it from that, they are more at first.
const (
	firstWaking = 8
	maxWaking   = 512
	wakeEvery   = time.Second

	// Probes of an endpoint become rarer as its outage lasts.
	minProbeEvery = time.Second
	maxProbeEvery = 5 * time.Second
	probesPerDown = 60 // an outage that lasts has lasted for so many times the pause between two probes
	// probeTimeout is after how long without a result another run is woken to try.
	probeTimeout = time.Minute
	// maxProbers is how many of the runs that wait take turns to try: the failure of
	// one may be due to itself.
	maxProbers = 16
)

// waking wakes the runs that wait for an endpoint: one to try whether it is back, and
// all when it is. It knows the endpoints for which runs of this node began to wait;
// the runs, of all nodes, are in the database.
type waking struct {
	e *Engine

	mu        sync.Mutex
	endpoints map[string]*outage
	changed   chan struct{} // capacity 1: an endpoint failed or answered
}

// outage is the state of an endpoint for which runs wait.
type outage struct {
	state    *lasting.State // nil: no run of this node began to wait
	since    time.Time      // when a run of this node began to wait
	failures int            // so many runs began to wait
	probes   int            // so many runs were woken to try
	next     int            // runs to wake next; 0: the endpoint has not answered yet
	at       time.Time      // when to wake the next runs; of an endpoint that has not answered, one to try
	probing  time.Time      // when a run was woken to try whose result is not known; zero: there is none
	prober   string         // the run that was woken to try last
	quiet    time.Time      // until when the endpoint asked to be left alone
	costly   bool           // the last failure came in the middle of an answer, which may be charged: it is not probed
}

// maxOutages bounds the endpoints that are known. Runs that wait for others come
// back by themselves.
const maxOutages = 10_000

func newWaking(e *Engine) *waking {
	return &waking{e: e, endpoints: map[string]*outage{}, changed: make(chan struct{}, 1)}
}

// failed notes that a run waits for an endpoint, and stops the waking of others.
// early: it was woken in vain.
func (w *waking) failed(id, endpoint string, t model.Target, why *model.Error, early bool) {
	now := w.e.Clock.Now()
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
		o.since, o.at = now, now.Add(minProbeEvery)
	}
	o.failures++
	if !why.NotMade { // otherwise it may have been refused before the endpoint answered
		o.next, o.probing = 0, time.Time{}
		o.costly = !why.Retryable
		o.at = later(o.at, now.Add(o.pause(now)))
		o.quiet = later(o.quiet, now.Add(why.RetryAfter))
	} else {
		if id == o.prober { // it could not try; another does
			o.probing = time.Time{}
		}
		if early {
			o.at = later(o.at, now.Add(minProbeEvery))
		}
	}
	o.state.Notice("code", why.Code, "status", why.Status, "err", why.Cause)
	w.notify()
}

// pause returns how long an endpoint that failed just now is not tried.
func (o *outage) pause(now time.Time) time.Duration {
	return min(max(now.Sub(o.since)/probesPerDown, minProbeEvery), maxProbeEvery)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (w *waking) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
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
	if o.next > 0 {
		return
	}
	o.next = max(firstWaking, 2*t.Limits.MaxConcurrency)
	o.probing = time.Time{}
	if waited { // otherwise a run that fails by itself would be tried after each answer that others get
		o.at = w.e.Clock.Now()
	}
	w.notify()
}

// duty is what is to be done for an endpoint.
type duty struct {
	endpoint string
	failures int // of the endpoint, when this was decided
	wake     int // runs to wake; 0: one to try
	probe    int // which of the runs is to try
}

// due returns what is to be done now, and when more will be; zero: it is not known.
func (w *waking) due() (all []duty, next time.Time) {
	now := w.e.Clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for endpoint, o := range w.endpoints {
		at := o.at
		if o.next == 0 {
			if o.costly {
				continue
			}
			if at = later(at, o.quiet); !o.probing.IsZero() {
				at = later(at, o.probing.Add(probeTimeout))
			}
		}
		if !at.After(now) {
			all = append(all, duty{endpoint, o.failures, o.next, o.probes})
			if o.next > 0 {
				o.next = min(2*o.next, max(o.next, maxWaking))
				o.at = now.Add(wakeEvery)
			} else {
				o.probes++
				o.probing, o.at = now, now.Add(o.pause(now))
			}
			at = o.at
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return all, next
}

// tries reports whether a run was woken to try an endpoint and has not yet. Its own
// time may have come meanwhile, so that nothing else tells it from those that come
// back by themselves.
func (w *waking) tries(id string, t model.Target) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.endpoints) == 0 {
		return false
	}
	o := w.endpoints[endpointKey(t)]
	return o != nil && o.prober == id && !o.probing.IsZero()
}

// probesWith notes which run is woken to try.
func (w *waking) probesWith(endpoint, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.endpoints[endpoint]; o != nil {
		o.prober = id
	}
}

// notProbed notes that no run could be woken to try.
func (w *waking) notProbed(d duty) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.endpoints[d.endpoint]; o != nil && d.wake == 0 {
		o.probing = time.Time{}
	}
}

// over notes that no run waits for an endpoint any more.
func (w *waking) over(d duty) {
	w.mu.Lock()
	o := w.endpoints[d.endpoint]
	if o == nil || o.failures != d.failures { // it failed again meanwhile
		w.mu.Unlock()
		return
	}
	delete(w.endpoints, d.endpoint)
	w.mu.Unlock()
	if o.state != nil {
		o.state.End()
	}
}

// serve wakes runs until ctx ends.
func (w *waking) serve(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		case <-timer.C:
		}
		due, next := w.due()
		for _, d := range due {
			w.wake(ctx, d)
		}
		if !next.IsZero() {
			timer.Reset(next.Sub(w.e.Clock.Now()))
		}
	}
}

// wake makes runs that wait for an endpoint due now.
func (w *waking) wake(ctx context.Context, d duty) {
	limit := d.wake
	if limit == 0 {
		limit = maxProbers
	}
	waits, err := w.e.Runs.ListModelWaits(ctx, d.endpoint, limit)
	none := len(waits) < d.wake || len(waits) == 0
	if d.wake == 0 && len(waits) > 0 {
		prober := d.probe % len(waits)
		waits = waits[prober : prober+1]
		w.probesWith(d.endpoint, waits[0].RunID)
	}
	if err == nil && len(waits) > 0 {
		err = w.e.Writer.Write(ctx, func(tx txn.Tx) error { return w.wakeTx(tx, waits) })
	}
	switch {
	case err != nil:
		w.notProbed(d)
		w.e.Logger.Warn("runs that wait for a model could not be woken yet", "err", err)
	case none:
		w.over(d)
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
