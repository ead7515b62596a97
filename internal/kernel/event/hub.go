package event

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"agentd/internal/base/ident"
)

// Batch is what a writer publishes live: events of one stream in order. Prev
// is the seq of the event that came before, so that a reader knows whether it
// missed any: it did if Prev is beyond what it has seen.
type Batch struct {
	Stream string  `json:"stream"`
	Prev   int64   `json:"prev"`
	Events []Event `json:"events"`
}

// Relay carries batches and signals to and from other nodes. It may lose them.
type Relay interface {
	Forward(b Batch)
	// Watch must not block; Settle returns once what is watched is in effect.
	Watch(stream string) (stop func())
	Settle()
	Signal(topic, key string)
}

// Hub fans live batches out to the readers on this node, and through a relay
// to those on others. Publishing never blocks. Any number of readers of one
// stream cost one watch of the relay.
type Hub struct {
	relay        Relay
	disconnected atomic.Bool // the relay hears nothing

	mu      sync.RWMutex
	streams map[string]*topic
	signals map[string]map[*func(string)]struct{}
}

// topic is the readers of one stream.
type topic struct {
	readers   []*Subscription // the hub's lock guards it
	stopWatch func()

	mu          sync.Mutex
	buffered    []Batch   // published, and not given to the crowd yet
	publishedAt time.Time // when the crowd was woken last

	readAt    time.Time // when a reader looked into the log because of a silence
	readAfter int64     // which seq
}

// A crowd is woken at most as often as costs a small part of the machine:
// each reader takes a few microseconds to wake and to write to, which a
// thousand of them at each of a hundred events a second do not leave for
// anything else. What is published meanwhile goes out together. The first
// batch after a pause never waits.
const (
	crowd    = 32
	perHead  = 40 * time.Microsecond
	maxPause = 50 * time.Millisecond
)

func pause(readers int) time.Duration {
	if readers < crowd {
		return 0
	}
	return min(time.Duration(readers)*perHead, maxPause)
}

// NewHub makes a hub for one node alone.
func NewHub() *Hub {
	return &Hub{streams: map[string]*topic{}, signals: map[string]map[*func(string)]struct{}{}}
}

// Attach connects the hub to other nodes. Called once, before use.
func (h *Hub) Attach(r Relay) { h.relay = r }

// Publish gives a batch to every reader, here and elsewhere.
func (h *Hub) Publish(b Batch) {
	h.Deliver(b)
	if h.relay != nil {
		h.relay.Forward(b)
	}
}

// Deliver gives a batch to the readers on this node only; relays call it.
func (h *Hub) Deliver(b Batch) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	f := h.streams[b.Stream]
	if f == nil {
		return
	}
	if len(f.readers) > 1 {
		b.Events = share(b.Events)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.buffered) > 0 {
		f.buffered = append(f.buffered, b)
		return
	}
	if wait := pause(len(f.readers)); wait > 0 {
		now := time.Now()
		if since := now.Sub(f.publishedAt); since < wait {
			f.buffered = append(f.buffered, b)
			time.AfterFunc(wait-since, func() { h.flush(f) })
			return
		}
		f.publishedAt = now
	}
	f.publish(b)
}

// flush gives a crowd what was held back.
func (h *Hub) flush(f *topic) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publishedAt = time.Now()
	f.publish(f.buffered...)
	f.buffered = nil
}

func (f *topic) publish(batches ...Batch) {
	for _, s := range f.readers {
		s.enqueue(batches...)
	}
}

// SetConnected says whether the relay is connected; relays call it. While it is not,
// readers look into the log every two seconds.
func (h *Hub) SetConnected(connected bool) {
	h.disconnected.Store(!connected)
	h.Resync() // what was said meanwhile
}

// NextPoll is how long a reader that waited in vain waits before it looks into
// the log again: twice as long, so that a lost event is at most as late as the
// silence before it was long, and a stream that is silent for hours costs next
// to nothing. While the relay is not connected it is the least.
func (h *Hub) NextPoll(waited, least time.Duration) time.Duration {
	if h.disconnected.Load() {
		return least
	}
	return min(2*waited, maxPoll)
}

// Resync tells the readers on this node that batches may have been lost, so
// that they look into the log now; relays call it.
func (h *Hub) Resync() {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, f := range h.streams {
		f.publish(Batch{})
	}
}

