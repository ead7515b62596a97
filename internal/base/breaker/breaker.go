// Package breaker keeps callers from waiting for an endpoint that fails: after
// some failures in a row calls are refused at once. After a pause one call
// tries again; each trial that fails doubles the pause.
package breaker

import (
	"sync"
	"time"
)

// Breaker is the state of one endpoint. Its settings are set before its first
// use; it is safe for concurrent use then.
type Breaker struct {
	After    int           // failures in a row that open it
	First    time.Duration // how long it stays open at first
	Max      time.Duration // how long it stays open at most
	MaxTrial time.Duration // after this time without a report a trial is given up; 0: never

	mu       sync.Mutex
	failures int // in a row
	pause    time.Duration
	until    time.Time // calls are refused until then; zero: it is closed
	trial    time.Time // when the trial under way began; zero: there is none
	since    time.Time // of the present state
}

// Outcome is what a call showed about its endpoint.
type Outcome int

// Outcomes of calls.
const (
	Undecided Outcome = iota // nothing: the caller gave up, say
	Alive
	Failed
)

// Allow reports whether a call may be made now: wait is zero then, and else how
// long the caller should wait before it asks again, a second at least. A trial is
// the one call that finds out whether an open breaker can close; its outcome
// must be reported, or the trial lasts for MaxTrial.
func (b *Breaker) Allow(now time.Time) (trial bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		b.since = now
	}
	switch {
	case b.until.IsZero():
		return false, 0
	case now.Before(b.until), b.trying(now):
		return false, max(b.until.Sub(now), time.Second)
	}
	b.trial = now
	return true, 0
}

// AllowTrial is Allow for a caller that finds out for others whether the endpoint is
// back: it does not wait for the end of the pause, only for a trial that is under way.
func (b *Breaker) AllowTrial(now time.Time) (trial bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return false, 0
	case b.trying(now):
		return false, time.Second
	}
	b.trial = now
	return true, 0
}

func (b *Breaker) trying(now time.Time) bool {
	return !b.trial.IsZero() && (b.MaxTrial == 0 || now.Before(b.trial.Add(b.MaxTrial)))
}

// Report records the outcome of a call, and reports whether the breaker is open
// from now on. trial is what Allow returned for the call; a caller that does
// not know passes true.
func (b *Breaker) Report(now time.Time, trial bool, o Outcome) (open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial = trial && !b.trial.IsZero(); trial {
		b.trial = time.Time{}
	}
	switch {
	case o == Alive && b.failures > 0:
		b.failures, b.pause, b.until, b.trial, b.since = 0, 0, time.Time{}, time.Time{}, now
	case o != Failed:
	case trial:
		b.failures++
		b.pause = min(2*b.pause, b.Max)
		b.until = now.Add(b.pause)
	case !b.until.IsZero(): // the call began before the breaker opened: it shows nothing new
	default:
		b.fail(now)
	}
	return !b.until.IsZero()
}

func (b *Breaker) fail(now time.Time) {
	b.failures++
	if b.failures == 1 || b.failures == b.After {
		b.since = now
	}
	if b.failures >= b.After {
		b.pause = b.First
		b.until = now.Add(b.pause)
	}
}

// State is what is known of an endpoint.
type State struct {
	Failures int // in a row
	Open     bool
	Since    time.Time // when it began to fail, opened or recovered, or was called first
}

// State returns the present state.
func (b *Breaker) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return State{b.failures, !b.until.IsZero(), b.since}
}
