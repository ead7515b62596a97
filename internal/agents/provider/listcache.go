package provider

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"agentd/internal/base/cache"
	"agentd/internal/kernel/model"
)

const (
	// listedFor is how long an endpoint's list of models is cached, and failedFor how
	// long a failure is.
	listedFor = time.Minute
	failedFor = 10 * time.Second
	// maxModels bounds the models in all cached lists.
	maxModels = 100_000
)

// listKey identifies a list: it may differ for another key or address.
type listKey struct {
	tenant   string // "": with the operator's key, whose list all tenants share
	provider string
	endpoint string
	key      [sha256.Size]byte
}

// modelListing is an endpoint's answer.
type modelListing struct {
	models []model.Listed
	failed string // why, as a sentence; "" if it did not
}

// listCache holds the answers of endpoints. Concurrent callers share one request.
type listCache struct {
	lister model.Lister
	cache  *cache.Cache[listKey, *modelListing]
}

func newLists(lister model.Lister, elapsed func() time.Duration) *listCache {
	return &listCache{lister: lister, cache: cache.New(cache.Options[listKey, *modelListing]{
		Weight: maxModels,
		Weigh:  func(_ listKey, l *modelListing) uint32 { return uint32(len(l.models)) + 10 },
		Lasts: func(l *modelListing) time.Duration {
			if l.failed != "" {
				return failedFor
			}
			return listedFor
		},
		Elapsed: elapsed,
	})}
}

// get returns an endpoint's list, cached or fresh.
func (l *listCache) get(ctx context.Context, tenant string, to model.Target) (*modelListing, error) {
	if !to.OwnKey && !to.Guarded {
		tenant = ""
	}
	key := listKey{tenant, to.Provider, to.BaseURL, sha256.Sum256([]byte(to.APIKey.Reveal()))}
	return l.cache.Load(ctx, key, func(ctx context.Context, _ listKey) (*modelListing, error) {
		// Other callers wait for the same request, so it outlives this one; the port
		// bounds its time.
		models, err := l.lister.ListModels(context.WithoutCancel(ctx), to)
		if e, ok := errors.AsType[*model.Error](err); ok {
			return &modelListing{failed: e.Detail}, nil
		}
		return &modelListing{models: models}, err
	})
}
