package natsbus_test

import (
	"errors"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"agentd/internal/kernel/event"
	"agentd/internal/store/natsbus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func node(t *testing.T, c natsbus.Config) (*event.Hub, *natsbus.Bus) {
	t.Helper()
	hub := event.NewHub()
	c.Node, c.Logger = t.Name(), slog.New(slog.DiscardHandler)
	bus, err := natsbus.Open(c, hub)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	return hub, bus
}

// Two nodes share the server that one of them embeds: what is published or
// signalled on one arrives once on each, in order.
func TestTwoNodes(t *testing.T) {
	hubA, a := node(t, natsbus.Config{Listen: "127.0.0.1:0", Tokens: []string{"new", "shared"}})
	hubB, _ := node(t, natsbus.Config{URL: a.URL(), Tokens: []string{"shared"}}) // was not restarted with the new key yet

	signals := make(chan string, 8)
	defer hubA.OnSignal("work", func(key string) { signals <- "a:" + key })()
	defer hubB.OnSignal("work", func(key string) { signals <- "b:" + key })()

	subA, subB := hubA.Subscribe("s1"), hubB.Subscribe("s1")
	defer subA.Close()
	defer subB.Close()
	other := hubB.Subscribe("s2")
	defer other.Close()

	at := time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)
	want := event.Batch{Stream: "s1", Prev: 3, Events: []event.Event{
		{Seq: 4, Name: "llm.chunk", At: at, Data: []byte(`{"text":"a\nb"}`)},
		{Seq: 5, Name: "run.completed", At: at, Data: []byte(`{}`)},
	}}
	hubA.Publish(want)
	for name, sub := range map[string]*event.Subscription{"a": subA, "b": subB} {
		if diff := cmp.Diff([]event.Batch{want}, take(t, sub)); diff != "" {
			t.Errorf("node %s (-want +got):\n%s", name, diff)
		}
	}
	hubB.Signal("work", "run-1")
	got := map[string]int{}
	for range 2 {
		select {
		case s := <-signals:
			got[s]++
		case <-time.After(5 * time.Second):
			t.Fatalf("signals so far: %v", got)
		}
	}
	if diff := cmp.Diff(map[string]int{"a:run-1": 1, "b:run-1": 1}, got); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
	if batches, _, _ := other.Drain(); batches != nil {
		t.Errorf("another stream's reader got %v", batches)
	}
}

func take(t *testing.T, sub *event.Subscription) []event.Batch {
	t.Helper()
	select {
	case <-sub.Ready():
	case <-time.After(5 * time.Second):
		t.Fatal("nothing arrived")
	}
	batches, _, err := sub.Drain()
	if err != nil {
		t.Fatal(err)
	}
	return batches
}

// Who does not know the token hears nothing, and is heard by nobody.
func TestStrangersAreRefused(t *testing.T) {
	hub, bus := node(t, natsbus.Config{Listen: "127.0.0.1:0", Tokens: []string{"shared"}})
	stranger, err := nats.Connect(bus.URL(), nats.Token("guessed"))
	if err == nil {
		stranger.Close()
		t.Fatal("a stranger is connected")
	}
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("the stranger was refused with %v", err)
	}
	sub := hub.Subscribe("s1")
	defer sub.Close()
	hub.Publish(event.Batch{Stream: "s1", Events: []event.Event{{Seq: 1, Name: "run.queued"}}})
	if got := take(t, sub); len(got) != 1 {
		t.Errorf("got %d batches", len(got))
	}
}

// An outside server that is not there does not keep a node from starting.
func TestOutsideServerIsDown(t *testing.T) {
	hub, _ := node(t, natsbus.Config{URL: "nats://127.0.0.1:1"})
	sub := hub.Subscribe("s1")
	defer sub.Close()
	hub.Publish(event.Batch{Stream: "s1", Events: []event.Event{{Seq: 1, Name: "run.queued"}}})
	if got := take(t, sub); len(got) != 1 {
		t.Errorf("got %d batches, want the local one", len(got))
	}
}

