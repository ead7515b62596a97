package signin

import (
	"context"
	"errors"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

const (
	// LinkPath is the page to which a one-time link leads.
	LinkPath = SignInPath + "/link"
	// LinkLife is how long a one-time link is valid.
	LinkLife = 15 * time.Minute
	// linkMethod is the method of sessions that a one-time link opened.
	linkMethod = "link"
)

// oneTime signs people in with links that work once: the first owner has neither an
// address nor a provider.
type oneTime struct {
	writer txn.Writer
	store  Store
	tokens tokens
	logins *logins
}

// linked is the member whom a link signs in.
type linked struct {
	TenantID string `json:"tenant_id"`
	UserID   string `json:"user_id"`
}

// NewLink returns the token of a link that signs a member in once, within LinkLife.
// Whoever has it is that member: it is shown to the operator of the machine alone.
func (s *Service) NewLink(ctx context.Context, tenantID, userID string) (string, error) {
	token := newToken()
	return token, s.oneTime.writer.Write(ctx, func(tx txn.Tx) error {
		return s.oneTime.tokens.put(tx, linkToken, token, linked{tenantID, userID}, LinkLife)
	})
}

// OpenLink signs a browser in with the token of a link, which is used up. The cookie is
// that of the session, which is half open if needsFactor. Errors: 400 for a token that is
// unknown, used or expired; 403 for a suspended member.
func (s *Service) OpenLink(
	ctx context.Context, who authz.Caller, token, label string,
) (cookie *route.Cookie, needsFactor bool, err error) {
	var result login
	err = s.oneTime.writer.Write(ctx, func(tx txn.Tx) error {
		var named linked
		if err := s.oneTime.tokens.take(tx, linkToken, token, &named); err != nil {
			return err
		}
		m, err := s.oneTime.store.GetMembershipTx(tx, named.TenantID, named.UserID)
		if errors.Is(err, ErrNotFound) {
			return invalidToken(linkToken)
		}
		if err != nil {
			return err
		}
		if err := suspended(m); err != nil {
			return err
		}
		result, err = s.oneTime.logins.openSession(tx, authenticated{who: who, method: linkMethod, label: label}, m)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return identity.SessionCookie(result.raw), result.session.NeedsFactor, nil
}
