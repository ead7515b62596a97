package ratelimit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// wire is a bus between nodes with a delay.
type wire struct {
	delay time.Duration

	mu    sync.Mutex
	nodes map[int]func(string)
	sent  int
	bytes int
	down  bool
}

// count returns how many messages were sent.
func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// end is the Bus of one node.
type end struct {
	*wire
	at int
}

func (e end) OnSignal(_ string, f func(string)) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodes[e.at] = f
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.nodes, e.at)
	}
}

func (e end) Signal(_, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent++
	e.bytes = max(e.bytes, len(message))
	for at, f := range e.nodes {
		if at == e.at {
			go f(message) // a hub delivers signals to its own node too
		} else if !e.down {
			time.AfterFunc(e.delay, func() { f(message) })
		}
	}
}

func (w *wire) cut(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}

// cluster starts nodes with the same limits; it is used in a synctest bubble.
func cluster(t *testing.T, text string, n int) (nodes []*Limiter, w *wire) {
	w = &wire{delay: time.Millisecond, nodes: map[int]func(string){}}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range n {
		l := parsed(t, text)
		nodes = append(nodes, l)
		wg.Go(func() { l.Share(ctx, fmt.Sprintf("node-%d", i), end{w, i}) })
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		synctest.Wait()
	})
	time.Sleep(time.Second) // they greet each other
	synctest.Wait()
	return nodes, w
}

// hammer sends a request to each node at an interval for a time span, and returns
// how many were admitted.
func hammer(nodes []*Limiter, r Request, every, span time.Duration) (admitted int) {
	for range span / every {
		for _, l := range nodes {
			if l.Reserve(time.Now(), r).Bucket == "" {
				admitted++
			}
		}
		time.Sleep(every)
	}
	return admitted
}

// Nodes that are all under constant load admit together what a single node would
// have admitted, to within 5 %.
func TestNodesShareAnAllowance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limits string
		nodes  int
		every  time.Duration
		span   time.Duration
	}{
		{"key=600/m", 2, 5 * time.Millisecond, 2 * time.Minute},
		{"key=600/m", 5, 20 * time.Millisecond, 2 * time.Minute},
		{"key=60/m", 3, 50 * time.Millisecond, 4 * time.Minute},
		{"tenant=6000/m,key=3000/m", 4, 5 * time.Millisecond, time.Minute},
		{"key=100/s", 3, 5 * time.Millisecond, 10 * time.Second},
		{"tenant=100/s", 8, 10 * time.Millisecond, 10 * time.Second},
	} {
		t.Run(fmt.Sprintf("%d_nodes_%s", tt.nodes, tt.limits), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes, w := cluster(t, tt.limits, tt.nodes)
				alone := hammer([]*Limiter{parsed(t, tt.limits)}, of, tt.every/time.Duration(tt.nodes), tt.span)
				got := hammer(nodes, of, tt.every, tt.span)
				if ratio := float64(got) / float64(alone); ratio > 1.05 || ratio < .95 {
					t.Errorf("%d admitted, one node admits %d: %.3f", got, alone, ratio)
				}
				t.Logf("%d admitted, one node admits %d; %d messages of at most %d bytes", got, alone, w.count(), w.bytes)
			})
		})
	}
}

// A burst that reaches all nodes within the time that a message takes is admitted
// by each, and paid back: nothing is admitted until the rate holds again.
func TestBurstOnAllNodesIsPaidBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, _ := cluster(t, "key=60/m", 3)
		admitted := 0
		for _, l := range nodes {
			for range 100 {
				if l.Reserve(time.Now(), of).Bucket == "" {
					admitted++
				}
			}
		}
		if admitted != 180 {
			t.Fatalf("%d admitted at once", admitted)
		}
		time.Sleep(time.Second)
		if v := nodes[1].Reserve(time.Now(), of); v.Bucket != "api_key" || v.Retry < 119*time.Second || v.Retry > 121*time.Second {
			t.Errorf("the excess is not paid back: %+v", v)
		}
		admitted += hammer(nodes, of, time.Second/4, 5*time.Minute)
		if want := 60 + 5*60 + 2; admitted > want || admitted < want-20 {
			t.Errorf("%d admitted in five minutes, want %d", admitted, want)
		}
	})
}

func TestSilenceWithoutOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, w := cluster(t, "key=60/m", 1)
		before := w.count()
		hammer(nodes, of, time.Millisecond, time.Minute)
		if n := w.count() - before; n > 13 {
			t.Errorf("a node alone sent %d messages in a minute", n)
		}
		if n := nodes[0].callers.size(); n != 1 {
			t.Errorf("%d buckets", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := nodes[0].callers.size(); n != 0 {
			t.Errorf("a bucket that is full is kept: %d", n)
		}
	})
}

// Without a bus each node limits alone. What the bus delivers late does not lock
// callers out.
func TestBusIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, w := cluster(t, "key=600/m", 2)
		hammer(nodes, of, 20*time.Millisecond, 2*time.Minute)
		w.cut(true)
		time.Sleep(2 * aliveFor)
		if got := nodes[0].share.others.Load(); got != 0 {
			t.Fatalf("%d others count as alive", got)
		}
		alone := hammer(nodes, of, 20*time.Millisecond, 2*time.Minute)
		if alone < 2*1150+600 || alone > 2*1800 {
			t.Errorf("%d admitted without the bus", alone)
		}
		w.cut(false)
		time.Sleep(2 * time.Minute)
		together := hammer(nodes, of, 20*time.Millisecond, 2*time.Minute)
		if together > 1890 || together < 1710 {
			t.Errorf("%d admitted with the bus, want 1800", together)
		}
		// The debt of a whole hour arrives at once.
		late := newMessages("node-1")
		late.add(key{kind: ofKey, id: of.Credential}, int64(time.Hour))
		nodes[0].receive("node-0", late.done()[0])
		if v := nodes[0].Reserve(time.Now(), of); v.Bucket == "" || v.Retry > 2*61*time.Second {
			t.Errorf("a late message locks the caller out for %v", v.Retry)
		}
	})
}

func TestMessages(t *testing.T) {
	t.Parallel()
	want := map[key]int64{}
	out := newMessages("node")
	for i := range 3000 {
		k := key{kind(i%int(afterKinds-1)) + 1, uint8(i % 3), fmt.Sprintf("id-%d", i), strings.Repeat("x", i%50)}
		want[k] = int64(i + 1)
		out.add(k, want[k])
	}
	out.add(key{kind: ofKey, id: strings.Repeat("x", maxText+1)}, 1)
	got := map[key]int64{}
	all := out.done()
	for _, message := range all {
		if len(message) > messageSize+2*maxText {
			t.Errorf("a message of %d bytes", len(message))
		}
		node, entries, err := read(message, "other")
		if err != nil || node != "node" {
			t.Fatal(node, err)
		}
		for _, e := range entries {
			got[e.key] = e.debt
		}
		if _, own, err := read(message, "node"); err != nil || own != nil {
			t.Errorf("its own: %v, %v", own, err)
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(key{})); diff != "" || len(all) < 2 {
		t.Errorf("in %d messages:\n%s", len(all), diff)
	}
}

func FuzzRead(f *testing.F) {
	out := newMessages("node")
	out.add(key{ofTenant, 0, "t1", ""}, 10)
	out.add(key{ofOwn, 3, "t1", "GET /x"}, int64(time.Minute))
	whole := out.done()[0]
	for i := range whole {
		f.Add(whole[:i])
	}
	f.Add(whole)
	f.Add(greeting("n"))
	f.Add(greeting("n") + "\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, message string) {
		node, entries, err := read(message, "self")
		if err != nil && (node != "" || entries != nil) || err == nil && node == "" {
			t.Errorf("%q, %v, %v", node, entries, err)
		}
		l := parsed(t, "tenant=60/m")
		l.receive("self", message)
		if v := l.Reserve(time.Now(), Request{Tenant: "t1", Credential: "k1"}); v.Retry < 0 || v.Retry > 2*61*time.Second || v.Remaining < 0 {
			t.Errorf("%q makes %+v", message, v)
		}
	})
}
