package mcp

import (
	"context"
	"slices"

	"agentd/internal/kernel/resource"
)

// serverCache holds the enabled servers of tenants with runs.
type serverCache struct {
	enabled *resource.RecentList[Server]
}

func newServerCache(store *resource.Store[Server]) *serverCache {
	return &serverCache{resource.NewRecentList(store, maxServers, resource.FreshFor, func(v *Server) bool { return v.Enabled })}
}

func (c *serverCache) forget(tenant string) { c.enabled.Forget(tenant) }

// assigned returns the enabled servers that are assigned to an agent. They are shared
// and must not be changed.
func (c *serverCache) assigned(ctx context.Context, tenant, agent string) ([]*Server, error) {
	all, err := c.enabled.Of(ctx, tenant)
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
