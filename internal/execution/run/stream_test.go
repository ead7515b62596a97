package run_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/clock"
	"agentd/internal/base/route"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/event/eventtest"
)

// oneRun is a store that has one run, which does not end.
type oneRun struct {
	run.Store
	id, session string
}

func (s oneRun) Get(context.Context, string, string) (*run.Record, error) {
	return &run.Record{Run: run.Run{RunID: s.id, SessionID: &s.session, Status: run.Running}}, nil
}

func streaming() (*run.Service, oneRun) {
	store := oneRun{id: "r", session: "s"}
	return &run.Service{Runs: store, Log: &eventtest.MemoryLog{}, Hub: event.NewHub(), Clock: clock.System{}}, store
}

func open(t *testing.T, s *run.Service) iter.Seq2[route.Frame, error] {
	t.Helper()
	frames, err := s.Stream(t.Context(), "t", "r", "")
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

// A reader whose queue is full of what may not be dropped gets a frame "error",
// and the stream ends.
func TestSaturatedReaderIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := streaming()
		next, stop := iter.Pull2(open(t, s))
		defer stop()
		go func() {
			time.Sleep(time.Second) // the reader is there
			s.Hub.Publish(event.Batch{Stream: "r", Events: []event.Event{{Seq: 1, Name: "run.queued"}}})
		}()
		if f, _, _ := next(); f.Name != "run.queued" {
			t.Fatalf("first is %v", f)
		}
		for seq := int64(2); seq < 5000; seq++ {
			s.Hub.Publish(event.Batch{Stream: "r", Prev: seq - 1, Events: []event.Event{{Seq: seq, Name: "tool.result"}}})
		}
		f, err, more := next()
		if !more || err != nil || f.Name != "error" || f.ID != "" || !strings.Contains(string(f.Data), `"run_id":"r"`) || !strings.Contains(string(f.Data), "fell too far behind") {
			t.Errorf("%s %s, %v", f.Name, f.Data, err)
		}
		if f, _, more := next(); more {
			t.Errorf("after it comes %s", f.Name)
		}
	})
}

// All readers of a run send the same bytes; so do those of its session, under
// ids of their own.
func TestReadersShareTheirFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := streaming()
		const readers = 20
		got := make(chan route.Frame, readers)
		for range readers {
			go func() {
				for f := range open(t, s) {
					got <- f
					return
				}
			}()
		}
		other := s.Hub.Subscribe("r")
		defer other.Close()
		synctest.Wait()
		s.Hub.Publish(event.Batch{Stream: "r", Events: []event.Event{{Seq: 1, Name: "llm.chunk", At: time.Now(), Data: jsontext.Value(`{"text":"hello"}`)}}})
		first := <-got
		for range readers - 1 {
			if f := <-got; &f.Wire[0] != &first.Wire[0] {
				t.Fatal("a reader rendered a frame of its own")
			}
		}
		want := fmt.Sprintf("id: 1\nevent: llm.chunk\ndata: %s\n\n", first.Data)
		if string(first.Wire) != want || !strings.Contains(want, `"session_id":"s","text":"hello"`) {
			t.Errorf("%q", first.Wire)
		}
		batches, _, err := other.Drain()
		if err != nil {
			t.Fatal(err)
		}
		e := batches[0].Events[0]
		one, two := run.EventFrame("r", store.session, e), run.EventFrame("r", store.session, e)
		if &one.Wire[0] != &two.Wire[0] || string(one.Wire) != "id: r:1"+strings.TrimPrefix(want, "id: 1") {
			t.Errorf("of the session: %q", one.Wire)
		}
	})
}
