// Package clock is the seam for time, so that tests decide what time it is.
package clock

import (
	"sync"
	"time"
)

// Clock tells the time. Timers are the standard library's: tests of code that
// waits run in a testing/synctest bubble.
type Clock interface {
	Now() time.Time
}

// System is the real clock, in UTC and rounded to the microseconds that the
// databases keep, so that a time survives storing unchanged.
type System struct{}

// Now implements Clock.
func (System) Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Fake is a clock that stands until it is moved. Safe for concurrent use.
type Fake struct {
	mu  sync.Mutex
	now time.Time
}

// NewFake starts a fake clock at a round moment.
func NewFake() *Fake { return &Fake{now: time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)} }

// Now implements Clock.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Advance moves the clock on.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}
