package agent

import (
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	// recentBytes bounds the cache, by the size of the agents' JSON.
	recentBytes = 8 << 20
	// freshFor is how long another process's change may go unnoticed here.
	freshFor = time.Second
)

type agentKey struct{ tenant, id string }

type recentAgent struct {
	agent *Agent
	bytes int
	read  time.Time
}

// recent keeps the agents that runs were started of, decoded, so that the next
// run neither reads nor decodes its agent again. A change by this process is
// seen at once: what was read before a change is never kept after it.
type recent struct {
	cache *otter.Cache[agentKey, recentAgent]

	mu         sync.Mutex
	generation uint64 // of changes by this process
}

func newRecent() *recent {
	return &recent{cache: otter.Must(&otter.Options[agentKey, recentAgent]{
		MaximumWeight: recentBytes,
		Weigher:       func(_ agentKey, e recentAgent) uint32 { return uint32(e.bytes) },
	})}
}

// find gives what is known of an agent, whether that is fresh, and the
// generation to keep what is read instead.
func (r *recent) find(key agentKey, now time.Time) (known *Agent, fresh bool, generation uint64) {
	if e, ok := r.cache.GetIfPresent(key); ok {
		if now.Sub(e.read) < freshFor {
			return e.agent, true, 0
		}
		known = e.agent
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return known, false, r.generation
}

// keep stores what was read, unless something changed since.
func (r *recent) keep(key agentKey, g *Agent, bytes int, read time.Time, generation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.generation == generation {
		r.cache.Set(key, recentAgent{g, bytes, read})
	}
}

// forget is called after a change committed.
func (r *recent) forget(key agentKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
	r.cache.Invalidate(key)
}