func TestBadListenAddress(t *testing.T) {
	for _, listen := range []string{"nonsense", "127.0.0.1:port"} {
		if _, err := natsbus.Open(natsbus.Config{Listen: listen, Logger: slog.New(slog.DiscardHandler)}, event.NewHub()); err == nil {
			t.Errorf("listening on %q succeeded", listen)
		}
	}
}

// Any number of readers of a stream are one subscription, and cost the node
// no goroutine; the last one who leaves ends it.
func TestOneSubscriptionForAllReaders(t *testing.T) {
	outside := outsideServer(t, server.RANDOM_PORT)
	before := outside.NumSubscriptions()
	hub, _ := node(t, natsbus.Config{URL: outside.ClientURL()})
	speaker, _ := node(t, natsbus.Config{URL: outside.ClientURL()})
	idle := settled(t, outside, before+2) // one each for signals
	goroutines := runtime.NumGoroutine()
	var subs []*event.Subscription
	for range 50 {
		for _, stream := range []string{"s1", "s2"} {
			subs = append(subs, hub.Subscribe(stream))
		}
	}
	settled(t, outside, idle+2)
	if now := runtime.NumGoroutine(); now > goroutines+2 {
		t.Errorf("%d goroutines for 100 readers", now-goroutines)
	}
	speaker.Publish(event.Batch{Stream: "s1", Events: []event.Event{{Seq: 1, Name: "run.queued"}}})
	for i, sub := range subs {
		if i%2 == 0 {
			if got := take(t, sub); len(got) != 1 {
				t.Fatalf("reader %d got %d batches", i, len(got))
			}
		}
		sub.Close()
	}
	settled(t, outside, idle)
}

func settled(t *testing.T, s *server.Server, want uint32) uint32 {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); s.NumSubscriptions() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d subscriptions, want %d", s.NumSubscriptions(), want)
		}
	}
	return want
}

func outsideServer(t *testing.T, port int) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(5 * time.Second) {
		t.Fatal("NATS does not start")
	}
	return s
}

// Batches sent while the connection was down are lost; readers are notified to
// look for it as soon as it is back.
func TestReadersHearOfALostConnection(t *testing.T) {
	outside := outsideServer(t, server.RANDOM_PORT)
	hub, _ := node(t, natsbus.Config{URL: outside.ClientURL()})
	sub := hub.Subscribe("s1")
	defer sub.Close()
	port := outside.Addr().(*net.TCPAddr).Port
	outside.Shutdown()
	outside.WaitForShutdown()
	if got := take(t, sub); len(got) != 1 || len(got[0].Events) != 0 {
		t.Errorf("when it goes: %v, want a hint", got)
	}
	outsideServer(t, port)
	if got := take(t, sub); len(got) != 1 || len(got[0].Events) != 0 {
		t.Errorf("got %v, want a hint", got)
	}
}

// A server of other people takes 1 MiB. Instead of a larger batch the readers on other
// nodes receive a hint to read the log, and then what follows it.
func TestLargeBatchesBecomeHints(t *testing.T) {
	outside := outsideServer(t, server.RANDOM_PORT)
	hubA, _ := node(t, natsbus.Config{URL: outside.ClientURL()})
	hubB, _ := node(t, natsbus.Config{URL: outside.ClientURL()})
	sub := hubB.Subscribe("s1")
	defer sub.Close()
	large := []byte(`{"output":"` + strings.Repeat("x", 1200<<10) + `"}`)
	hubA.Publish(event.Batch{Stream: "s1", Prev: 3, Events: []event.Event{{Seq: 4, Name: "tool.result", Data: large}}})
	if got := take(t, sub); len(got) != 1 || got[0].Stream != "s1" || len(got[0].Events) != 0 {
		t.Fatalf("got %d batches, want a hint", len(got))
	}
	hubA.Publish(event.Batch{Stream: "s1", Prev: 4, Events: []event.Event{{Seq: 5, Name: "run.completed", Data: []byte(`{}`)}}, Final: true})
	var seqs []int64
	hints := 0
	for len(seqs) == 0 || hints == 0 { // the final event, and the signal of it
		for _, b := range take(t, sub) {
			if len(b.Events) == 0 {
				hints++
			}
			for _, e := range b.Events {
				seqs = append(seqs, e.Seq)
			}
		}
	}
	if diff := cmp.Diff([]int64{5}, seqs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
