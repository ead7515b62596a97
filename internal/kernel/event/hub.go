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
// is the seq of the event before them. A reader missed events if Prev is greater
// than the last seq it has seen. A batch without events is a hint to read the log.
type Batch struct {
	Stream string  `json:"stream"`
	Prev   int64   `json:"prev"`
	Events []Event `json:"events"`

	Final bool `json:"-"` // the last event is the final one of the stream
}

// Relay carries batches and signals to and from other nodes. It may lose them.
type Relay interface {
	Forward(b Batch)
	// Watch must not block; Settle returns once all watches are in effect.
	Watch(stream string) (stop func())
	Settle()
	Signal(topic, key string)
}

// Hub fans live batches out to the readers on this node, and through a relay
// to those on other nodes. Publishing never blocks. All readers of a stream on
// a node share one watch of the relay (rule D7-one-subscription).
type Hub struct {
	relay        Relay
	disconnected atomic.Bool            // the relay has no connection
	limits       atomic.Pointer[limits] // see LimitQueues

	mu      sync.RWMutex
	streams map[string]*topic
	signals map[string]map[*func(string)]struct{}
}

// topic has the readers of one stream.
type topic struct {
	readers   []*Subscription // the hub's lock guards it
	stopWatch func()

	mu          sync.Mutex
	buffered    []Batch   // published, but not sent to the readers yet
	publishedAt time.Time // when the readers were last woken

	readAt    time.Time // when a reader last polled the log because of a silence
	readAfter int64     // the seq after which it read
}

// From batchFrom readers on, a stream's batches are coalesced. Waking a reader
// and writing to it takes a few microseconds: a thousand readers that are woken
// for each of a hundred events a second would leave no time for anything else.
// So readers are woken at most once in perReader times their number, up to
// maxPause, and receive together what was published in between. The first batch
// after a pause is sent at once.
const (
	batchFrom = 32
	perReader = 40 * time.Microsecond
	maxPause  = 50 * time.Millisecond
)

// pause returns the shortest time between two wake-ups of a number of readers.
func pause(readers int) time.Duration {
	if readers < batchFrom {
		return 0
	}
	return min(time.Duration(readers)*perReader, maxPause)
}

// NewHub returns a hub for a single node.
func NewHub() *Hub {
	return &Hub{streams: map[string]*topic{}, signals: map[string]map[*func(string)]struct{}{}}
}

// Wanted reports whether somebody may receive what is published on a stream: it has
// readers on this node, or there are other nodes. It spares rendering what nobody reads.
func (h *Hub) Wanted(stream string) bool {
	if alone, ok := h.relay.(interface{ Alone() bool }); h.relay != nil && (!ok || !alone.Alone()) {
		return true
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.streams[stream] != nil
}

// Attach connects the hub to other nodes. It is called at most once, before use.
func (h *Hub) Attach(r Relay) { h.relay = r }

// Publish sends a batch to every reader of its stream, on every node.
func (h *Hub) Publish(b Batch) {
	h.Deliver(b)
	if h.relay == nil {
		return
	}
	h.relay.Forward(b)
	if b.Final {
		h.relay.Signal(endedTopic, b.Stream)
	}
}

// endedTopic is the topic of a signal that follows the final event of a stream. Where
// the event itself was lost on its way to another node, no further event would show
// that, and the stream's readers there would wait until they poll the log.
const endedTopic = "ended"

// Deliver sends a batch to the readers on this node only. Relays call it.
func (h *Hub) Deliver(b Batch) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	t := h.streams[b.Stream]
	if t == nil {
		return
	}
	if len(t.readers) > 1 {
		b.Events = share(b.Events)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buffered) > 0 {
		t.buffered = append(t.buffered, b)
		return
	}
	if wait := pause(len(t.readers)); wait > 0 {
		now := time.Now()
		if since := now.Sub(t.publishedAt); since < wait {
			t.buffered = append(t.buffered, b)
			time.AfterFunc(wait-since, func() { h.flush(t) })
			return
		}
		t.publishedAt = now
	}
	t.publish(b)
}

// flush sends the buffered batches to the readers of a stream.
func (h *Hub) flush(t *topic) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.publishedAt = time.Now()
	t.publish(t.buffered...)
	t.buffered = nil
}

func (t *topic) publish(batches ...Batch) {
	for _, s := range t.readers {
		s.enqueue(batches...)
	}
}

// SetConnected records whether the relay is connected. Relays call it. While the
// relay is not connected, readers poll the log every two seconds.
func (h *Hub) SetConnected(connected bool) {
	h.disconnected.Store(!connected)
	h.Resync() // batches may have been lost in the meantime
}

// NextPoll returns how long a reader that waited in vain waits before it polls
// the log again: twice as long, at most maxPoll. So a lost event is late by at
// most the length of the silence before it, and a stream that is silent for
// hours costs next to nothing. While the relay is not connected NextPoll
// returns shortest.
func (h *Hub) NextPoll(waited, shortest time.Duration) time.Duration {
	if h.disconnected.Load() {
		return shortest
	}
	return min(2*waited, maxPoll)
}

// Resync makes all readers on this node read the log now, because batches may
// have been lost. Relays call it.
func (h *Hub) Resync() {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, t := range h.streams {
		t.publish(Batch{})
	}
}

