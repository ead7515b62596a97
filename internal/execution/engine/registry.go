package engine

import (
	"sync"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/work"
)

// registry has the attempts of this node, by run id.
type registry struct {
	mu       sync.Mutex
	prepared map[string]*attempt // stored with a lease, and about to be handled
	active   map[string]*attempt // being driven
}

func newRegistry() *registry {
	return &registry{prepared: map[string]*attempt{}, active: map[string]*attempt{}}
}

// prepare keeps an attempt until its lease is handled.
func (r *registry) prepare(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepared[a.journal.rec.RunID] = a
}

// take removes and returns the attempt that was prepared with a lease, nil if
// there is none. One that was prepared with an older lease is dropped.
func (r *registry) take(lease work.Lease) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.prepared[lease.Key]
	delete(r.prepared, lease.Key)
	if a == nil || a.journal.lease.Epoch == lease.Epoch {
		return a
	}
	a.speculative.cancel(work.ErrLost)
	return nil
}

// dropPrepared cancels the model calls of prepared runs that are not handled
// any more, because the runner has stopped.
func (r *registry) dropPrepared() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.prepared {
		a.speculative.cancel(work.ErrStopping)
	}
	clear(r.prepared)
}

func (r *registry) track(runID string, a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active[runID] = a
}

func (r *registry) untrack(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.active, runID)
}

// abort ends the model or tool calls of a run that was cancelled. Its row has
// the final state already.
func (r *registry) abort(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.active[runID]; a != nil {
		work.Abandon(a.lost)
	}
}

// end asks the worker of a run to end it.
func (r *registry) end(runID string, why run.Ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.active[runID]; a != nil {
		a.end(&endedByOthers{why})
	}
}

func (r *registry) countActive() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.active)
}