// Subscribe opens a reader of a stream from now on. Close it.
func (h *Hub) Subscribe(stream string) *Subscription {
	s := &Subscription{hub: h, stream: stream, ready: make(chan struct{}, 1)}
	h.mu.Lock()
	f, known := h.streams[stream]
	if !known {
		f = &topic{stopWatch: func() {}}
		if h.relay != nil {
			f.stopWatch = h.relay.Watch(stream)
		}
		h.streams[stream] = f
	}
	s.topic = f
	f.readers = append(f.readers, s)
	h.mu.Unlock()
	if !known && h.relay != nil {
		h.relay.Settle()
	}
	return s
}

// SelfTest sends an event to a reader of its own and waits until it arrives.
// Error: ctx's.
func (h *Hub) SelfTest(ctx context.Context) error {
	sub := h.Subscribe("echo." + ident.New())
	defer sub.Close()
	h.Deliver(Batch{Stream: sub.stream, Events: []Event{{Seq: 1, Name: "echo"}}})
	select {
	case <-sub.Ready():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Signal wakes whoever listens to a topic, on every node.
func (h *Hub) Signal(topic, key string) {
	h.SignalLocal(topic, key)
	if h.relay != nil {
		h.relay.Signal(topic, key)
	}
}

// SignalLocal wakes the listeners on this node only; relays call it.
func (h *Hub) SignalLocal(topic, key string) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for f := range h.signals[topic] {
		(*f)(key)
	}
}

// OnSignal calls f, which must not block, for every signal of a topic.
func (h *Hub) OnSignal(topic string, f func(key string)) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.signals[topic] == nil {
		h.signals[topic] = map[*func(string)]struct{}{}
	}
	h.signals[topic][&f] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.signals[topic], &f)
	}
}

// Readers counts open subscriptions, for metrics.
func (h *Hub) Readers() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	n := 0
	for _, f := range h.streams {
		n += len(f.readers)
	}
	return n
}

// ErrSlow ends a subscription whose reader fell so far behind that even
// essential events no longer fit its queue.
var ErrSlow = errors.New("event: the reader is too slow")

// A queue holds up to softLimit events of any name and up to hardLimit of
// those that may not be dropped.
const (
	softLimit = 768
	hardLimit = 1024
)

// Subscription is one reader's bounded queue.
type Subscription struct {
	hub    *Hub
	topic  *topic
	stream string
	ready  chan struct{}

	mu      sync.Mutex
	queue   []Batch
	spare   []Batch // the queue before, taken and given back
	queued  int     // events in queue
	dropped int     // since the last Take
	slow    bool
}

// Ready receives when Take has something.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Drain empties the queue. dropped counts droppable events that did not fit;
// ErrSlow is final. A batch without events is a hint that some may have been
// lost. The batches are the caller's until its next Take.
func (s *Subscription) Drain() (batches []Batch, dropped int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batches, dropped = s.queue, s.dropped
	clear(s.spare[:cap(s.spare)])
	s.queue, s.spare, s.queued, s.dropped = s.spare[:0], s.queue, 0, 0
	if s.slow {
		return nil, 0, ErrSlow
	}
	return batches, dropped, nil
}

func (s *Subscription) enqueue(batches ...Batch) {
	s.mu.Lock()
	for _, b := range batches {
		s.add(b)
	}
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *Subscription) add(b Batch) {
	hint := len(b.Events) == 0
	if s.queued+len(b.Events) > softLimit {
		kept := make([]Event, 0, len(b.Events))
		for _, e := range b.Events {
			if e.Droppable() {
				s.dropped++
			} else {
				kept = append(kept, e)
			}
		}
		b.Events = kept
	}
	if s.queued+len(b.Events) > hardLimit {
		s.slow = true
		s.queue, s.queued = nil, 0
	}
	if !s.slow && (hint || len(b.Events) > 0) {
		s.queue = append(s.queue, b)
		s.queued += len(b.Events)
	}
}

// claimLogRead says whether a reader that is silent should look into the log behind a
// seq: one of all that are silent there does, and calls found.
func (s *Subscription) claimLogRead(seq int64, within time.Duration) bool {
	f := s.topic
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readAfter == seq && time.Since(f.readAt) < within {
		return false
	}
	f.readAfter, f.readAt = seq, time.Now()
	return true
}

// notifyReaders tells the stream's readers that the log has what they did not hear of.
func (s *Subscription) notifyReaders() {
	s.hub.mu.RLock()
	defer s.hub.mu.RUnlock()
	s.topic.publish(Batch{})
}

// Close ends the subscription. Closing twice is fine.
func (s *Subscription) Close() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.streams[s.stream]
	if f == nil {
		return
	}
	for i, r := range f.readers {
		if r == s {
			f.readers = append(f.readers[:i], f.readers[i+1:]...)
			break
		}
	}
	if len(f.readers) == 0 {
		f.stopWatch()
		delete(h.streams, s.stream)
	}
}
