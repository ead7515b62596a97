package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/internal/base/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type key struct{ tenant, id string }

func TestEntries(t *testing.T) {
	t.Parallel()
	c := cache.New(cache.Options[key, *int]{Most: 10})
	one, two := 1, 2
	a := key{"acme", "a"}
	if v, there := c.Get(a); there || v != nil {
		t.Errorf("an empty cache has %v", v)
	}
	if got := c.First(a, &one); got != &one {
		t.Errorf("the first is %v", got)
	}
	if got := c.First(a, &two); got != &one {
		t.Errorf("after the first came %v", got)
	}
	c.Set(a, &two)
	if v, there := c.Get(a); !there || v != &two {
		t.Errorf("it has %v", v)
	}
	if _, there := c.Get(key{"other", "a"}); there {
		t.Error("another tenant's key finds it")
	}
	c.Drop(a)
	if _, there := c.Get(a); there {
		t.Error("what was dropped is there")
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*cache.Cache[int, string]{
		"number": cache.New(cache.Options[int, string]{Most: 10}),
		"weight": cache.New(cache.Options[int, string]{Weight: 100, Weigh: func(_ int, v string) uint32 { return uint32(len(v)) }}),
	} {
		for i := range 1000 {
			c.Set(i, "0123456789")
		}
		kept := 0
		for range 100 { // what is too much is taken out after a moment
			kept = 0
			for i := range 1000 {
				if _, there := c.Get(i); there {
					kept++
				}
			}
			if kept <= 10 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if kept == 0 || kept > 10 {
			t.Errorf("%s: %d are there", name, kept)
		}
	}
}

func TestEntriesThatLast(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	c := cache.New(cache.Options[string, int]{
		Most: 10, Elapsed: func() time.Duration { return time.Duration(now.Load()) },
		Lasts: func(v int) time.Duration { return time.Duration(v) * time.Second },
	})
	c.Set("short", 1)
	c.Set("long", 3)
	now.Store(int64(2 * time.Second))
	if _, there := c.Get("short"); there {
		t.Error("it is there after its time")
	}
	if v, there := c.Get("long"); !there || v != 3 {
		t.Error("it is gone before its time")
	}
	steady := cache.New(cache.Options[string, int]{Most: 10, Elapsed: func() time.Duration { return time.Duration(now.Load()) }, Lasts: cache.For[int](time.Minute)})
	steady.Set("a", 0)
	if _, there := steady.Get("a"); !there {
		t.Error("it is gone before its time")
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	c := cache.New(cache.Options[string, map[string]int]{Most: 10})
	var loads atomic.Int64
	begun, end := make(chan struct{}), make(chan struct{})
	slow := func(_ context.Context, k string) (map[string]int, error) {
		loads.Add(1)
		close(begun)
		<-end
		return map[string]int{k: 1}, nil
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if v, err := c.Load(t.Context(), "a", slow); err != nil || v["a"] != 1 {
				t.Errorf("%v, %v", v, err)
			}
		})
	}
	<-begun
	close(end)
	all.Wait()
	if n := loads.Load(); n != 1 {
		t.Errorf("%d loads", n)
	}

	gone := errors.New("gone")
	load := func(v map[string]int, err error) func(context.Context, string) (map[string]int, error) {
		return func(context.Context, string) (map[string]int, error) { return v, err }
	}
	if v, err := c.Load(t.Context(), "b", load(nil, gone)); err != gone || v != nil {
		t.Errorf("%v, %v", v, err)
	}
	if v, err := c.Load(t.Context(), "b", load(nil, nil)); err != nil || v != nil {
		t.Errorf("after an error: %v, %v", v, err)
	}
	if _, err := c.Load(t.Context(), "b", load(nil, gone)); err != nil {
		t.Errorf("what is nothing was put in, and then: %v", err)
	}
}

// What is dropped while it is loaded is loaded again.
func TestDropWhileLoading(t *testing.T) {
	t.Parallel()
	c := cache.New(cache.Options[string, int]{Most: 10})
	begun, end := make(chan struct{}, 2), make(chan struct{})
	loads := 0
	load := func(context.Context, string) (int, error) {
		loads++
		n := loads
		begun <- struct{}{}
		<-end
		return n, nil
	}
	var loading sync.WaitGroup
	loading.Go(func() {
		if v, err := c.Load(t.Context(), "a", load); err != nil || v != 2 {
			t.Errorf("%d, %v", v, err)
		}
	})
	<-begun
	c.Drop("a")
	close(end)
	loading.Wait()
	if v, there := c.Get("a"); !there || v != 2 {
		t.Errorf("%d, %t", v, there)
	}
}

// What a lookup costs: a box for the key.
func BenchmarkGet(b *testing.B) {
	c := cache.New(cache.Options[key, *int]{Most: 1000})
	for i := range 100 {
		c.Set(key{"acme", fmt.Sprint(i)}, new(int))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, there := c.Get(key{"acme", "7"}); !there {
			b.Fatal("it is gone")
		}
	}
}
