package mcp

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentd/internal/base/cache"

	"agentd/internal/kernel/resource"
)

// freshFor is how long another node's change may go unnoticed here.
const freshFor = time.Second

// serverCache keeps the servers of tenants whose runs ask for them, so that a
// tenant without servers costs one short query a second and not one a run. A
// change by this process is seen at once.
type serverCache struct {
	cache *cache.Cache[string, cachedServers]

	mu         sync.Mutex
	generation uint64
}

type cachedServers struct {
	servers []*Server // those that are enabled, in the order of their ids
	read    time.Time
}

func newServerCache() *serverCache {
	return &serverCache{cache: cache.New(cache.Options[string, cachedServers]{
		Weight: 20_000,
		Weigh:  func(_ string, k cachedServers) uint32 { return uint32(1 + len(k.servers)) },
	})}
}

func (r *serverCache) forget(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
	r.cache.Drop(tenant)
}

// enabled gives a tenant's servers that are not disabled. They are shared and
// must not be changed.
func (s *Service) enabled(ctx context.Context, tenant string) ([]*Server, error) {
	now := s.Clock.Now()
	if k, ok := s.servers.cache.Get(tenant); ok && now.Sub(k.read) < freshFor {
		return k.servers, nil
	}
	s.servers.mu.Lock()
	generation := s.servers.generation
	s.servers.mu.Unlock()
	all, err := s.all(ctx, tenant)
	if err != nil {
		return nil, err
	}
	k := cachedServers{read: now}
	for _, v := range all {
		if v.Enabled {
			k.servers = append(k.servers, v)
		}
	}
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	if s.servers.generation == generation {
		s.servers.cache.Set(tenant, k)
	}
	return k.servers, nil
}

// all gives every server of a tenant, in the order of their ids.
func (s *Service) all(ctx context.Context, tenant string) ([]*Server, error) {
	return s.store.List(ctx, tenant, resource.Find{Asc: true, Limit: maxServers})
}

// assigned gives the servers that are an agent's.
func (s *Service) assigned(ctx context.Context, tenant, agent string) ([]*Server, error) {
	all, err := s.enabled(ctx, tenant)
	if err != nil {
		return nil, err
	}
	var mine []*Server
	for _, v := range all {
		if slices.Contains(v.Assigned, agent) {
			mine = append(mine, v)
		}
	}
	return mine, nil
}
