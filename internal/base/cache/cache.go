// Package cache keeps values that are costly to read or compute, and evicts the
// least used ones when it is full. It wraps otter with boxed keys and values:
// all caches share one instantiation of its type, each of which would add
// 250 KiB to the program (docs/adr/0033-one-cache.md).
package cache

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
)

// Options of a cache. Either Most or Weight is set.
type Options[K comparable, V any] struct {
	Most int // entries
	// Weight is the largest total weight of all entries; Weigh is called for each
	// entry when it is set.
	Weight uint64
	Weigh  func(K, V) uint32
	// Lasts returns how long an entry is kept after it was set; nil: until it is
	// evicted.
	Lasts func(V) time.Duration
	// Elapsed is the clock of Lasts: the time since any fixed moment.
	Elapsed func() time.Duration
}

// For returns a Lasts that is the same for all entries.
func For[V any](d time.Duration) func(V) time.Duration { return func(V) time.Duration { return d } }

// Cache is safe for concurrent use.
type Cache[K comparable, V any] struct{ all *otter.Cache[any, any] }

// New returns an empty cache. It panics on options that contradict each other.
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

// ticks is the library's clock. Its Tick channel is nil, so that no background
// clean-up runs: the bounds make it unnecessary.
type ticks struct{ elapsed func() time.Duration }

// NowNano implements otter.Clock.
func (t ticks) NowNano() int64 { return int64(t.elapsed()) }

// Tick implements otter.Clock.
func (t ticks) Tick(time.Duration) <-chan time.Time { return nil }

// Get returns the value of a key, and whether there is one.
func (c *Cache[K, V]) Get(k K) (v V, there bool) {
	found, there := c.all.GetIfPresent(k)
	if there {
		v = found.(V)
	}
	return v, there
}

// Set stores a value under a key and replaces the previous one.
func (c *Cache[K, V]) Set(k K, v V) { c.all.Set(k, v) }

// First stores a value unless the key has one already, and returns the value
// that the key has then.
func (c *Cache[K, V]) First(k K, v V) V {
	first, _ := c.all.SetIfAbsent(k, v)
	return first.(V)
}

// Drop removes a key. A load of the key that is under way is repeated, since it
// may have read an outdated value.
func (c *Cache[K, V]) Drop(k K) { c.all.Invalidate(k) }

// Load returns the value of a key, and calls load to get and store it if there
// is none. Concurrent callers of one key share one load, with the context of
// the first. All of them receive its error, and nothing is stored then.
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
