package identity

import (
	"context"
	"sync/atomic"
	"time"

	"agentd/internal/base/cache"

	"agentd/internal/base/authz"
)

const (
	// cacheTime is how long a credential is believed. What another process
	// revokes, suspends or changes takes effect here within this time.
	cacheTime = time.Second
	// cacheSize is how many credentials are kept.
	cacheSize = 50_000
)

// By what credentials are found. Arrays, because a part of the raw credential
// as a map's key would keep the whole of it in memory.
type (
	prefix        [prefixLen]byte
	sessionPrefix [sessionPrefixLen]byte
)

// cached is a credential with the caller that it makes.
type cached struct {
	Holder
	hash    Hash
	caller  authz.Caller
	ended   bool
	expires time.Time // zero: never
	used    time.Time // as far as was known
	renewed time.Time // of a session: when its cookie was last sent
	epoch   uint64    // of the cache, before it was read
	noted   atomic.Bool
}

// credentials holds those that are in use. Only those that exist are in
// it; concurrent readers of one share one read of the store; one that is
// dropped while it is being read is read again.
type credentials struct {
	store    Store
	epoch    atomic.Uint64 // what was read in an earlier one does not count
	keys     *shelf[prefix]
	sessions *shelf[sessionPrefix]
	ids      *shelf[string] // keys and sessions

	loadKey     func(context.Context, prefix) (*cached, error)
	loadSession func(context.Context, sessionPrefix) (*cached, error)
}

func newCredentials(store Store, elapsed func() time.Duration) *credentials {
	c := &credentials{
		store: store, keys: newShelf[prefix](elapsed), sessions: newShelf[sessionPrefix](elapsed), ids: newShelf[string](elapsed),
	}
	c.loadKey = func(ctx context.Context, p prefix) (*cached, error) {
		epoch := c.epoch.Load()
		cred, err := store.GetCredential(ctx, string(p[:]))
		return keep(epoch, cred, err)
	}
	c.loadSession = func(ctx context.Context, p sessionPrefix) (*cached, error) {
		epoch := c.epoch.Load()
		cred, err := store.GetSessionCredential(ctx, string(p[:]))
		return keep(epoch, cred, err)
	}
	return c
}

// shelf has credentials by one kind of key.
type shelf[K comparable] = cache.Cache[K, *cached]

func newShelf[K comparable](elapsed func() time.Duration) *shelf[K] {
	return cache.New(cache.Options[K, *cached]{Most: cacheSize, Lasts: cache.For[*cached](cacheTime), Elapsed: elapsed})
}

// entry is what a credential is cached as.
type entry interface{ cached() *cached }

func (c *Credential) cached() *cached {
	k := c.Key
	return &cached{
		Holder: c.Holder, hash: c.Hash, ended: k.Status != Active, expires: k.ExpiresAt, used: k.LastUsedAt,
		caller: authz.Caller{
			TenantID: k.TenantID, UserID: k.UserID, KeyID: k.KeyID,
			Role: c.Role, Scopes: k.Scopes, Method: "api_key", Operator: c.Operator,
		},
	}
}

func (c *SessionCredential) cached() *cached {
	s := c.Session
	return &cached{
		Holder: c.Holder, hash: c.Hash, ended: !s.EndedAt.IsZero(), expires: s.ExpiresAt(), used: s.LastUsedAt, renewed: s.RenewedAt,
		caller: authz.Caller{
			TenantID: s.TenantID, UserID: s.UserID, SessionID: s.SessionID,
			Role: c.Role, Scopes: authz.ScopesOf(c.Role), Method: "cookie", Operator: c.Operator,
			VerifiedAt: s.VerifiedAt, HalfOpen: s.NeedsFactor,
		},
	}
}

func keep(epoch uint64, cred entry, err error) (*cached, error) {
	if err != nil {
		return nil, err
	}
	got := cred.cached()
	got.epoch = epoch
	return got, nil
}

// key gives the credential of a key, or ErrNotFound.
func (c *credentials) key(ctx context.Context, raw RawKey) (*cached, error) {
	return find(ctx, c, c.keys, prefix([]byte(raw.Prefix())), c.loadKey)
}

// session gives the credential of a session, or ErrNotFound.
func (c *credentials) session(ctx context.Context, raw RawSession) (*cached, error) {
	return find(ctx, c, c.sessions, sessionPrefix([]byte(raw.Prefix())), c.loadSession)
}

// byID gives the credential that a caller of that tenant came with, or
// ErrNotFound.
func (c *credentials) byID(ctx context.Context, tenantID, keyID, sessionID string) (*cached, error) {
	id := keyID + sessionID // one of them
	got, err := find(ctx, c, c.ids, id, func(ctx context.Context, id string) (*cached, error) {
		epoch := c.epoch.Load()
		if sessionID != "" {
			cred, err := c.store.GetSessionCredentialByID(ctx, tenantID, id)
			return keep(epoch, cred, err)
		}
		cred, err := c.store.GetCredentialByID(ctx, tenantID, id)
		return keep(epoch, cred, err)
	})
	if err == nil && (got.caller.TenantID != tenantID || got.caller.KeyID != keyID || got.caller.SessionID != sessionID) {
		return nil, ErrNotFound
	}
	return got, err
}

func find[K comparable](ctx context.Context, c *credentials, in *shelf[K], k K, load func(context.Context, K) (*cached, error)) (*cached, error) {
	for range 3 {
		epoch := c.epoch.Load()
		got, err := in.Load(ctx, k, load)
		if err != nil {
			return nil, err
		}
		if got.epoch >= epoch {
			return got, nil
		}
		in.Drop(k)
	}
	return load(ctx, k) // others forget all the time
}

// drop forgets a key or a session at once. What has no prefix of that kind is
// a hint that was garbled, and ignored.
func (c *credentials) drop(kind, findBy, id string) {
	switch {
	case kind == keyKind && len(findBy) == prefixLen:
		c.keys.Drop(prefix([]byte(findBy)))
	case kind == sessionKind && len(findBy) == sessionPrefixLen:
		c.sessions.Drop(sessionPrefix([]byte(findBy)))
	default:
		return
	}
	c.ids.Drop(id)
}

// forget drops everything at once, also what is being read at the moment.
func (c *credentials) forget() { c.epoch.Add(1) }
