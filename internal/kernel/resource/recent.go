package resource

import (
	"context"
	"sync"
	"time"

	"agentd/internal/base/cache"
)

// FreshFor is how long another process's change may go unnoticed by [Recent].
const FreshFor = time.Second

type recentKey struct{ tenant, id string }

type recentItem[T any] struct {
	value *T
	bytes int
	read  time.Time
}

// Recent caches the decoded resources of a store. A change by this process is
// visible at once if Forget is called for it: a value that was read before the
// change is never cached after it.
type Recent[T any] struct {
	store *Store[T]
	cache *cache.Cache[recentKey, *recentItem[T]]

	mu         sync.Mutex
	generation uint64 // of changes by this process
}

// NewRecent returns a cache of at most that many bytes of the resources' JSON.
func NewRecent[T any](s *Store[T], bytes uint64) *Recent[T] {
	return &Recent[T]{store: s, cache: cache.New(cache.Options[recentKey, *recentItem[T]]{
		Weight: bytes,
		Weigh:  func(_ recentKey, e *recentItem[T]) uint32 { return uint32(e.bytes) },
	})}
}

// Get returns a resource: the newest version if this process changed it last,
// otherwise one that was the newest at most FreshFor ago. It is shared with
// other callers and must not be changed. Errors: those of [Store.Get].
func (r *Recent[T]) Get(ctx context.Context, tenant, id string) (*T, error) {
	key, now := recentKey{tenant, id}, r.store.deps.Clock.Now()
	known, fresh, generation := r.find(key, now)
	if fresh {
		return known, nil
	}
	doc, err := r.store.Read(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if known == nil || metaOf(known).Version != doc.Version {
		if known, err = r.store.Decode(doc); err != nil {
			return nil, err
		}
	}
	r.keep(key, known, len(doc.Body), now, generation)
	return known, nil
}

// Forget is called after a change committed.
func (r *Recent[T]) Forget(tenant, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
	r.cache.Drop(recentKey{tenant, id})
}

// find returns the cached value and whether it is fresh. If it is not, generation
// is what keep needs to cache the value that is read in its place.
func (r *Recent[T]) find(key recentKey, now time.Time) (known *T, fresh bool, generation uint64) {
	if e, ok := r.cache.Get(key); ok {
		if now.Sub(e.read) < FreshFor {
			return e.value, true, 0
		}
		known = e.value
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return known, false, r.generation
}

// keep caches a value that was read, unless a resource was changed since.
func (r *Recent[T]) keep(key recentKey, v *T, bytes int, read time.Time, generation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.generation == generation {
		r.cache.Set(key, &recentItem[T]{v, bytes, read})
	}
}
