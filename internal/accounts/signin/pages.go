package signin

import (
	"context"
	"regexp"
	"strings"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// The rate limits of the pages: those of the operations that they stand for.
var (
	CodeLimits     = codeLimits
	GuessLimits    = guessLimits
	RegisterLimits = registerLimits
)

// Cookies that the pages hand back: each binds what was emailed to the browser that
// requested it.
const (
	AttemptCookie  = attemptCookie
	RegisterCookie = registerCookie
)

// Ways are the ways in which people can sign in here.
type Ways struct {
	Mail      bool // with a code by email
	Signup    bool // people without a company may create one
	Providers []OAuthProvider
}

// Any reports whether there is a way.
func (w Ways) Any() bool { return w.Mail || len(w.Providers) > 0 }

// Ways returns the ways in which people can sign in.
func (s *Service) Ways() Ways {
	return Ways{Mail: s.codes.outbox.Configured(), Signup: s.codes.signupOn(), Providers: s.oauth.providers.shown()}
}

// StartPath returns the path that begins a sign-in with a provider.
func (p OAuthProvider) StartPath() string { return oauthPath + "/" + p.ID + "/start" }

// RequestCode is POST /auth/request-code for a page. The cookie binds the code to the
// browser.
func (s *Service) RequestCode(ctx context.Context, email string, terms bool) (*route.Cookie, error) {
	in := &requestCodeIn{}
	in.Body.Email, in.Body.AcceptTerms, in.Body.AcceptPrivacy = email, terms, terms
	reply, err := s.codes.requestCode(ctx, authz.Caller{}, in)
	if err != nil {
		return nil, err
	}
	return reply.Cookie, nil
}

// CodeEntry is a code that a person entered on a page.
type CodeEntry struct {
	Email   string
	Code    string
	Attempt string // from the cookie
	Label   string // of the device
	Terms   bool
}

// EnterCode is POST /auth/verify-code for a page: no key is made. The cookie is that of
// the session, which is half open if needsFactor.
func (s *Service) EnterCode(ctx context.Context, who authz.Caller, c CodeEntry) (cookie *route.Cookie, needsFactor bool, err error) {
	in := &verifyCodeIn{Browser: c.Attempt}
	in.Body.Email, in.Body.Code, in.Body.DeviceLabel, in.Body.CookieOnly = c.Email, c.Code, c.Label, true
	in.Body.AcceptTerms, in.Body.AcceptPrivacy = c.Terms, c.Terms
	result, err := s.codes.enter(ctx, who, in)
	if err != nil {
		return nil, false, err
	}
	return identity.SessionCookie(result.raw), result.session.NeedsFactor, nil
}

var sixDigits = regexp.MustCompile(`^[0-9]{6}$`)

// EnterFactor verifies the second factor of the caller's session: with six digits as
// POST /auth/mfa/verify, with anything else as POST /auth/mfa/recovery.
func (s *Service) EnterFactor(ctx context.Context, who authz.Caller, code string) error {
	proof := factorProof{recovery: code}
	if digits := strings.Map(dropSpace, code); sixDigits.MatchString(digits) {
		proof = factorProof{totp: digits}
	}
	_, err := s.factors.verified(ctx, who, proof)
	return err
}

// Registration is what a person who signs up enters on a page.
type Registration struct {
	Email string
	Name  string // of the company
	Terms bool
}

// Register is POST /register for a page. The cookie binds the emailed link to the
// browser.
func (s *Service) Register(ctx context.Context, r Registration) (*route.Cookie, error) {
	in := &registerIn{}
	in.Body.Email, in.Body.Name, in.Body.AcceptTerms, in.Body.AcceptPrivacy = r.Email, r.Name, r.Terms, r.Terms
	reply, err := s.registrations.register(ctx, authz.Caller{}, in)
	if err != nil {
		return nil, err
	}
	return reply.Cookie, nil
}

// CompleteRegistration is GET /verify-email for a page: no key is made. The cookie is
// that of the session, nil in a browser other than the one that registered.
func (s *Service) CompleteRegistration(ctx context.Context, who authz.Caller, token, browser string) (*route.Cookie, error) {
	reply, err := s.registrations.verifyEmail(ctx, who, &verifyEmailIn{Token: token, Browser: browser, CookieOnly: true})
	if err != nil {
		return nil, err
	}
	return reply.Cookie, nil
}
