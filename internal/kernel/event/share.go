package event

import (
	"sync"
	"sync/atomic"
)

// Shape is a form in which an event is sent to readers. An event is rendered
// once in each shape for all readers on this node.
type Shape int

// The shapes of an event.
const (
	OfRun     Shape = iota // on the stream of its run
	OfSession              // on the stream of the session that its run is part of
	shapeCount
)

// Shared caches the renderings of a live event, one for each shape, for all its
// readers on this node. The first reader that needs a shape renders it. Readers
// must not change a rendering.
type Shared struct {
	mu       sync.Mutex
	rendered [shapeCount]atomic.Pointer[any]
}

// Rendered returns the cached rendering of the event in a shape, if there is one.
func (s *Shared) Rendered(in Shape) (any, bool) {
	if s == nil {
		return nil, false
	}
	if rendering := s.rendered[in].Load(); rendering != nil {
		return *rendering, true
	}
	return nil, false
}

// Render returns the event in a shape, and calls render if it is not cached yet.
// On a nil Shared it calls render each time. Try Rendered first: it takes no lock.
func (s *Shared) Render(in Shape, render func() any) any {
	if s == nil {
		return render()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rendering := s.rendered[in].Load(); rendering != nil {
		return *rendering
	}
	rendering := render()
	s.rendered[in].Store(&rendering)
	return rendering
}

// share returns copies of events whose renderings their readers can share.
func share(events []Event) []Event {
	shared := make([]Shared, len(events))
	copies := make([]Event, len(events))
	for i, e := range events {
		e.Shared = &shared[i]
		copies[i] = e
	}
	return copies
}
