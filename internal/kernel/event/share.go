package event

import (
	"sync"
	"sync/atomic"
)

// Shape is a form in which an event goes to readers. Each is rendered once for
// all readers on this node.
type Shape int

// The shapes there are.
const (
	OfRun     Shape = iota // on the stream of its run
	OfSession              // on the stream of the session that its run is part of
	shapes
)

// Shared is what the readers of a live event have in common: the event in each
// shape, rendered by the first of them that asks. What is rendered may not be
// changed.
type Shared struct {
	mu       sync.Mutex
	rendered [shapes]atomic.Pointer[any]
}

// Rendered gives the event in a shape, where somebody rendered it before.
func (s *Shared) Rendered(in Shape) (any, bool) {
	if s == nil {
		return nil, false
	}
	if made := s.rendered[in].Load(); made != nil {
		return *made, true
	}
	return nil, false
}

// Render gives the event in a shape, as render makes it. Events without
// anything shared are rendered anew each time. Ask Made before: it is cheaper.
func (s *Shared) Render(in Shape, render func() any) any {
	if s == nil {
		return render()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if made := s.rendered[in].Load(); made != nil {
		return *made
	}
	made := render()
	s.rendered[in].Store(&made)
	return made
}

// share gives copies of events that their readers can share.
func share(events []Event) []Event {
	shared := make([]Shared, len(events))
	copies := make([]Event, len(events))
	for i, e := range events {
		e.Shared = &shared[i]
		copies[i] = e
	}
	return copies
}
