package webhook

import (
	"sync"
	"time"
)

const (
	// maxSlots is how many attempts of a node may be expected to end soon, or have
	// ended without their outcome being stored. As many are repeated after a crash.
	maxSlots = 24
	// fastResponse is how long an attempt counts as ending soon. Slower ones give
	// their slot back: other subscriptions do not wait for them.
	fastResponse = 50 * time.Millisecond
)

// slots limit the attempts that a node makes at a time. They are given out in the
// order in which dispatchers ask, and a dispatcher has few attempts that ask, so
// each subscription gets its share.
type slots chan struct{}

// slot is the right to make an attempt. It is held until the outcome is stored,
// but at most for fastResponse if no response comes.
type slot struct {
	of      slots
	once    sync.Once
	timeout *time.Timer
}

// acquire waits for a slot. It returns nil if quit is closed first.
func (s slots) acquire(quit <-chan struct{}) *slot {
	select {
	case s <- struct{}{}:
	case <-quit:
		return nil
	}
	one := &slot{of: s}
	one.timeout = time.AfterFunc(fastResponse, one.release)
	return one
}

// keep keeps the slot until release is called, unless it has timed out.
func (s *slot) keep() {
	if s != nil {
		s.timeout.Stop()
	}
}

// release lets another attempt begin. It may be called more than once.
func (s *slot) release() {
	if s != nil {
		s.once.Do(func() { <-s.of })
	}
}
