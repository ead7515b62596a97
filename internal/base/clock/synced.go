package clock

import (
	"sync/atomic"
	"time"
)

// Steady is a clock that shows the system's time of its creation plus what has
// passed since: setting the system's clock does not change it.
type Steady struct{ start time.Time }

// NewSteady returns a clock that is right now.
func NewSteady() Steady { return Steady{time.Now()} }

// Now implements Clock.
func (s Steady) Now() time.Time {
	return s.start.Add(time.Since(s.start)).UTC().Truncate(time.Microsecond)
}

// Synced is a clock that follows another one, such as that of a database which
// several nodes share. Until it is set it is the system's clock. It is safe for
// concurrent use.
type Synced struct{ last atomic.Pointer[reading] }

// reading is what the other clock showed at a moment.
type reading struct{ here, there time.Time }

// Now implements Clock.
func (s *Synced) Now() time.Time {
	r := s.last.Load()
	if r == nil {
		return System{}.Now()
	}
	return r.there.Add(time.Since(r.here)).UTC().Truncate(time.Microsecond)
}

// Set has the clock show there now, where the other clock was read between sent
// and the present, and returns by how much the system's clock differs: it is
// positive where the system's clock is ahead.
func (s *Synced) Set(there, sent time.Time) (skew time.Duration) {
	here := sent.Add(time.Since(sent) / 2)
	s.last.Store(&reading{here, there})
	return here.Round(0).Sub(there)
}
