package event_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/event"
)

// relay counts the watches of a hub.
type relay struct {
	mu      sync.Mutex
	watched map[string]int
	watches int
}

func (r *relay) Forward(event.Batch)   {}
func (r *relay) Settle()               {}
func (r *relay) Signal(string, string) {}

func (r *relay) Watch(stream string) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watched == nil {
		r.watched = map[string]int{}
	}
	r.watched[stream]++
	r.watches++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.watched[stream]--
	}
}

func TestOneWatchForAllReadersOfAStream(t *testing.T) {
	hub, r := event.NewHub(), &relay{}
	hub.Attach(r)
	var subs []*event.Subscription
	for range 100 {
		subs = append(subs, hub.Subscribe("a"), hub.Subscribe("b"))
	}
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 1}, r.watched); diff != "" {
		t.Errorf("while there are readers (-want +got):\n%s", diff)
	}
	for _, s := range subs {
		s.Close()
	}
	if diff := cmp.Diff(map[string]int{"a": 0, "b": 0}, r.watched); diff != "" || r.watches != 2 {
		t.Errorf("afterwards (-want +got):\n%s%d watches in all", diff, r.watches)
	}
}

// Many readers are woken at a bounded rate and receive everything in order; the
// first event after a pause is sent at once.
func TestManyReadersAreWokenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers, batches = 400, 300 // 400 may be woken every 10 ms
		hub := event.NewHub()
		var wakes, failures atomic.Int64
		var running sync.WaitGroup
		var first time.Duration
		start := time.Now()
		for i := range readers {
			sub := hub.Subscribe(stream)
			running.Go(func() {
				defer sub.Close()
				for seq := int64(0); seq < batches; {
					<-sub.Ready()
					wakes.Add(1)
					if seq == 0 && i == 0 {
						first = time.Since(start)
					}
					got, dropped, err := sub.Drain()
					if err != nil || dropped > 0 {
						failures.Add(1)
					}
					for _, b := range got {
						if seq++; b.Events[0].Seq != seq || b.Prev != seq-1 {
							failures.Add(1)
						}
					}
				}
			})
		}
		for seq := int64(1); seq <= batches; seq++ {
			hub.Publish(event.Batch{Stream: stream, Prev: seq - 1, Events: []event.Event{{Seq: seq, Name: "tool.call"}}})
			time.Sleep(time.Millisecond)
		}
		running.Wait()
		if first > 0 {
			t.Errorf("the first event came after %v", first)
		}
		if took := time.Since(start); took > batches*time.Millisecond+20*time.Millisecond {
			t.Errorf("the last event came after %v", took)
		}
		if failures.Load() > 0 {
			t.Errorf("%d events came out of order or were lost", failures.Load())
		}
		if got := wakes.Load() / readers; got < 20 || got > 35 {
			t.Errorf("each reader was woken %d times in %d ms", got, batches)
		}
	})
}

// A live event is rendered once for all readers, also if they render it
// concurrently; a single reader shares nothing.
func TestSharedEventsAreRenderedOnce(t *testing.T) {
	hub := event.NewHub()
	subs := []*event.Subscription{hub.Subscribe(stream)}
	defer subs[0].Close()
	published := []event.Event{{Seq: 1, Name: "a"}, {Seq: 2, Name: "b"}}
	hub.Publish(event.Batch{Stream: stream, Events: published})
	if got, _, _ := subs[0].Drain(); got[0].Events[0].Shared != nil {
		t.Error("a single reader has Shared set")
	}
	for range 20 {
		sub := hub.Subscribe(stream)
		defer sub.Close()
		subs = append(subs, sub)
	}
	hub.Publish(event.Batch{Stream: stream, Events: published})
	if published[0].Shared != nil {
		t.Error("what the publisher holds was changed")
	}
	var rendered atomic.Int64
	var running sync.WaitGroup
	for _, sub := range subs {
		got, _, err := sub.Drain()
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			for _, e := range got[0].Events {
				for _, shape := range []event.Shape{event.OfRun, event.OfSession} {
					want := fmt.Sprint(e.Name, shape)
					rendering := e.Shared.Render(shape, func() any {
						rendered.Add(1)
						return want
					})
					if rendering != want {
						t.Errorf("%v, want %v", rendering, want)
					}
				}
			}
		})
	}
	running.Wait()
	if got := rendered.Load(); got != 4 {
		t.Errorf("two events in two shapes were rendered %d times", got)
	}
}

// countingLog counts its reads.
type countingLog struct {
	event.Log
	reads atomic.Int64
}

func (l *countingLog) Read(ctx context.Context, tenant, stream string, after int64, limit int) ([]event.Event, error) {
	l.reads.Add(1)
	return l.Log.Read(ctx, tenant, stream, after, limit)
}

// silent starts readers of a stream with one event. It returns the log that counts
// their reads, a function for the seq that each of them saw last, and one that
// stops them.
func silent(t *testing.T, w *writer, readers int) (log *countingLog, last func() []int64, stop func()) {
	log = &countingLog{Log: w.log}
	w.append("a")
	ctx, cancel := context.WithCancel(t.Context())
	seen := make([]atomic.Int64, readers)
	var running sync.WaitGroup
	for i := range readers {
		running.Go(func() {
			for e := range (event.Follower{Log: log, Hub: w.hub}).Follow(ctx, tenant, stream, 0) {
				seen[i].Store(e.Seq)
			}
		})
	}
	synctest.Wait()
	log.reads.Store(0)
	last = func() (all []int64) {
		for i := range seen {
			all = append(all, seen[i].Load())
		}
		return all
	}
	return log, last, func() {
		cancel()
		running.Wait()
	}
}

