package identity

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
)

// Unauthenticated is the one refusal of everything that does not authenticate,
// so that it tells nothing about which keys exist (interface.md section 5).
func Unauthenticated() *fault.Error {
	return fault.New(fault.Unauthenticated, "",
		"No valid credential came with this request: send an API key that is neither revoked nor expired as Authorization: Bearer, or sign in for the cookie svc_session.")
}

// Authenticate gives the caller to whom a key or a stream token belongs.
// Errors: Unauthenticated for whatever is neither; TENANT_SUSPENDED and
// MEMBER_SUSPENDED, both 403, for one whose holder is locked out;
// fault.Unavailable where the store cannot be asked.
func (s *Service) Authenticate(ctx context.Context, raw string) (authz.Caller, error) {
	if sealed, ok := cutStreamToken(raw); ok {
		return s.streamCaller(ctx, sealed)
	}
	key, ok := ParseRawKey(raw)
	if !ok {
		return authz.Caller{}, Unauthenticated()
	}
	cred, err := s.cache.key(ctx, key)
	if err != nil {
		return authz.Caller{}, unknown(err)
	}
	hash := key.Hash()
	if subtle.ConstantTimeCompare(hash[:], cred.hash[:]) != 1 {
		return authz.Caller{}, Unauthenticated()
	}
	now := s.clock.Now()
	if err := cred.check(now); err != nil {
		return authz.Caller{}, err
	}
	s.note(cred, now, false)
	return cred.caller, nil
}

// AuthenticateSession gives the caller whose browser holds a session token. If
// renew is not 0, the browser is to be sent the cookie again, to last so long.
// Errors: as Authenticate. Whether the session is whole the caller says
// (HalfOpen).
func (s *Service) AuthenticateSession(ctx context.Context, token string) (who authz.Caller, renew time.Duration, err error) {
	raw, ok := ParseRawSession(token)
	if !ok {
		return authz.Caller{}, 0, Unauthenticated()
	}
	cred, err := s.cache.session(ctx, raw)
	if err != nil {
		return authz.Caller{}, 0, unknown(err)
	}
	hash := raw.Hash()
	if subtle.ConstantTimeCompare(hash[:], cred.hash[:]) != 1 {
		return authz.Caller{}, 0, Unauthenticated()
	}
	now := s.clock.Now()
	if err := cred.check(now); err != nil {
		return authz.Caller{}, 0, err
	}
	due := now.Sub(cred.renewed) >= renewEvery
	if s.note(cred, now, due) && due {
		renew = SessionWindow
	}
	return cred.caller, renew, nil
}

// note takes the use of a credential, if the last one that is known is long
// ago, and says whether it did.
func (s *Service) note(cred *cached, now time.Time, renewed bool) bool {
	if now.Sub(cred.used) < useGrain || cred.noted.Swap(true) {
		return false
	}
	s.uses.note(Use{
		TenantID: cred.caller.TenantID, KeyID: cred.caller.KeyID, SessionID: cred.caller.SessionID, At: now, Renewed: renewed,
	})
	return true
}

// Valid looks again at the credential of a caller who was authenticated
// before, for a stream that stays open: a stream token by what it was made
// with. Errors: as Authenticate.
func (s *Service) Valid(ctx context.Context, who authz.Caller) error {
	_, err := s.again(ctx, who)
	return err
}

// again finds what a caller came with.
func (s *Service) again(ctx context.Context, who authz.Caller) (*cached, error) {
	cred, err := s.cache.byID(ctx, who.TenantID, who.KeyID, who.SessionID)
	if err != nil {
		return nil, unknown(err)
	}
	if cred.caller.UserID != who.UserID {
		return nil, Unauthenticated()
	}
	return cred, cred.check(s.clock.Now())
}

func unknown(err error) error {
	if errors.Is(err, ErrNotFound) {
		return Unauthenticated()
	}
	return err
}

// check says whether the credential, whose secret was shown, lets in.
func (c *cached) check(now time.Time) error {
	switch {
	case c.ended, c.MemberStatus == Deleted, !c.expires.IsZero() && !now.Before(c.expires):
		return Unauthenticated()
	case c.TenantStatus != Active:
		return fault.New(fault.Forbidden, "TENANT_SUSPENDED", "This company is suspended; its operator can lift that.")
	case c.MemberStatus != Active:
		return fault.New(fault.Forbidden, "MEMBER_SUSPENDED", "The holder of this key is suspended; an admin of the company can lift that.")
	}
	return nil
}
