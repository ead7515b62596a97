package identity

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/cache"
)

const (
	// cacheTime is how long a credential is cached. What another process
	// revokes, suspends or changes takes effect here within this time.
	cacheTime = time.Second
	// cacheSize is the maximum number of cached credentials.
	cacheSize = 50_000
)

// Prefixes by which credentials are looked up. They are arrays, because a
// substring of the raw credential as a map key would keep all of it in memory.
type (
	prefix        [prefixLen]byte
	sessionPrefix [sessionPrefixLen]byte
)

// cached is a credential with the caller that it authenticates.
type cached struct {
	Holder
	hash    Hash
	caller  authz.Caller
	ended   bool
	expires time.Time // zero: never
	used    time.Time // the last known use
	renewed time.Time // of a session: when its cookie was last sent
	epoch   uint64    // of the cache, before the store was read
	noted   atomic.Bool
}

// credentials caches the credentials in use. It holds only existing ones;
// concurrent readers of one share one read of the store; one that is
// invalidated while it is being read is read again.
type credentials struct {
	store    Store
	epoch    atomic.Uint64 // entries of an earlier epoch are invalid
	keys     *credentialCache[prefix]
	sessions *credentialCache[sessionPrefix]
	ids      *credentialCache[string] // keys and sessions

	loadKey     func(context.Context, prefix) (*cached, error)
	loadSession func(context.Context, sessionPrefix) (*cached, error)
}

func newCredentials(store Store, elapsed func() time.Duration) *credentials {
	c := &credentials{
		store: store, keys: newCredentialCache[prefix](elapsed),
		sessions: newCredentialCache[sessionPrefix](elapsed), ids: newCredentialCache[string](elapsed),
	}
	c.loadKey = func(ctx context.Context, p prefix) (*cached, error) {
		epoch := c.epoch.Load()
		cred, err := store.GetCredential(ctx, string(p[:]))
		if !errors.Is(err, ErrNotFound) {
			return cachedAt(epoch, cred, err)
		}
		session, err := store.GetSessionCredentialByKey(ctx, string(p[:]))
		got, err := cachedAt(epoch, session, err)
		if err == nil {
			got.caller.Method = sessionKeyMethod
		}
		return got, err
	}
	c.loadSession = func(ctx context.Context, p sessionPrefix) (*cached, error) {
		epoch := c.epoch.Load()
		cred, err := store.GetSessionCredential(ctx, string(p[:]))
		return cachedAt(epoch, cred, err)
	}
	return c
}

// sessionKeyMethod is how a caller with the key of a session was authenticated.
const sessionKeyMethod = "session_key"

// credentialCache caches credentials by one kind of lookup key.
type credentialCache[K comparable] = cache.Cache[K, *cached]

func newCredentialCache[K comparable](elapsed func() time.Duration) *credentialCache[K] {
	return cache.New(cache.Options[K, *cached]{Most: cacheSize, Lasts: cache.For[*cached](cacheTime), Elapsed: elapsed})
}

// entry is a stored credential that can be cached.
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
	got := &cached{
		Holder: c.Holder, hash: c.Hash, ended: !s.EndedAt.IsZero(), expires: s.ExpiresAt(), used: s.LastUsedAt, renewed: s.RenewedAt,
		caller: authz.Caller{
			TenantID: s.TenantID, UserID: s.UserID, SessionID: s.SessionID,
			Role: c.Role, Scopes: authz.ScopesOf(c.Role), Method: "cookie", Operator: c.Operator,
			VerifiedAt: s.VerifiedAt, HalfOpen: s.NeedsFactor,
		},
	}
	if s.KeyID != "" {
		got.caller.OfKey, got.caller.Scopes = true, c.Key.Scopes
		got.ended = got.ended || c.Key.Status != Active
		if !c.Key.ExpiresAt.IsZero() && c.Key.ExpiresAt.Before(got.expires) {
			got.expires = c.Key.ExpiresAt
		}
	}
	return got
}

func cachedAt(epoch uint64, cred entry, err error) (*cached, error) {
	if err != nil {
		return nil, err
	}
	c := cred.cached()
	c.epoch = epoch
	return c, nil
}

// key returns the credential of a key, or ErrNotFound.
func (c *credentials) key(ctx context.Context, raw RawKey) (*cached, error) {
	return find(ctx, c, c.keys, prefix([]byte(raw.Prefix())), c.loadKey)
}

// session returns the credential of a session, or ErrNotFound.
func (c *credentials) session(ctx context.Context, raw RawSession) (*cached, error) {
	return find(ctx, c, c.sessions, sessionPrefix([]byte(raw.Prefix())), c.loadSession)
}

// byID returns a credential of a tenant by the ID of its key or its session, or
// ErrNotFound.
func (c *credentials) byID(ctx context.Context, tenantID, keyID, sessionID string) (*cached, error) {
	id := keyID + sessionID // one of them is empty
	got, err := find(ctx, c, c.ids, id, func(ctx context.Context, id string) (*cached, error) {
		epoch := c.epoch.Load()
		if sessionID != "" {
			cred, err := c.store.GetSessionCredentialByID(ctx, tenantID, id)
			return cachedAt(epoch, cred, err)
		}
		cred, err := c.store.GetCredentialByID(ctx, tenantID, id)
		return cachedAt(epoch, cred, err)
	})
	if err == nil && (got.caller.TenantID != tenantID || got.caller.KeyID != keyID || got.caller.SessionID != sessionID) {
		return nil, ErrNotFound
	}
	return got, err
}

func find[K comparable](
	ctx context.Context, c *credentials, in *credentialCache[K], k K, load func(context.Context, K) (*cached, error),
) (*cached, error) {
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
	return load(ctx, k) // the cache is invalidated faster than it can be read
}

// invalidate drops a key or a session. It ignores a prefix of another length:
// the hint was garbled then.
func (c *credentials) invalidate(kind, lookup, id string) {
	switch {
	case kind == keyKind && len(lookup) == prefixLen:
		c.keys.Drop(prefix([]byte(lookup)))
	case kind == sessionKind && len(lookup) == sessionPrefixLen:
		c.sessions.Drop(sessionPrefix([]byte(lookup)))
	default:
		return
	}
	c.ids.Drop(id)
}

// invalidateAll drops everything, including what is being read at the moment.
func (c *credentials) invalidateAll() { c.epoch.Add(1) }
