package tool

import (
	"sync"
	"sync/atomic"
	"time"
)

// left counts the calls whose tool did not heed the end of its context: they
// go on in the background, and nobody can stop them. That many of one tool for
// one tenant, and that many in all, are borne; then no more are begun.
type left struct {
	mu    sync.Mutex
	calls map[leftKey]map[*leftCall]time.Time
	total int
}

type leftKey struct{ tenant, tool string }

const (
	leftPerTool = 16
	leftInAll   = 1024
	// leftGrace is how long a tool may take to notice that it was stopped
	// before it counts.
	leftGrace = 5 * time.Second
)

// leftCall is one call: either it ends first, or it is left behind first.
type leftCall struct{ state atomic.Int32 }

const (
	callEnded int32 = iota + 1
	callLeft
)

// full says whether another call of the tool may not be begun.
func (l *left) full(key leftKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= leftInAll {
		return true
	}
	calls := l.calls[key]
	if len(calls) < leftPerTool {
		return false
	}
	late, now := 0, time.Now()
	for _, since := range calls {
		if now.Sub(since) > leftGrace {
			late++
		}
	}
	return late >= leftPerTool
}

// leave notes that nobody waits for a call any more.
func (l *left) leave(key leftKey, c *leftCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.state.CompareAndSwap(0, callLeft) {
		return
	}
	if l.calls == nil {
		l.calls = map[leftKey]map[*leftCall]time.Time{}
	}
	if l.calls[key] == nil {
		l.calls[key] = map[*leftCall]time.Time{}
	}
	l.calls[key][c] = time.Now()
	l.total++
}

// end notes that a call's tool returned, whoever still waits for it.
func (l *left) end(key leftKey, c *leftCall) {
	if c.state.CompareAndSwap(0, callEnded) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls[key], c)
	if len(l.calls[key]) == 0 {
		delete(l.calls, key)
	}
	l.total--
}

func (l *left) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}
