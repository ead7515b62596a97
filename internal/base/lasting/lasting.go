// Package lasting logs states that last, such as a database that is away: when
// they begin, once a minute while they last, and when they end, however many
// goroutines notice them.
package lasting

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// every is how often a state that lasts is logged again.
const every = time.Minute

// State is a state that is logged. It is safe for concurrent use.
type State struct {
	log  *slog.Logger
	name string

	on     atomic.Bool // the state holds; read without the lock, because mostly it does not
	mu     sync.Mutex
	since  time.Time // when it began
	logged time.Time // when it was logged last
	seen   int       // how often it was noticed since it began
}

// New returns a state that does not hold. name is the message of its log lines: a
// sentence such as "the database is away".
func New(log *slog.Logger, name string) *State { return &State{log: log, name: name} }

// Holds reports whether the state holds.
func (s *State) Holds() bool { return s.on.Load() }

// Notice records that the state holds. attrs are logged with it.
func (s *State) Notice(attrs ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.seen++
	switch {
	case !s.on.Load():
		s.on.Store(true)
		s.since, s.logged = now, now
		s.log.Warn(s.name, attrs...)
	case now.Sub(s.logged) >= every:
		s.logged = now
		s.log.Warn("still: "+s.name, append([]any{"for", now.Sub(s.since).Round(time.Second), "noticed", s.seen}, attrs...)...)
	}
}

// End records that the state does not hold any more. It costs nothing where the
// state did not hold.
func (s *State) End() {
	if !s.on.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on.Swap(false) {
		s.log.Warn("over: "+s.name, "after", time.Since(s.since).Round(time.Millisecond), "noticed", s.seen)
		s.seen = 0
	}
}
