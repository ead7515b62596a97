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
	// listedFor is how long an endpoint's list of models is believed, and
	// failedFor how long it is not asked again after it gave none.
	listedFor = time.Minute
	failedFor = 10 * time.Second
	// maxModels bounds the models of all lists that are held.
	maxModels = 100_000
)

// listKey says whose list it is: of another key, or at another address, it may
// be another.
type listKey struct {
	tenant   string // "": with the operator's key, which is the same for everybody
	provider string
	endpoint string
	key      [sha256.Size]byte
}

// modelListing is what an endpoint answered.
type modelListing struct {
	models []model.Listed
	failed string // a sentence; "": it did not
}

// listCache holds what endpoints answered. Callers that come at once share one
// question.
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

// get asks an endpoint, unless somebody did lately.
func (l *listCache) get(ctx context.Context, tenant string, to model.Target) (*modelListing, error) {
	if !to.OwnKey && !to.Guarded {
		tenant = ""
	}
	key := listKey{tenant, to.Provider, to.BaseURL, sha256.Sum256([]byte(to.APIKey.Reveal()))}
	return l.cache.Load(ctx, key, func(ctx context.Context, _ listKey) (*modelListing, error) {
		// Others wait for it too. It ends by itself: the port bounds it.
		models, err := l.lister.ListModels(context.WithoutCancel(ctx), to)
		if e, ok := errors.AsType[*model.Error](err); ok {
			return &modelListing{failed: e.Detail}, nil
		}
		return &modelListing{models: models}, err
	})
}
