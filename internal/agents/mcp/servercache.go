package mcp

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentd/internal/base/cache"
	"agentd/internal/base/clock"
	"agentd/internal/kernel/resource"
)

// freshFor is how long a change by another node may go unnoticed here.
const freshFor = time.Second

// serverCache holds the enabled servers of tenants with runs, so that a tenant
// without servers costs one short query a second and not one per run. A change
// by this process is visible at once.
type serverCache struct {
	store *resource.Store[Server]
	clock clock.Clock
	cache *cache.Cache[string, cachedServers]

	mu         sync.Mutex
	generation uint64
}

type cachedServers struct {
	servers []*Server // in the order of their ids
	read    time.Time
}

func newServerCache(store *resource.Store[Server], c clock.Clock) *serverCache {
	return &serverCache{store: store, clock: c, cache: cache.New(cache.Options[string, cachedServers]{
		Weight: 20_000,
		Weigh:  func(_ string, k cachedServers) uint32 { return uint32(1 + len(k.servers)) },
	})}
}

func (c *serverCache) forget(tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	c.cache.Drop(tenant)
}

// enabled returns a tenant's enabled servers. They are shared and must not be
// changed.
func (c *serverCache) enabled(ctx context.Context, tenant string) ([]*Server, error) {
	now := c.clock.Now()
	if k, ok := c.cache.Get(tenant); ok && now.Sub(k.read) < freshFor {
		return k.servers, nil
	}
	c.mu.Lock()
	generation := c.generation
	c.mu.Unlock()
	all, err := listServers(ctx, c.store, tenant)
	if err != nil {
		return nil, err
	}
	k := cachedServers{read: now}
	for _, v := range all {
		if v.Enabled {
			k.servers = append(k.servers, v)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation == generation { // otherwise a change was made while the list was read
		c.cache.Set(tenant, k)
	}
	return k.servers, nil
}

// assigned returns the enabled servers that are assigned to an agent.
func (c *serverCache) assigned(ctx context.Context, tenant, agent string) ([]*Server, error) {
	all, err := c.enabled(ctx, tenant)
	if err != nil {
		return nil, err
	}
	var assigned []*Server
	for _, v := range all {
		if slices.Contains(v.Assigned, agent) {
			assigned = append(assigned, v)
		}
	}
	return assigned, nil
}

// listServers returns every server of a tenant, in the order of their ids.
func listServers(ctx context.Context, store *resource.Store[Server], tenant string) ([]*Server, error) {
	return store.List(ctx, tenant, resource.Find{Asc: true, Limit: maxServers})
}