// The readers of a stream that is silent for an hour poll the log about once a
// minute, all of them together.
func TestSilentReadersCostNextToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _, stop := silent(t, newWriter(), 50)
		defer stop()
		time.Sleep(time.Hour)
		if got := log.reads.Load(); got < 55 || got > 75 {
			t.Errorf("50 readers read the log %d times in an hour", got)
		}
	})
}

// An event whose live batch was lost is late by at most the length of the silence
// before it. A reader that finds it notifies the others.
func TestLostEventsAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		_, last, stop := silent(t, w, 3)
		defer stop()
		for _, silence := range []time.Duration{time.Second, 7 * time.Second, 5 * time.Minute} {
			time.Sleep(silence)
			lost := w.next("b")
			w.store(lost)
			time.Sleep(min(max(silence, 2*time.Second), time.Minute) + time.Millisecond)
			synctest.Wait()
			if diff := cmp.Diff([]int64{lost.Seq, lost.Seq, lost.Seq}, last()); diff != "" {
				t.Fatalf("after a silence of %v (-want +got):\n%s", silence, diff)
			}
		}
	})
}

// Readers poll the log often while the bus is disconnected, and at once when it
// is connected again.
func TestReadersLookWhenTheBusWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		log, last, stop := silent(t, w, 2)
		defer stop()
		time.Sleep(time.Hour)
		w.hub.SetConnected(false)
		log.reads.Store(0)
		time.Sleep(time.Minute)
		if got := log.reads.Load(); got < 25 {
			t.Errorf("without the bus the log was read %d times in a minute", got)
		}
		lost := w.next("b")
		w.store(lost)
		w.hub.SetConnected(true)
		synctest.Wait()
		if diff := cmp.Diff([]int64{lost.Seq, lost.Seq}, last()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Of events that follow each other without a wait, all but the last have More set.
func TestEventsSayWhetherMoreFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		w.append("a", "b", "c")
		got := make(chan string, 16)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for e := range w.follow().Follow(ctx, tenant, stream, 0) {
				got <- fmt.Sprint(e.Name, e.More)
			}
			close(got)
		}()
		synctest.Wait()
		w.append("d", "e")
		synctest.Wait()
		w.live("llm.chunk")
		synctest.Wait()
		cancel()
		var all []string
		for s := range got {
			all = append(all, s)
		}
		if diff := cmp.Diff([]string{"atrue", "btrue", "cfalse", "dtrue", "efalse", "llm.chunkfalse"}, all); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestOnOwnStack(t *testing.T) {
	t.Parallel()
	want := errors.New("no")
	if err := event.OnOwnStack(t.Context(), func() error { return want }); !errors.Is(err, want) {
		t.Errorf("%v", err)
	}
	func() {
		defer func() {
			if p := recover(); p != "mine" {
				t.Errorf("the panic is %v", p)
			}
		}()
		_ = event.OnOwnStack(t.Context(), func() error { panic("mine") })
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // a free slot may be taken although ctx has ended
		if err := event.OnOwnStack(ctx, func() error { return nil }); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}

func TestSelfTest(t *testing.T) {
	t.Parallel()
	hub := event.NewHub()
	if err := hub.SelfTest(t.Context()); err != nil {
		t.Error(err)
	}
	if n := hub.Readers(); n != 0 {
		t.Errorf("%d readers are left", n)
	}
}

// A queue has at most 2 MiB, however large its events are. What does not fit is read
// from the log, and nothing is missing.
func TestLargeEventsAreReadFromTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		large := func() event.Event {
			e := w.next("tool.result")
			e.Data = jsontext.Value(`{"output":"` + strings.Repeat("x", 64<<10) + `"}`)
			return e
		}
		queue := w.hub.Subscribe(stream)
		defer queue.Close()
		next, stop := pull(t.Context(), w.follow())
		defer stop()
		synctest.Wait()
		const events = 200
		for range events {
			e := large()
			w.store(e)
			w.publish(e.Seq-1, e)
		}
		batches, dropped, err := queue.Drain()
		size, hints := 0, 0
		for _, b := range batches {
			if len(b.Events) == 0 {
				hints++
			}
			for _, e := range b.Events {
				size += len(e.Data)
			}
		}
		if size > 2<<20 || hints != 1 || dropped != 0 || err != nil {
			t.Errorf("the queue has %d bytes, %d hints, %d dropped, %v", size, hints, dropped, err)
		}
		for want := int64(1); want <= events; want++ {
			if e := next(); e.Seq != want || len(e.Data) < 64<<10 {
				t.Fatalf("got %d %s, want %d", e.Seq, e.Name, want)
			}
		}
	})
}

// losing is a relay to another node that loses all batches, and no signals.
type losing struct {
	relay

	to *event.Hub
}

func (l *losing) Signal(topic, key string) { l.to.SignalLocal(topic, key) }

// A final event is not late, even if its batch was lost on the way to the reader's
// node after a long silence.
func TestFinalEventsAreSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		_, last, stop := silent(t, w, 3)
		defer stop()
		writing := event.NewHub()
		writing.Attach(&losing{to: w.hub})
		time.Sleep(time.Hour)
		publish := func(e event.Event, final bool) {
			w.store(e)
			writing.Publish(event.Batch{Stream: stream, Prev: e.Seq - 1, Events: []event.Event{e}, Final: final})
			synctest.Wait()
		}
		before := last()
		publish(w.next("b"), false)
		if diff := cmp.Diff(before, last()); diff != "" {
			t.Errorf("a lost event arrived (-want +got):\n%s", diff)
		}
		e := w.next("c")
		publish(e, true)
		if diff := cmp.Diff([]int64{e.Seq, e.Seq, e.Seq}, last()); diff != "" {
			t.Errorf("the final event (-want +got):\n%s", diff)
		}
	})
}
