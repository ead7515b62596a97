package mcpclient

import (
	"sync"
	"time"

	"agentd/internal/base/fault"
)

const (
	// tolerated is how many failures in a row are met with another try at once.
	tolerated = 3
	// firstHold and longestHold are how long a server is left alone then: twice
	// as long with every further failure.
	firstHold   = 5 * time.Second
	longestHold = 5 * time.Minute
)

// breaker keeps runs from waiting for a server that fails. The zero value lets
// everything through.
type breaker struct {
	mu       sync.Mutex
	failures int
	until    time.Time
}

// check fails while the server is left alone. After that one caller tries, and
// the others are held off until it knows more.
func (b *breaker) check(now time.Time, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < tolerated {
		return nil
	}
	if wait := b.until.Sub(now); wait > 0 {
		e := fault.New(fault.Unavailable, "", "The MCP server %s failed %d times in a row; it is tried again in %v.", name, b.failures, wait.Round(time.Second))
		e.RetryAfter = wait
		return e
	}
	b.until = now.Add(firstHold)
	return nil
}

// failed counts a failure, and says whether the server is left alone from now
// on.
func (b *breaker) failed(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	if b.failures < tolerated {
		return false
	}
	b.until = now.Add(min(firstHold<<min(b.failures-tolerated, 10), longestHold))
	return true
}

func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.until = 0, time.Time{}
}
