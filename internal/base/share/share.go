// Package share divides places for expensive work among tenants, so that the work of
// one does not keep the others waiting.
package share

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentd/internal/base/fault"
)

// Places is a number of places for work that takes much memory or time. No tenant has
// more than its share of them at once, so that some remain for the others. It is safe
// for concurrent use. A nil *Places has no limit.
type Places struct {
	each int
	wait time.Duration

	mu      sync.Mutex
	free    int
	taken   map[string]int // by tenant
	waiting []*waiter      // in their order
}

type waiter struct {
	tenant string
	ready  chan struct{} // closed once it has a place
}

// New returns total places, of which a tenant may take each at once. A place is waited
// for up to wait.
func New(total, each int, wait time.Duration) *Places {
	return &Places{free: total, each: each, wait: wait, taken: map[string]int{}}
}

// Acquire waits for a place. The caller calls release once, when its work has ended.
// Errors: fault.Unavailable if no place became free in time; that of ctx.
func (p *Places) Acquire(ctx context.Context, tenant string) (release func(), err error) {
	if p == nil {
		return func() {}, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{tenant, make(chan struct{})}
	p.mu.Lock()
	p.waiting = append(p.waiting, w)
	p.assign()
	p.mu.Unlock()
	release = func() { p.release(tenant) }
	late := time.NewTimer(p.wait)
	defer late.Stop()
	select {
	case <-w.ready:
		return release, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = busy()
	}
	p.mu.Lock()
	i := slices.Index(p.waiting, w)
	if i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 { // it got a place meanwhile
		release()
	}
	return nil, err
}

func busy() error {
	f := fault.New(fault.Unavailable, "", "Too much work of this kind is under way; retry in a few seconds.")
	f.RetryAfter = 5 * time.Second
	return f
}

// assign distributes the free places among those who wait, in their order. Tenants that have
// their share are passed over. p.mu is held.
func (p *Places) assign() {
	for i := 0; i < len(p.waiting) && p.free > 0; {
		w := p.waiting[i]
		if p.taken[w.tenant] >= p.each {
			i++
			continue
		}
		p.free--
		p.taken[w.tenant]++
		p.waiting = slices.Delete(p.waiting, i, i+1)
		close(w.ready)
	}
}

func (p *Places) release(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if p.taken[tenant]--; p.taken[tenant] == 0 {
		delete(p.taken, tenant)
	}
	p.assign()
}
