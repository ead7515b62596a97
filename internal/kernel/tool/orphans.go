package tool

import (
	"sync"
	"sync/atomic"
	"time"
)

// orphans counts calls whose tool ignored the end of its context: they still run
// in the background and cannot be stopped. Beyond maxOrphansPerTool of a tool
// for a tenant, or maxOrphans in all, new calls are refused.
type orphans struct {
	mu    sync.Mutex
	calls map[orphanKey]map[*trackedCall]time.Time
	total int
}

type orphanKey struct{ tenant, tool string }

const (
	maxOrphansPerTool = 16
	maxOrphans        = 1024
	// orphanGrace is how long a tool may take to return after the end of its
	// context before the call counts toward maxOrphansPerTool.
	orphanGrace = 5 * time.Second
)

// trackedCall is a call whose tool either returns in time or is abandoned by its
// caller first.
type trackedCall struct{ state atomic.Int32 }

const (
	callReturned int32 = iota + 1
	callAbandoned
)

// full reports whether another call of the tool is to be refused.
func (o *orphans) full(key orphanKey) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.total >= maxOrphans {
		return true
	}
	calls := o.calls[key]
	if len(calls) < maxOrphansPerTool {
		return false
	}
	late, now := 0, time.Now()
	for _, since := range calls {
		if now.Sub(since) > orphanGrace {
			late++
		}
	}
	return late >= maxOrphansPerTool
}

// add records that nothing waits for a call any more.
func (o *orphans) add(key orphanKey, c *trackedCall) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !c.state.CompareAndSwap(0, callAbandoned) {
		return
	}
	if o.calls == nil {
		o.calls = map[orphanKey]map[*trackedCall]time.Time{}
	}
	if o.calls[key] == nil {
		o.calls[key] = map[*trackedCall]time.Time{}
	}
	o.calls[key][c] = time.Now()
	o.total++
}

// end records that the tool of a call returned, whether or not the call was
// abandoned before.
func (o *orphans) end(key orphanKey, c *trackedCall) {
	if c.state.CompareAndSwap(0, callReturned) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.calls[key], c)
	if len(o.calls[key]) == 0 {
		delete(o.calls, key)
	}
	o.total--
}

func (o *orphans) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}
