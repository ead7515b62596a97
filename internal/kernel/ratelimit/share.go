package ratelimit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Bus carries short messages to every node, including this one. It may lose
// them. event.Hub implements it.
type Bus interface {
	Signal(topic, message string)
	// OnSignal registers f, which must not block, to be called for every message
	// of a topic until stop is called.
	OnSignal(topic string, f func(message string)) (stop func())
}

const (
	topic = "ratelimit"
	// publishEvery is how often a node sends what it admitted. It sends at once
	// when 1/urgentPart of an allowance is unsent, but rounds are at least
	// publishGap apart.
	publishEvery = 100 * time.Millisecond
	publishGap   = 2 * time.Millisecond
	urgentPart   = 100
	// greetEvery is how often a node announces itself; it counts as alive for
	// aliveFor after its last message.
	greetEvery = 5 * time.Second
	aliveFor   = 3 * greetEvery
	sweepEvery = 15 * time.Second
	// maxPublished bounds the buckets of one round; others wait for the next.
	maxPublished = 4096
	// maxDebt bounds what a message may charge to a bucket, whose limit the
	// receiver does not know.
	maxDebt = 7 * 24 * time.Hour
)

// share is what a limiter knows about other nodes.
type share struct {
	others atomic.Int32 // how many are alive
	wakeup chan struct{}

	mu       sync.Mutex
	lastSeen map[string]time.Time // node → its last message
	greet    bool                 // there is a new node, to be lastGreeting
}

func (s *share) init() {
	s.wakeup = make(chan struct{}, 1)
	s.lastSeen = map[string]time.Time{}
}

// wake makes the sharing goroutine publish now.
func (s *share) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// addNode records a message of another node.
func (s *share) addNode(node string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.lastSeen[node]; !known {
		s.greet = true
		s.wake()
	}
	s.lastSeen[node] = now
	s.others.Store(int32(len(s.lastSeen)))
}

// forget removes nodes that were silent for too long, and reports whether there
// is a new one, which this node should greet.
func (s *share) forget(now time.Time) (greet bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, at := range s.lastSeen {
		if now.Sub(at) > aliveFor {
			delete(s.lastSeen, node)
		}
	}
	s.others.Store(int32(len(s.lastSeen)))
	greet, s.greet = s.greet, false
	return greet
}

// Share sends other nodes what this one admits, and charges what they send, so
// that all of them share one allowance. Each node decides at once, from what it
// has received: within the time that a message takes, nodes may admit more than
// the allowance together; then all of them refuse until that is paid back, so
// that the rate holds. While there is no other node, only greetings are sent.
// Share also deletes buckets that are full. It returns when ctx ends.
func (l *Limiter) Share(ctx context.Context, node string, bus Bus) {
	stop := bus.OnSignal(topic, func(message string) { l.receive(node, message) })
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var lastGreeting, lastSweep time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.share.wakeup:
		}
		now := time.Now()
		if l.share.forget(now) || now.Sub(lastGreeting) >= greetEvery {
			lastGreeting = now
			bus.Signal(topic, greeting(node))
		}
		if now.Sub(lastSweep) >= sweepEvery {
			lastSweep = now
			l.callers.sweep(int64(now.Sub(l.base)))
			l.addresses.sweep(int64(now.Sub(l.base)))
		}
		l.publish(node, bus)
		if !pause(ctx, timer, publishGap) {
			return
		}
		if l.share.others.Load() > 0 {
			timer.Reset(publishEvery)
		} else {
			timer.Reset(greetEvery)
		}
	}
}

// pause waits for d and reports whether ctx still lasts.
func pause(ctx context.Context, timer *time.Timer, d time.Duration) bool {
	timer.Reset(d)
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// publish sends what other nodes have not received. Without others it is dropped.
func (l *Limiter) publish(node string, bus Bus) {
	out := newMessages(node)
	for _, t := range []*table{l.callers, l.addresses} {
		t.drain(maxPublished/2, out.add)
	}
	if l.share.others.Load() == 0 {
		return
	}
	for _, message := range out.done() {
		bus.Signal(topic, message)
	}
}

// receive handles a message of any node.
func (l *Limiter) receive(node, message string) {
	from, entries, err := read(message, node)
	if err != nil || from == node {
		return // from another version of agentd, or this node's own
	}
	now := time.Now()
	l.share.addNode(from, now)
	for _, e := range entries {
		l.table(e.key.kind).charge(e.key, e.debt, int64(now.Sub(l.base)))
	}
}
