package providerkey

import (
	"context"
	"time"

	"agentd/internal/base/cache"

	"agentd/internal/kernel/model"
)

const (
	// cacheTTL is how long what a tenant keeps is believed. What another node
	// changes, and cannot tell this one, takes effect here within this time.
	cacheTTL = 5 * time.Second
	// maxTenants is of how many tenants it is held.
	maxTenants = 10_000
)

// tenantKeys is what a tenant keeps; an empty one is remembered too.
type tenantKeys = map[string]*model.Credential

// keyCache holds what tenants keep. Calls of one tenant that come at once share
// one reading of the store; one that is dropped while it is read is read again.
type keyCache struct {
	tenants *cache.Cache[string, tenantKeys]
	load    func(context.Context, string) (tenantKeys, error)
}

func newKeyCache(load func(context.Context, string) (tenantKeys, error), elapsed func() time.Duration) *keyCache {
	return &keyCache{
		tenants: cache.New(cache.Options[string, tenantKeys]{Most: maxTenants, Lasts: cache.For[tenantKeys](cacheTTL), Elapsed: elapsed}),
		// The reading is everybody's who waits for it, so it does not end with the
		// request that began it.
		load: func(ctx context.Context, tenant string) (tenantKeys, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cacheTTL)
			defer cancel()
			return load(ctx, tenant)
		},
	}
}

func (v *keyCache) get(ctx context.Context, tenant string) (tenantKeys, error) {
	return v.tenants.Load(ctx, tenant, v.load)
}

func (v *keyCache) drop(tenant string) { v.tenants.Drop(tenant) }
