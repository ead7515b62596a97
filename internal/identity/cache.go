package identity

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"agentd/internal/authz"
)

const (
	// cacheTime is how long a credential is believed. What another process
	// revokes, suspends or changes takes effect here within this time.
	cacheTime = time.Second
	// cacheSize is how many credentials are kept.
	cacheSize = 50_000
)

type prefix [prefixLen]byte

// cached is a credential with the caller that it makes.
type cached struct {
	Credential
	caller authz.Caller
	noted  atomic.Bool // its use was noted since it was read
}

// cache holds the credentials of keys that are in use. Only keys that exist
// are in it; concurrent readers of one key share one read of the store; a
// credential that is dropped while it is being read is read again.
type cache struct {
	store    Store
	byPrefix *otter.Cache[prefix, *cached]
	byID     *otter.Cache[string, *cached]
	load     otter.Loader[prefix, *cached]
}

func newCache(store Store, elapsed func() time.Duration) *cache {
	c := &cache{store: store, byPrefix: newOtter[prefix](elapsed), byID: newOtter[string](elapsed)}
	c.load = otter.LoaderFunc[prefix, *cached](func(ctx context.Context, p prefix) (*cached, error) {
		return c.keep(c.store.Credential(ctx, string(p[:])))
	})
	return c
}

func newOtter[K comparable](elapsed func() time.Duration) *otter.Cache[K, *cached] {
	return otter.Must(&otter.Options[K, *cached]{
		MaximumSize:      cacheSize,
		ExpiryCalculator: otter.ExpiryWriting[K, *cached](cacheTime),
		Clock:            ticks{elapsed},
		Logger:           &otter.NoopLogger{}, // a failed read is the caller's error
	})
}

// ticks is the cache's clock. It gives no ticks for a background clean-up,
// which the size makes unnecessary.
type ticks struct{ elapsed func() time.Duration }

func (t ticks) NowNano() int64                      { return int64(t.elapsed()) }
func (t ticks) Tick(time.Duration) <-chan time.Time { return nil }

func (c *cache) keep(cred *Credential, err error) (*cached, error) {
	if errors.Is(err, ErrNotFound) {
		return nil, otter.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	k := cred.Key
	return &cached{Credential: *cred, caller: authz.Caller{
		TenantID: k.TenantID, UserID: k.UserID, KeyID: k.KeyID,
		Role: cred.Role, Scopes: k.Scopes, Method: "api_key", Operator: cred.Operator,
	}}, nil
}

// find gives the credential of a key, or ErrNotFound.
func (c *cache) find(ctx context.Context, key RawKey) (*cached, error) {
	got, err := c.byPrefix.Get(ctx, prefix([]byte(key.Prefix())), c.load)
	return got, missing(err)
}

// findByID gives the credential of a tenant's key, or ErrNotFound.
func (c *cache) findByID(ctx context.Context, tenantID, keyID string) (*cached, error) {
	load := func(ctx context.Context, keyID string) (*cached, error) {
		return c.keep(c.store.CredentialByID(ctx, tenantID, keyID))
	}
	got, err := c.byID.Get(ctx, keyID, otter.LoaderFunc[string, *cached](load))
	if err == nil && got.caller.TenantID != tenantID {
		return nil, ErrNotFound
	}
	return got, missing(err)
}

func missing(err error) error {
	if errors.Is(err, otter.ErrNotFound) {
		return ErrNotFound
	}
	return err
}

// drop forgets a key at once.
func (c *cache) drop(keyPrefix, keyID string) {
	c.byPrefix.Invalidate(prefix([]byte(keyPrefix)))
	c.byID.Invalidate(keyID)
}
