package webhook

import (
	"sync"
	"time"
)

const (
	// maxTurns is how many attempts of a node receivers may be about to take, or
	// have taken without that being written down: as many are made again after a
	// crash.
	maxTurns = 24
	// patience is how long an attempt counts as about to be taken. Receivers that
	// take longer are not waited for by others, and need no turn.
	patience = 50 * time.Millisecond
)

// turns are given out in the order in which they are asked for, so that every
// lane gets its share. A lane has only so many attempts that ask.
type turns chan struct{}

// turn is the right to make an attempt, until it is written down.
type turn struct {
	of   turns
	once sync.Once
	late *time.Timer
}

// take waits for a turn; nil: quit was closed before it came.
func (t turns) take(quit <-chan struct{}) *turn {
	select {
	case t <- struct{}{}:
	case <-quit:
		return nil
	}
	one := &turn{of: t}
	one.late = time.AfterFunc(patience, one.pass)
	return one
}

// answered keeps the turn until it is passed on, if it lasts still.
func (t *turn) answered() {
	if t != nil {
		t.late.Stop()
	}
}

// pass lets the next attempt begin.
func (t *turn) pass() {
	if t != nil {
		t.once.Do(func() { <-t.of })
	}
}
