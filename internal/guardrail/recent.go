package guardrail

import (
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	// recentBytes bounds each cache, by the size of the guardrails' configs.
	recentBytes = 4 << 20
	// freshFor is how long another process's change may go unnoticed here.
	freshFor = time.Second
)

type key struct{ tenant, id string }

type recentGuardrail struct {
	guardrail *Guardrail
	read      time.Time
}

// madeKey is a version of a guardrail with what an agent changes of its config.
type madeKey struct {
	key
	version  int64
	override string
}

// recent keeps the guardrails that runs asked for, and what was compiled of
// them. A change by this process is seen at once: what was read before a change
// is never kept after it.
type recent struct {
	cache *otter.Cache[key, recentGuardrail]
	made  *otter.Cache[madeKey, compiled]

	mu         sync.Mutex
	generation uint64 // of changes by this process
}

func newRecent() *recent {
	return &recent{
		cache: otter.Must(&otter.Options[key, recentGuardrail]{
			MaximumWeight: recentBytes,
			Weigher:       func(_ key, e recentGuardrail) uint32 { return uint32(len(e.guardrail.Config) + 500) },
		}),
		made: otter.Must(&otter.Options[madeKey, compiled]{
			MaximumSize: 1000,
		}),
	}
}

// find gives what is known of a guardrail, whether that is fresh, and the
// generation to keep what is read instead.
func (r *recent) find(k key, now time.Time) (known *Guardrail, fresh bool, generation uint64) {
	if e, ok := r.cache.GetIfPresent(k); ok {
		if now.Sub(e.read) < freshFor {
			return e.guardrail, true, 0
		}
		known = e.guardrail
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return known, false, r.generation
}

// keep stores what was read, unless something changed since.
func (r *recent) keep(k key, g *Guardrail, read time.Time, generation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.generation == generation {
		r.cache.Set(k, recentGuardrail{g, read})
	}
}

// forget is called after a change committed.
func (r *recent) forget(k key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
	r.cache.Invalidate(k)
}
