package providerkey

import (
	"context"
	"time"

	"agentd/internal/base/cache"

	"agentd/internal/kernel/model"
)

const (
	// keepFor is how long what a tenant keeps is believed. What another node
	// changes, and cannot tell this one, takes effect here within this time.
	keepFor = 5 * time.Second
	// maxTenants is of how many tenants it is held.
	maxTenants = 10_000
)

// kept is what a tenant keeps; an empty one is remembered too.
type kept = map[string]*model.Credential

// vault holds what tenants keep. Calls of one tenant that come at once share
// one reading of the store; one that is dropped while it is read is read again.
type vault struct {
	tenants *cache.Cache[string, kept]
	load    func(context.Context, string) (kept, error)
}

func newVault(load func(context.Context, string) (kept, error), elapsed func() time.Duration) *vault {
	return &vault{
		tenants: cache.New(cache.Options[string, kept]{Most: maxTenants, Lasts: cache.For[kept](keepFor), Elapsed: elapsed}),
		// The reading is everybody's who waits for it, so it does not end with the
		// request that began it.
		load: func(ctx context.Context, tenant string) (kept, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepFor)
			defer cancel()
			return load(ctx, tenant)
		},
	}
}

func (v *vault) of(ctx context.Context, tenant string) (kept, error) {
	return v.tenants.Load(ctx, tenant, v.load)
}

func (v *vault) drop(tenant string) { v.tenants.Drop(tenant) }