// Subscribe returns a subscription to what is published on a stream from now on.
// The caller closes it.
func (h *Hub) Subscribe(stream string) *Subscription {
	s := &Subscription{hub: h, stream: stream, ready: make(chan struct{}, 1)}
	h.mu.Lock()
	t, known := h.streams[stream]
	if !known {
		t = &topic{stopWatch: func() {}}
		if h.relay != nil {
			t.stopWatch = h.relay.Watch(stream)
		}
		h.streams[stream] = t
	}
	s.topic = t
	t.readers = append(t.readers, s)
	h.mu.Unlock()
	if !known && h.relay != nil {
		h.relay.Settle()
	}
	return s
}

// SelfTest sends an event to a subscription of its own and waits until it
// arrives. It returns the cause of ctx's end if ctx ends first.
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

// Signal calls the functions that listen to a topic, on every node.
func (h *Hub) Signal(topic, key string) {
	h.SignalLocal(topic, key)
	if h.relay != nil {
		h.relay.Signal(topic, key)
	}
}

// SignalLocal calls the listeners on this node only. Relays call it.
func (h *Hub) SignalLocal(topic, key string) {
	if topic == endedTopic {
		h.Deliver(Batch{Stream: key})
		return
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	for f := range h.signals[topic] {
		(*f)(key)
	}
}

// OnSignal registers f, which must not block, to be called for every signal of a
// topic until stop is called.
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

// Readers returns the number of open subscriptions, for metrics.
func (h *Hub) Readers() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	n := 0
	for _, t := range h.streams {
		n += len(t.readers)
	}
	return n
}

// ErrSlow ends a subscription whose reader fell so far behind that even
// essential events no longer fit its queue.
var ErrSlow = errors.New("event: the reader is too slow")

// A queue holds up to softLimit events of any name, up to hardLimit of those that
// may not be dropped, and up to byteLimit bytes: beyond those the reader goes on
// from the log.
const (
	softLimit = 768
	hardLimit = 1024
	byteLimit = 2 << 20
)

// limits of the queue of a reader.
type limits struct{ soft, hard, bytes int }

// LimitQueues changes how many events and bytes wait for a reader, in place of softLimit
// and byteLimit. It holds for the next event of each reader.
func (h *Hub) LimitQueues(events, bytes int) {
	h.limits.Store(&limits{soft: events, hard: events + events/3, bytes: bytes})
}

// queueLimits returns the limits of the queue of a reader.
func (h *Hub) queueLimits() limits {
	if l := h.limits.Load(); l != nil {
		return *l
	}
	return limits{softLimit, hardLimit, byteLimit}
}

// Subscription is one reader's bounded queue.
type Subscription struct {
	hub    *Hub
	topic  *topic
	stream string
	ready  chan struct{}

	mu      sync.Mutex
	queue   []Batch
	spare   []Batch // the previous queue, reused
	queued  int     // events in queue
	bytes   int     // of these
	dropped int     // since the last Drain
	slow    bool
}

// Ready returns a channel that receives when Drain has something to return.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Drain empties the queue and returns its batches, which are valid until the next
// Drain. A batch without events means that some may have been lost. dropped
// counts the droppable events that did not fit. ErrSlow is final.
func (s *Subscription) Drain() (batches []Batch, dropped int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batches, dropped = s.queue, s.dropped
	clear(s.spare[:cap(s.spare)])
	s.queue, s.spare, s.queued, s.bytes, s.dropped = s.spare[:0], s.queue, 0, 0, 0
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
	hint, limits := len(b.Events) == 0, s.hub.queueLimits()
	if s.queued+len(b.Events) > limits.soft {
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
	if s.queued+len(b.Events) > limits.hard {
		s.slow = true
		s.queue, s.queued, s.bytes = nil, 0, 0
	}
	if s.slow || !hint && len(b.Events) == 0 {
		return
	}
	size := 0
	for i := range b.Events {
		size += len(b.Events[i].Data)
	}
	if s.bytes+size > limits.bytes {
		s.readLog()
		return
	}
	s.queue = append(s.queue, b)
	s.queued += len(b.Events)
	s.bytes += size
}

// readLog replaces what is queued by a hint to read it from the log.
func (s *Subscription) readLog() {
	clear(s.queue)
	s.queue, s.queued, s.bytes, s.dropped = append(s.queue[:0], Batch{}), 0, 0, 0
}

// claimLogRead reports whether this reader should poll the log after a seq. Of all
// readers that wait after the same seq one does, once within a period; if it
// finds events it calls notifyReaders.
func (s *Subscription) claimLogRead(seq int64, within time.Duration) bool {
	t := s.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.readAfter == seq && time.Since(t.readAt) < within {
		return false
	}
	t.readAfter, t.readAt = seq, time.Now()
	return true
}

// notifyReaders makes the stream's readers read the log: it has events that were
// not published to them.
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
	t := h.streams[s.stream]
	if t == nil {
		return
	}
	for i, r := range t.readers {
		if r == s {
			t.readers = append(t.readers[:i], t.readers[i+1:]...)
			break
		}
	}
	if len(t.readers) == 0 {
		t.stopWatch()
		delete(h.streams, s.stream)
	}
}
