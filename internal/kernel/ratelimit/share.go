package ratelimit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Bus carries short messages to every node, this one included; it may lose
// them. event.Hub is one.
type Bus interface {
	Signal(topic, message string)
	// OnSignal calls f, which must not block, for every message of a topic.
	OnSignal(topic string, f func(message string)) (stop func())
}

const (
	topic = "ratelimit"
	// tellEvery is how long other nodes wait to hear what this one admitted,
	// hurry the part of an allowance of which they hear at once. A node that
	// has much to tell tells it tellGap apart.
	tellEvery = 100 * time.Millisecond
	tellGap   = 2 * time.Millisecond
	hurry     = 100
	// greetEvery is how often a node says that it is there, aliveFor how long
	// that is believed. It also bounds what a bus that was away delivers late.
	greetEvery = 5 * time.Second
	aliveFor   = 3 * greetEvery
	sweepEvery = 15 * time.Second
	// mostTold bounds the buckets of one round; further ones wait for the next.
	mostTold = 4096
	// maxDebt bounds what is believed of a bucket whose limit is not known here.
	maxDebt = 7 * 24 * time.Hour
)

// share is what a limiter knows of other nodes.
type share struct {
	others atomic.Int32
	kick   chan struct{}

	mu    sync.Mutex
	heard map[string]time.Time // node → when
	greet bool                 // somebody new is there
}

func (s *share) init() {
	s.kick = make(chan struct{}, 1)
	s.heard = map[string]time.Time{}
}

// wake has the sharing goroutine tell what there is.
func (s *share) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// addNode notes that another node is there.
func (s *share) addNode(node string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.heard[node]; !known {
		s.greet = true
		s.wake()
	}
	s.heard[node] = now
	s.others.Store(int32(len(s.heard)))
}

// forget drops nodes that were silent for too long, and says whether there is
// a new one, which should hear of this node.
func (s *share) forget(now time.Time) (greet bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, at := range s.heard {
		if now.Sub(at) > aliveFor {
			delete(s.heard, node)
		}
	}
	s.others.Store(int32(len(s.heard)))
	greet, s.greet = s.greet, false
	return greet
}

// Share tells other nodes what this one admits, and charges what they tell, so
// that one allowance counts for all of them. Each decides at once, from what
// it has heard: within the time that a message takes they may admit more than
// there is, and then all of them wait until it is paid back, so that the rate
// holds. While no other node is heard of, nothing is sent but a greeting.
// Share also forgets buckets that are full. It returns when ctx ends.
func (l *Limiter) Share(ctx context.Context, node string, bus Bus) {
	stop := bus.OnSignal(topic, func(message string) { l.receive(node, message) })
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var greeted, swept time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.share.kick:
		}
		now := time.Now()
		if l.share.forget(now) || now.Sub(greeted) >= greetEvery {
			greeted = now
			bus.Signal(topic, greeting(node))
		}
		if now.Sub(swept) >= sweepEvery {
			swept = now
			l.callers.sweep(int64(now.Sub(l.base)))
			l.addresses.sweep(int64(now.Sub(l.base)))
		}
		l.publish(node, bus)
		if !pause(ctx, timer, tellGap) {
			return
		}
		if l.share.others.Load() > 0 {
			timer.Reset(tellEvery)
		} else {
			timer.Reset(greetEvery)
		}
	}
}

func pause(ctx context.Context, timer *time.Timer, d time.Duration) bool {
	timer.Reset(d)
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// publish sends what others have not heard of; without others it forgets that.
func (l *Limiter) publish(node string, bus Bus) {
	out := newMessages(node)
	for _, t := range []*table{l.callers, l.addresses} {
		t.drain(mostTold/2, out.add)
	}
	if l.share.others.Load() == 0 {
		return
	}
	for _, message := range out.done() {
		bus.Signal(topic, message)
	}
}

// receive takes a message of some node.
func (l *Limiter) receive(node, message string) {
	from, entries, err := read(message, node)
	if err != nil || from == node {
		return // of another version of agentd, or our own
	}
	now := time.Now()
	l.share.addNode(from, now)
	for _, e := range entries {
		l.table(e.key.kind).charge(e.key, e.debt, int64(now.Sub(l.base)))
	}
}
