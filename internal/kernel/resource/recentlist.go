package resource

import (
	"context"
	"sync"
	"time"

	"agentd/internal/base/cache"
)

// RecentList caches all resources of a kind of which a tenant has few, by tenant, so
// that what every run needs to know of them costs one short query within a time
// and not one per run. A change by this process is visible at once if Forget is called
// for it.
type RecentList[T any] struct {
	store  *Store[T]
	limit  int
	lasts  time.Duration
	keep   func(*T) bool
	cached *cache.Cache[string, recentList[T]]

	mu         sync.Mutex
	generation uint64 // of changes by this process
}

type recentList[T any] struct {
	all  []*T // in the order of their ids
	read time.Time
}

// NewRecentList returns a cache of those of a tenant's first resources that keep
// accepts. lasts is how long another process's change may go unnoticed.
func NewRecentList[T any](s *Store[T], limit int, lasts time.Duration, keep func(*T) bool) *RecentList[T] {
	return &RecentList[T]{store: s, limit: limit, lasts: lasts, keep: keep, cached: cache.New(cache.Options[string, recentList[T]]{
		Weight: 20_000,
		Weigh:  func(_ string, k recentList[T]) uint32 { return uint32(1 + len(k.all)) },
	})}
}

// Forget is called after a change of a tenant's resources committed.
func (r *RecentList[T]) Forget(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
	r.cached.Drop(tenant)
}

// Of returns a tenant's resources in the order of their ids. They are shared and must
// not be changed.
func (r *RecentList[T]) Of(ctx context.Context, tenant string) ([]*T, error) {
	now := r.store.deps.Clock.Now()
	if k, ok := r.cached.Get(tenant); ok && now.Sub(k.read) < r.lasts {
		return k.all, nil
	}
	r.mu.Lock()
	generation := r.generation
	r.mu.Unlock()
	all, err := r.store.List(ctx, tenant, Find{Asc: true, Limit: r.limit})
	if err != nil {
		return nil, err
	}
	k := recentList[T]{read: now}
	for _, v := range all {
		if r.keep(v) {
			k.all = append(k.all, v)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.generation == generation { // otherwise a change was made while the list was read
		r.cached.Set(tenant, k)
	}
	return k.all, nil
}
