package providerkey

import (
	"context"
	"time"

	"agentd/internal/base/cache"
	"agentd/internal/kernel/model"
)

const (
	// cacheTTL is how long keys are cached. A change by another node whose
	// notification is lost takes effect here within this time.
	cacheTTL = 5 * time.Second
	// maxTenants bounds the cached tenants.
	maxTenants = 10_000
)

// tenantKeys are the keys of a tenant by provider; an empty map is cached too.
type tenantKeys = map[string]*model.Credential

// keyCache caches the keys of tenants. Concurrent calls of one tenant share one read
// of the store; an entry that is dropped during the read is read again.
type keyCache struct {
	tenants *cache.Cache[string, tenantKeys]
	load    func(context.Context, string) (tenantKeys, error)
}

func newKeyCache(load func(context.Context, string) (tenantKeys, error), elapsed func() time.Duration) *keyCache {
	return &keyCache{
		tenants: cache.New(cache.Options[string, tenantKeys]{Most: maxTenants, Lasts: cache.For[tenantKeys](cacheTTL), Elapsed: elapsed}),
		// Several requests may wait for the read, so it does not end with the one that
		// started it.
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
