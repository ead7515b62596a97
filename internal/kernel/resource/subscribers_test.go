package resource_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/kernel/work"
	"agentd/internal/store/memstore"
)

// queue keeps what Subscribers enqueues. Its writes happen at commit.
type queue struct {
	work.Queue
	items map[string]work.Item
}

func (q *queue) EnqueueTx(tx txn.Tx, items ...work.Item) error {
	for _, item := range items {
		tx.AfterCommit(func() { q.items[item.Key] = item })
	}
	return nil
}

func (q *queue) FinishTx(tx txn.Tx, held work.Lease) error {
	tx.AfterCommit(func() { delete(q.items, held.Key) })
	return nil
}

// feed is Subscribers over a fake queue, with a store of gadgets that publishes
// its changes to them.
type feed struct {
	*resource.Subscribers
	client resourcetest.Client
	queue  *queue
	clock  *clock.Fake
}

func newFeed(t *testing.T) feed {
	t.Helper()
	backend := memstore.New()
	q, c := &queue{items: map[string]work.Item{}}, clock.NewFake()
	deps, _ := resourcetest.Deps(backend, backend)
	subscribers := resource.NewSubscribers(q, backend, c)
	deps.Outbox, deps.Clock = subscribers, c
	return feed{subscribers, resourcetest.NewClient(resource.Routes(build(deps))), q, c}
}

// deliver hands out the queued items once and returns the errors.
func (f feed) deliver(t *testing.T) (errs []error) {
	t.Helper()
	for _, item := range f.queue.items {
		if err := f.Deliver(t.Context(), work.Lease{Item: item}); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func TestSubscribers(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	var received []string
	listen := func(who string) resource.HandlerFunc {
		return func(_ context.Context, c resource.Change) error {
			received = append(received, who+" "+c.Kind+" "+c.Action+" "+c.Name)
			if c.TenantID != f.client.Who.TenantID || c.Actor != f.client.Who.UserID || c.Version == 0 || !c.At.Equal(f.clock.Now()) {
				t.Errorf("delivered %+v", c)
			}
			return nil
		}
	}
	f.Subscribe("all", "gadget", nil, listen("all"))
	f.Subscribe("some", "gadget", []string{resource.Deleted, "start"}, listen("some"))
	f.Subscribe("none", "widget", nil, listen("none"))
	id := make1(t, f.client, `{"slug":"a","name":"one"}`)
	do := func(method, path, body string) {
		t.Helper()
		if _, err := f.client.Do(t.Context(), method, item+path, resourcetest.Args{"gadgetId": id, "": body}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		do   func()
		want []string
	}{
		{func() {}, []string{"all gadget created one"}},
		{func() { do("PATCH", "", `{"name":"two"}`) }, []string{"all gadget updated two"}},
		{func() { do("POST", "/start", "") }, []string{"all gadget start two", "some gadget start two"}},
		{func() { do("POST", "/stop", ""); do("POST", "/scrap_now", "") }, []string{"all gadget scrap_now two", "all gadget stop two"}},
		{func() { do("DELETE", "", "") }, []string{"all gadget deleted two", "some gadget deleted two"}},
	} {
		received = nil
		step.do()
		if errs := f.deliver(t); errs != nil {
			t.Fatal(errs)
		}
		if !sameLines(received, step.want) {
			t.Errorf("received %q, want %q", received, step.want)
		}
		if len(f.queue.items) != 0 {
			t.Errorf("left in the queue: %v", f.queue.items)
		}
	}
}

func sameLines(a, b []string) bool {
	count := map[string]int{}
	for _, s := range a {
		count[s]++
	}
	for _, s := range b {
		count[s]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestSubscriberThatFails(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	tries, broken := 0, errors.New("broken")
	f.Subscribe("flaky", "gadget", []string{resource.Created}, func(context.Context, resource.Change) error {
		if tries++; tries < 4 {
			return broken
		}
		return nil
	})
	make1(t, f.client, `{"slug":"a","name":"one"}`)
	for len(f.queue.items) > 0 {
		errs := f.deliver(t)
		if tries < 4 && (len(errs) != 1 || !errors.Is(errs[0], broken)) {
			t.Fatalf("try %d ends with %v", tries, errs)
		}
	}
	if tries != 4 {
		t.Errorf("%d tries", tries)
	}
}

func TestSubscriberThatIsGone(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.Subscribe("gone", "gadget", nil, nil)
	make1(t, f.client, `{"slug":"a","name":"one"}`)
	f.Subscribers = resource.NewSubscribers(f.queue, memstore.New(), f.clock)
	days := 0
	for ; len(f.queue.items) > 0 && days < 30; days++ {
		if errs := f.deliver(t); len(errs) != 1 || !strings.Contains(errs[0].Error(), "gone") {
			t.Fatalf("day %d: %v", days, errs)
		}
		f.clock.Advance(24 * time.Hour)
	}
	if days != 8 {
		t.Errorf("dropped after %d days", days)
	}
}

func TestTwoSubscribersOfOneName(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.Subscribe("a", "gadget", nil, nil)
	defer func() {
		if recover() == nil {
			t.Error("it was accepted")
		}
	}()
	f.Subscribe("a", "widget", nil, nil)
}
