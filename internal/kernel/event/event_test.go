package event_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/kernel/event"
	"agentd/internal/kernel/event/eventtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant, stream = "t", "s"

// writer acts as a run's worker: it publishes and stores events.
type writer struct {
	log *eventtest.MemoryLog
	hub *event.Hub
	seq int64
}

func newWriter() *writer { return &writer{log: &eventtest.MemoryLog{}, hub: event.NewHub()} }

func (w *writer) follow() event.Follower { return event.Follower{Log: w.log, Hub: w.hub} }

func (w *writer) next(name string) event.Event {
	w.seq++
	return event.Event{Seq: w.seq, Name: name, At: time.Now(), Data: jsontext.Value(`{}`)}
}

func (w *writer) store(events ...event.Event) {
	for _, e := range events {
		_ = w.log.Append(tenant, stream, event.Segment{First: e.Seq, Entries: []event.Entry{{Name: e.Name, At: e.At, Data: e.Data}}})(nil)
	}
}

func (w *writer) publish(prev int64, events ...event.Event) {
	w.hub.Publish(event.Batch{Stream: stream, Prev: prev, Events: events})
}

// live publishes an event that is not stored.
func (w *writer) live(name string) {
	prev := w.seq
	w.publish(prev, w.next(name))
}

// append stores and publishes events.
func (w *writer) append(names ...string) {
	prev := w.seq
	var events []event.Event
	for _, n := range names {
		events = append(events, w.next(n))
	}
	w.store(events...)
	w.publish(prev, events...)
}

// collect follows a stream up to an event named end, and returns "seq name" of
// each event.
func collect(ctx context.Context, f event.Follower, after int64) (got []string, err error) {
	for e, err := range f.Follow(ctx, tenant, stream, after) {
		if err != nil {
			return got, err
		}
		got = append(got, fmt.Sprintf("%d %s", e.Seq, e.Name))
		if e.Name == "end" {
			break
		}
	}
	return got, nil
}

func TestFollowGivesStoredThenLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		w.append("a", "b")
		done := make(chan []string)
		go func() {
			got, _ := collect(t.Context(), w.follow(), 1)
			done <- got
		}()
		synctest.Wait()
		w.append("c")
		w.append("d", "end")
		if diff := cmp.Diff([]string{"2 b", "3 c", "4 d", "5 end"}, <-done); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// If a chunk was published before the reader subscribed and is stored later, the
// reader waits for the log rather than skipping the chunk.
func TestFollowWaitsForWhatIsNotStoredYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		w.append("a")
		early := w.next("llm.chunk")
		w.publish(1, early)
		done := make(chan []string)
		go func() {
			got, _ := collect(t.Context(), w.follow(), 0)
			done <- got
		}()
		synctest.Wait()
		w.publish(2, w.next("llm.chunk"))
		time.Sleep(30 * time.Millisecond)
		w.store(early, event.Event{Seq: 3, Name: "llm.chunk", At: time.Now(), Data: jsontext.Value(`{}`)})
		w.append("end")
		if diff := cmp.Diff([]string{"1 a", "2 llm.chunk", "3 llm.chunk", "4 end"}, <-done); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The last chunks of a worker that died were never stored. Its successor goes on
// with higher seqs, and readers do not wait for the lost chunks.
func TestFollowAcrossACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		w.append("a")
		done := make(chan []string)
		go func() {
			got, _ := collect(t.Context(), w.follow(), 0)
			done <- got
		}()
		synctest.Wait()
		w.publish(1, w.next("llm.chunk"))
		w.seq = 1000
		resumed := w.next("run.resumed")
		w.store(resumed)
		w.publish(1, resumed)
		start := time.Now()
		w.append("end")
		if diff := cmp.Diff([]string{"1 a", "2 llm.chunk", "1001 run.resumed", "1002 end"}, <-done); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if waited := time.Since(start); waited > 0 {
			t.Errorf("the reader waited %v for lost chunks", waited)
		}
	})
}

