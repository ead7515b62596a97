package identity

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
)

// Authenticator authenticates API keys, browser sessions and stream tokens.
type Authenticator struct {
	clock clock.Clock
	cache *credentials
	uses  *useRecorder
	hint  func(string) // nil: no other node
	box   *secret.Box  // seals stream tokens
}

func newAuthenticator(cfg Config) *Authenticator {
	a := &Authenticator{clock: cfg.Clock, hint: cfg.Hint, box: streamBox(cfg.Box), cache: newCredentials(cfg.Store, cfg.Elapsed)}
	a.uses = newUseRecorder(func(ctx context.Context, uses []Use) error {
		return cfg.DB.Write(ctx, func(tx txn.Tx) error { return cfg.Store.RecordUseTx(tx, uses) })
	}, cfg.Log)
	return a
}

// Start begins to record when keys and sessions are used, in the background.
func (a *Authenticator) Start() { a.uses.start() }

// Stop stores the uses that are not recorded yet, and ends.
func (a *Authenticator) Stop() { a.uses.stop() }

// Unauthenticated is the one error for every credential that does not
// authenticate, so that it does not reveal which keys exist.
func Unauthenticated() *fault.Error {
	return fault.New(fault.Unauthenticated, "",
		"The request has no valid credential: send an API key that is neither revoked nor expired as Authorization: Bearer, or "+
			"sign in to get the cookie svc_session.")
}

// Authenticate returns the caller to whom a key or a stream token belongs.
// Errors: Unauthenticated for any other text; TENANT_SUSPENDED and
// MEMBER_SUSPENDED, both 403, for one whose holder is suspended;
// fault.Unavailable where the store cannot be read. With an error about a known key
// it returns the caller too, for the audit log.
func (a *Authenticator) Authenticate(ctx context.Context, raw string) (authz.Caller, error) {
	if sealed, ok := cutStreamToken(raw); ok {
		return a.streamCaller(ctx, sealed)
	}
	key, ok := ParseRawKey(raw)
	if !ok {
		return authz.Caller{}, Unauthenticated()
	}
	cred, err := a.cache.key(ctx, key)
	if err != nil {
		return authz.Caller{}, unknown(err)
	}
	hash := key.Hash()
	if subtle.ConstantTimeCompare(hash[:], cred.hash[:]) != 1 {
		return authz.Caller{}, Unauthenticated()
	}
	now := a.clock.Now()
	if err := cred.check(now); err != nil {
		return cred.caller, err
	}
	a.noteUse(cred, now, false)
	return cred.caller, nil
}

// AuthenticateSession returns the caller whose browser holds a session token.
// If renew is not 0, the cookie is due to be sent to the browser again, with
// that lifetime. A session that still needs its second factor authenticates
// too; the caller's HalfOpen is set then. Errors: as Authenticate.
func (a *Authenticator) AuthenticateSession(ctx context.Context, token string) (who authz.Caller, renew time.Duration, err error) {
	raw, ok := ParseRawSession(token)
	if !ok {
		return authz.Caller{}, 0, Unauthenticated()
	}
	cred, err := a.cache.session(ctx, raw)
	if err != nil {
		return authz.Caller{}, 0, unknown(err)
	}
	hash := raw.Hash()
	if subtle.ConstantTimeCompare(hash[:], cred.hash[:]) != 1 {
		return authz.Caller{}, 0, Unauthenticated()
	}
	now := a.clock.Now()
	if err := cred.check(now); err != nil {
		return cred.caller, 0, err
	}
	due := now.Sub(cred.renewed) >= renewEvery
	if a.noteUse(cred, now, due) && due {
		renew = SessionWindow
	}
	return cred.caller, renew, nil
}

// noteUse records the use of a credential unless its last known use is less
// than useGrain ago, and reports whether it did.
func (a *Authenticator) noteUse(cred *cached, now time.Time, renewed bool) bool {
	if now.Sub(cred.used) < useGrain || cred.noted.Swap(true) {
		return false
	}
	a.uses.note(Use{
		TenantID: cred.caller.TenantID, KeyID: cred.caller.KeyID, SessionID: cred.caller.SessionID, At: now, Renewed: renewed,
	})
	return true
}

// Valid checks again the credential of a caller who was authenticated before,
// for a stream that stays open. A stream token is checked by the credential it
// was created with. Errors: as Authenticate.
func (a *Authenticator) Valid(ctx context.Context, who authz.Caller) error {
	_, err := a.credentialOf(ctx, who)
	return err
}

// credentialOf returns the credential with which a caller was authenticated, if
// it is still valid.
func (a *Authenticator) credentialOf(ctx context.Context, who authz.Caller) (*cached, error) {
	cred, err := a.cache.byID(ctx, who.TenantID, who.KeyID, who.SessionID)
	if err != nil {
		return nil, unknown(err)
	}
	if cred.caller.UserID != who.UserID {
		return nil, Unauthenticated()
	}
	return cred, cred.check(a.clock.Now())
}

func unknown(err error) error {
	if errors.Is(err, ErrNotFound) {
		return Unauthenticated()
	}
	return err
}

// check returns an error unless the credential, whose secret matched, is valid
// and its holder is active.
func (c *cached) check(now time.Time) error {
	switch {
	case c.ended, c.MemberStatus == Deleted, !c.expires.IsZero() && !now.Before(c.expires):
		return Unauthenticated()
	case c.TenantStatus != Active:
		return fault.New(fault.Forbidden, "TENANT_SUSPENDED", "This company is suspended; its operator can reactivate it.")
	case c.MemberStatus != Active:
		return fault.New(fault.Forbidden, "MEMBER_SUSPENDED", "The holder of this key is suspended; an admin of the company can unsuspend them.")
	}
	return nil
}
