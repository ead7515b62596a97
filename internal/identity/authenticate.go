package identity

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"agentd/internal/authz"
	"agentd/internal/fault"
)

// Unauthenticated is the one refusal of everything that does not authenticate,
// so that it tells nothing about which keys exist (interface.md section 5).
func Unauthenticated() *fault.Error {
	return fault.New(fault.Unauthenticated, "",
		"No valid credential came with this request: send an API key that is neither revoked nor expired as Authorization: Bearer, or sign in for the cookie svc_session.")
}

// Authenticate gives the caller to whom a key belongs. Errors: Unauthenticated
// for whatever is no valid key; TENANT_SUSPENDED and MEMBER_SUSPENDED, both
// 403, for one whose holder is locked out; fault.Unavailable where the store
// cannot be asked.
func (s *Service) Authenticate(ctx context.Context, raw string) (authz.Caller, error) {
	key, ok := ParseRawKey(raw)
	if !ok {
		return authz.Caller{}, Unauthenticated()
	}
	cred, err := s.cache.find(ctx, key)
	if err != nil {
		return authz.Caller{}, unknown(err)
	}
	hash := key.Hash()
	if subtle.ConstantTimeCompare(hash[:], cred.Hash[:]) != 1 {
		return authz.Caller{}, Unauthenticated()
	}
	now := s.clock.Now()
	if err := cred.check(now); err != nil {
		return authz.Caller{}, err
	}
	if now.Sub(cred.Key.LastUsedAt) >= useGrain && !cred.noted.Swap(true) {
		s.uses.note(Use{TenantID: cred.caller.TenantID, KeyID: cred.caller.KeyID, At: now})
	}
	return cred.caller, nil
}

// Valid looks again at the key of a caller who was authenticated before, for a
// stream that stays open. Errors: as Authenticate.
func (s *Service) Valid(ctx context.Context, who authz.Caller) error {
	cred, err := s.cache.findByID(ctx, who.TenantID, who.KeyID)
	if err != nil {
		return unknown(err)
	}
	return cred.check(s.clock.Now())
}

func unknown(err error) error {
	if errors.Is(err, ErrNotFound) {
		return Unauthenticated()
	}
	return err
}

// check says whether the credential, whose secret was shown, lets in.
func (c *Credential) check(now time.Time) error {
	switch {
	case c.Key.Status != Active, c.MemberStatus == Deleted, !c.Key.ExpiresAt.IsZero() && !now.Before(c.Key.ExpiresAt):
		return Unauthenticated()
	case c.TenantStatus != Active:
		return fault.New(fault.Forbidden, "TENANT_SUSPENDED", "This company is suspended; its operator can lift that.")
	case c.MemberStatus != Active:
		return fault.New(fault.Forbidden, "MEMBER_SUSPENDED", "The holder of this key is suspended; an admin of the company can lift that.")
	}
	return nil
}