// If all live batches are lost, the log is still read to its end.
func TestFollowSurvivesALostBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		w.append("a")
		done := make(chan []string)
		go func() {
			got, _ := collect(t.Context(), w.follow(), 0)
			done <- got
		}()
		synctest.Wait()
		w.store(w.next("b"), w.next("end"))
		if diff := cmp.Diff([]string{"1 a", "2 b", "3 end"}, <-done); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestFollowUnknownCursorReplaysAfterAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		w.append("a", "end")
		got, err := collect(t.Context(), w.follow(), 77)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"0 gap", "1 a", "2 end"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A reader that does not keep up loses chunks and nothing else, and receives how
// many it lost.
func TestSlowReaderLosesOnlyChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		w.append("a")
		next, stop := pull(t.Context(), w.follow())
		defer stop()
		if got := next(); got.Name != "a" {
			t.Fatalf("first is %v", got)
		}
		w.live("llm.chunk")
		synctest.Wait() // the reader is blocked with this chunk in hand
		for range 1999 {
			w.live("llm.chunk")
		}
		for range 50 {
			w.append("tool.result")
		}
		w.append("end")
		names := map[string]int{}
		var gap event.Event
		for e := next(); ; e = next() {
			names[e.Name]++
			if e.Name == "gap" {
				gap = e
			}
			if e.Name == "end" {
				break
			}
		}
		if names["gap"] != 1 || names["tool.result"] != 50 || names["llm.chunk"] >= 2000 {
			t.Errorf("got %v", names)
		}
		if want := fmt.Sprintf(`{"dropped":%d}`, 2000-names["llm.chunk"]); string(gap.Data) != want {
			t.Errorf("gap says %s, want %s", gap.Data, want)
		}
	})
}

// A Complete reader receives everything, late rather than with gaps, also if
// chunks are the last events that it was too slow for.
func TestSlowReaderOfTheWholeLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		w.append("a")
		f := w.follow()
		f.Complete = true
		next, stop := pull(t.Context(), f)
		defer stop()
		next()
		for range 2000 {
			w.append("llm.chunk")
		}
		for want := int64(2); want <= 2001; want++ {
			if e := next(); e.Seq != want || e.Name != "llm.chunk" {
				t.Fatalf("got %d %s, want %d", e.Seq, e.Name, want)
			}
		}
		w.append("end")
		if e := next(); e.Name != "end" {
			t.Errorf("got %v", e)
		}
	})
}

func TestReaderThatCannotTakeEssentialsIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter()
		w.append("a")
		var ended error
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for e, err := range w.follow().Follow(ctx, tenant, stream, 0) {
			if ended = err; err != nil {
				break
			}
			if e.Name == "a" {
				for range 5000 {
					w.live("tool.result")
				}
			}
		}
		if !errors.Is(ended, event.ErrSlow) {
			t.Errorf("the stream ended with %v", ended)
		}
	})
}

func pull(ctx context.Context, f event.Follower) (next func() event.Event, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan event.Event)
	go func() {
		defer close(events)
		for e, err := range f.Follow(ctx, tenant, stream, 0) {
			if err != nil {
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() event.Event { return <-events }, func() {
		cancel()
		for range events {
		}
	}
}

func TestSignalsReachEveryListenerUntilTheyStop(t *testing.T) {
	hub := event.NewHub()
	var got []string
	stop := hub.OnSignal("topic", func(key string) { got = append(got, "1"+key) })
	defer hub.OnSignal("topic", func(key string) { got = append(got, "2"+key) })()
	defer hub.OnSignal("other", func(key string) { got = append(got, "3"+key) })()
	hub.Signal("topic", "a")
	stop()
	hub.Signal("topic", "b")
	slices.Sort(got)
	if diff := cmp.Diff([]string{"1a", "2a", "2b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestClosedSubscriptionsCostNothing(t *testing.T) {
	hub := event.NewHub()
	a, b := hub.Subscribe(stream), hub.Subscribe(stream)
	if n := hub.Readers(); n != 2 {
		t.Errorf("%d readers, want 2", n)
	}
	a.Close()
	a.Close()
	b.Close()
	if n := hub.Readers(); n != 0 {
		t.Errorf("%d readers, want 0", n)
	}
}
