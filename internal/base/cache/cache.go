// Package cache keeps what is costly to read or to make, and forgets what is
// used least when there is no room. It is otter, with keys and values boxed:
// all caches are one instance of its type, each of which would add 250 KiB to
// the program (docs/adr/0033-one-cache.md).
package cache

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
)

// Options of a cache. Either Most or Weight is set.
type Options[K comparable, V any] struct {
	Most int // entries
	// Weight is how much all entries together may weigh, each as Weigh says when
	// it is put in.
	Weight uint64
	Weigh  func(K, V) uint32
	// Lasts is how long an entry is there after it was put in; nil: until its
	// room is needed.
	Lasts func(V) time.Duration
	// Elapsed is the clock of Lasts, from any moment on.
	Elapsed func() time.Duration
}

// For is a Lasts that is the same for all.
func For[V any](d time.Duration) func(V) time.Duration { return func(V) time.Duration { return d } }

// Cache is safe for concurrent use.
type Cache[K comparable, V any] struct{ all *otter.Cache[any, any] }

// New makes a cache. It panics on options that contradict themselves.
func New[K comparable, V any](o Options[K, V]) *Cache[K, V] {
	options := &otter.Options[any, any]{
		MaximumSize: o.Most, MaximumWeight: o.Weight,
		Logger: &otter.NoopLogger{}, // a failed load is the caller's error
	}
	if o.Weigh != nil {
		options.Weigher = func(k, v any) uint32 { return o.Weigh(k.(K), v.(V)) }
	}
	if o.Lasts != nil {
		options.ExpiryCalculator = otter.ExpiryWritingFunc(func(e otter.Entry[any, any]) time.Duration { return o.Lasts(e.Value.(V)) })
		options.Clock = ticks{o.Elapsed}
	}
	return &Cache[K, V]{otter.Must(options)}
}

// ticks is the library's clock. It gives no ticks for a clean-up in the
// background, which the bounds make unnecessary.
type ticks struct{ elapsed func() time.Duration }

// NowNano implements otter.Clock.
func (t ticks) NowNano() int64 { return int64(t.elapsed()) }

// Tick implements otter.Clock.
func (t ticks) Tick(time.Duration) <-chan time.Time { return nil }

// Get gives what is there under a key.
func (c *Cache[K, V]) Get(k K) (v V, there bool) {
	found, there := c.all.GetIfPresent(k)
	if there {
		v = found.(V)
	}
	return v, there
}

// Set puts something in, in the place of what was there.
func (c *Cache[K, V]) Set(k K, v V) { c.all.Set(k, v) }

// First puts something in unless something is there, and gives what is there
// then.
func (c *Cache[K, V]) First(k K, v V) V {
	first, _ := c.all.SetIfAbsent(k, v)
	return first.(V)
}

// Drop takes something out. What is being loaded under the key at the moment is
// loaded again: it may be from before.
func (c *Cache[K, V]) Drop(k K) { c.all.Invalidate(k) }

// Load gives what is there, or puts in what load gives. Callers of one key that
// come at once share one load, with the context of the first. An error is given
// to all of them, and nothing is put in.
func (c *Cache[K, V]) Load(ctx context.Context, k K, load func(context.Context, K) (V, error)) (V, error) {
	if v, there := c.Get(k); there {
		return v, nil
	}
	var none V
	got, err := c.all.Get(ctx, k, otter.LoaderFunc[any, any](func(ctx context.Context, _ any) (any, error) { return load(ctx, k) }))
	if err != nil {
		return none, err
	}
	return got.(V), nil
}
