package signin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

const (
	// Failed is the code of what goes wrong between a provider and us.
	Failed = "OAUTH_FAILED"

	oauthPath   = "/api/v1/auth/oauth"
	oauthCookie = "svc_oauth"
	flowLife    = 10 * time.Minute
	appLife     = time.Minute
)

// flow is a sign-in that is on its way through a provider.
type flow struct {
	Provider  string `json:"provider"`
	Nonce     string `json:"nonce"`
	Verifier  string `json:"verifier"`
	Browser   []byte `json:"browser"`            // hash of the cookie of the browser that began it
	ReturnTo  string `json:"return_to,omitzero"` // an address of ours
	Label     string `json:"label,omitzero"`     // of the device
	Challenge string `json:"challenge,omitzero"` // of the app that gets the session
	Terms     bool   `json:"terms,omitzero"`
}

// handover is a person who signed in for an app, which has yet to come.
type handover struct {
	TenantID  string `json:"tenant_id"`
	UserID    string `json:"user_id"`
	Provider  string `json:"provider"`
	Label     string `json:"label,omitzero"`
	Challenge string `json:"challenge"`
}

// OAuthProvider is a provider as people choose among them.
type OAuthProvider struct {
	_ struct{} `json:"-" name:"OAuthProvider"`

	ID      string `json:"id" required:"true"`
	Name    string `json:"name" required:"true"`
	Enabled bool   `json:"enabled" required:"true"`
}

// OAuthProviders answers GET /auth/oauth/providers.
type OAuthProviders struct {
	_ struct{} `json:"-" name:"OAuthProviders"`

	Providers []OAuthProvider `json:"providers" required:"true"`
}

func (s *Service) oauthProviders(context.Context, authz.Caller, *nothing) (OAuthProviders, error) {
	out := OAuthProviders{Providers: []OAuthProvider{}}
	for _, p := range s.Providers {
		out.Providers = append(out.Providers, OAuthProvider{ID: p.ID, Name: p.Name, Enabled: true})
	}
	return out, nil
}

func (s *Service) provider(id string) (ConfiguredProvider, error) {
	for _, p := range s.Providers {
		if p.ID == id {
			return p, nil
		}
	}
	return ConfiguredProvider{}, fault.New(fault.NotFound, "", "This deployment knows no sign-in provider of that name; GET %s/providers lists them.", oauthPath)
}

func (s *Service) grant(p ConfiguredProvider, f flow, state string) Grant {
	return Grant{Redirect: s.Public() + oauthPath + "/" + p.ID + "/callback", State: state, Nonce: f.Nonce, Verifier: f.Verifier}
}

type oauthStartIn struct {
	Provider      string `path:"provider"`
	ReturnTo      string `query:"return_to" maxLength:"2000" doc:"A page of this service to go to afterwards: a path, or an address below its own. Anything else is dropped."`
	DeviceLabel   string `query:"device_label" maxLength:"80" doc:"A name for the list of signed-in devices."`
	AppChallenge  string `query:"app_code_challenge" maxLength:"200" doc:"Of an app that opened this browser: base64url of the SHA-256 of its code_verifier. The app gets the session, not the browser."`
	AcceptTerms   bool   `query:"accept_terms" doc:"Needed for the first sign-up."`
	AcceptPrivacy bool   `query:"accept_privacy" doc:"The same."`
}

var challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// oauthStart sends a browser to a provider.
func (s *Service) oauthStart(ctx context.Context, _ authz.Caller, in *oauthStartIn) (*route.Reply, error) {
	p, err := s.provider(in.Provider)
	if err != nil {
		return nil, err
	}
	if in.AppChallenge != "" && !challengeForm.MatchString(in.AppChallenge) {
		return nil, fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter app_code_challenge must be the base64url of a SHA-256: 43 characters.")
	}
	state, browser := newTicket(), newTicket()
	f := flow{
		Provider: p.ID, Nonce: newTicket(), Verifier: newTicket(), Browser: hashTicket(browser),
		ReturnTo: s.ownAddress(in.ReturnTo), Label: in.DeviceLabel, Challenge: in.AppChallenge, Terms: in.AcceptTerms && in.AcceptPrivacy,
	}
	to, err := p.Port.Start(ctx, s.grant(p, f, state))
	if err != nil {
		return nil, err
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Store.DeleteExpiredTx(tx, s.Clock.Now(), 50); err != nil {
			return err
		}
		return s.leave(tx, oauthTicket, state, f, flowLife)
	})
	if err != nil {
		return nil, err
	}
	return &route.Reply{Location: to, Cookie: &route.Cookie{Name: oauthCookie, Value: browser, Lasts: flowLife}}, nil
}

// ownAddress gives an address of this service as a whole one, and "" for any
// other: whoever signs in must not be sent on to a stranger.
func (s *Service) ownAddress(to string) string {
	own, err := url.Parse(s.Public())
	if err != nil || to == "" || strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }) {
		return ""
	}
	at, err := url.Parse(to)
	if err != nil || at.User != nil || at.Opaque != "" {
		return ""
	}
	path := at.Scheme == "" && at.Host == "" && strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//")
	if !path && (at.Scheme != own.Scheme || !strings.EqualFold(at.Host, own.Host)) {
		return ""
	}
	at.Scheme, at.Host, at.Fragment, at.RawFragment = own.Scheme, own.Host, "", ""
	return at.String()
}

type oauthCallbackIn struct {
	Provider string `path:"provider"`
	Code     string `query:"code" maxLength:"4000" doc:"From the provider."`
	State    string `query:"state" maxLength:"200" doc:"From the provider, as it was sent there."`
	Error    string `query:"error" maxLength:"200" doc:"From the provider, in place of a code."`
	Issuer   string `query:"iss" maxLength:"2000" doc:"From the provider (RFC 9207)."`
	Browser  string `cookie:"svc_oauth"`
}

// AppCode answers the callback of a sign-in for an app that named no return_to.
type AppCode struct {
	_ struct{} `json:"-" name:"AppCode"`

	Code string `json:"code" required:"true" doc:"To be traded at POST /auth/oauth/exchange within a minute."`
}

// oauthCallback takes a browser back from a provider.
func (s *Service) oauthCallback(ctx context.Context, who authz.Caller, in *oauthCallbackIn) (*route.Reply, error) {
	p, err := s.provider(in.Provider)
	if err != nil {
		return nil, err
	}
	var f flow
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		f = flow{}
		return s.take(tx, oauthTicket, in.State, &f)
	})
	switch {
	case err != nil:
		return nil, err
	case f.Provider != p.ID, in.Issuer != "" && in.Issuer != p.Issuer,
		// Whoever is sent a link of somebody else's flow must not be signed in as them.
		subtle.ConstantTimeCompare(hashTicket(in.Browser), f.Browser) != 1:
		return nil, badTicket(oauthTicket)
	case in.Error != "":
		return refusedByProvider(p, f, in.Error)
	case in.Code == "":
		return nil, fault.New(fault.Malformed, Failed, "The provider sent no code.")
	}
	claims, err := p.Port.Finish(ctx, s.grant(p, f, in.State), in.Code)
	if err != nil {
		return nil, err
	}
	return s.arrive(ctx, who, p, f, claims)
}

var errorWord = regexp.MustCompile(`^[a-z_]{1,60}$`)

// refusedByProvider goes back with the provider's refusal: mostly that the
// person changed their mind.
func refusedByProvider(p ConfiguredProvider, f flow, why string) (*route.Reply, error) {
	if !errorWord.MatchString(why) {
		why = "server_error"
	}
	if f.ReturnTo != "" {
		return &route.Reply{Status: 302, Location: f.ReturnTo + "#error=" + why}, nil
	}
	return nil, fault.New(fault.Malformed, Failed, "%s did not sign you in: %s.", p.Name, why)
}

// arrive signs in whom a provider vouches for.
func (s *Service) arrive(ctx context.Context, who authz.Caller, p ConfiguredProvider, f flow, c Claims) (*route.Reply, error) {
	a := arrival{who: who, name: c.Name, method: p.ID, label: cmp.Or(f.Label, p.Name), terms: f.Terms}
	email, notGood := vouched(p, c)
	if notGood == nil && !s.Signup && s.Invited != nil {
		var err error
		if a.invited, err = s.Invited(ctx, email); err != nil {
			return nil, err
		}
	}
	var got entered
	var code string
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		got, code = entered{}, ""
		known, err := s.linked(tx, c)
		if err != nil {
			return err
		}
		if a.email, a.linked = known, known != ""; !a.linked {
			if notGood != nil {
				return notGood
			}
			a.email = email
		}
		m, err := s.place(tx, a)
		if err != nil {
			return err
		}
		if f.Challenge == "" {
			if got, err = s.open(tx, a, m); err != nil {
				return err
			}
		} else {
			code = newTicket()
			left := handover{TenantID: m.Member.TenantID, UserID: m.Member.UserID, Provider: p.ID, Label: a.label, Challenge: f.Challenge}
			if err := s.leave(tx, appTicket, code, left, appLife); err != nil {
				return err
			}
			got.caller = authz.Caller{TenantID: m.Member.TenantID, UserID: m.Member.UserID, Role: m.Member.Role, Address: who.Address, RequestID: who.RequestID}
		}
		if a.linked {
			return nil
		}
		return s.link(tx, got.caller, p, c, email)
	})
	if err != nil {
		return nil, err
	}
	return goOn(f, got, code)
}

// goOn is the answer to a browser that is back.
func goOn(f flow, got entered, code string) (*route.Reply, error) {
	switch {
	case code != "" && f.ReturnTo != "":
		return &route.Reply{Status: 302, Location: f.ReturnTo + "#code=" + code}, nil
	case code != "":
		text, err := json.Marshal(AppCode{Code: code})
		return &route.Reply{JSON: text}, err
	case f.ReturnTo == "":
		return got.reply()
	}
	to := f.ReturnTo
	if got.session.NeedsFactor {
		to += "#mfa_required=true"
	}
	return &route.Reply{Status: 302, Location: to, Cookie: identity.SessionCookie(got.raw)}, nil
}

// vouched gives the address that a provider vouches for.
func vouched(p ConfiguredProvider, c Claims) (string, error) {
	email := strings.ToLower(c.Email)
	switch {
	case c.Email == "" || checkEmail(email) != nil:
		return "", fault.New(fault.Forbidden, Failed, "%s did not say your email address; allow it to, and sign in again.", p.Name)
	case !c.EmailVerified:
		return "", fault.New(fault.Forbidden, Failed, "%s does not vouch for your email address; confirm the address there first.", p.Name)
	case email != lowerASCII(c.Email):
		// Letters that are folded into others could make one person another.
		return "", fault.New(fault.Forbidden, Failed, "Your email address at %s holds letters that cannot be told from others.", p.Name)
	}
	return email, nil
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// linked gives the person that an account at a provider is linked to, "" for
// none. A link to somebody who is no member any more counts for nothing.
func (s *Service) linked(tx txn.Tx, c Claims) (email string, err error) {
	l, err := s.Store.GetLinkTx(tx, c.Issuer, c.Subject)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	members, err := s.verified(tx, l.Email)
	if err != nil || len(members) > 0 {
		return l.Email, err
	}
	return "", s.Store.DeleteLinkTx(tx, l.Email, l.Provider)
}

func (s *Service) link(tx txn.Tx, who authz.Caller, p ConfiguredProvider, c Claims, email string) error {
	err := s.Store.CreateLinkTx(tx, Link{
		Issuer: c.Issuer, Subject: c.Subject, Provider: p.ID, Email: email, ProviderEmail: c.Email, LinkedAt: s.Clock.Now(),
	})
	if errors.Is(err, ErrTaken) {
		// An address that was given to somebody else is another person.
		return fault.New(fault.Forbidden, Failed, "Another account at %s is linked to this address; sign in otherwise and unlink it.", p.Name)
	}
	if err != nil {
		return err
	}
	details, err := json.Marshal(map[string]any{"provider": p.ID}, json.Deterministic(true))
	if err != nil {
		return err
	}
	return s.record(tx, who, audit.Entry{Action: "auth.provider_linked", TargetType: "user", TargetID: who.UserID, Details: details})
}

type oauthExchangeIn struct {
	Body struct {
		Code     string `json:"code" required:"true" minLength:"1" maxLength:"200"`
		Verifier string `json:"code_verifier" required:"true" minLength:"43" maxLength:"128" doc:"Whose SHA-256 was the app_code_challenge."`
	}
}

// oauthExchange gives an app the session that a browser signed in for. The code
// is spent by the first try, right or wrong.
func (s *Service) oauthExchange(ctx context.Context, who authz.Caller, in *oauthExchangeIn) (*route.Reply, error) {
	sum := sha256.Sum256([]byte(in.Body.Verifier))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	var got entered
	var refused error
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		refused = nil
		var left handover
		if err := s.take(tx, appTicket, in.Body.Code, &left); err != nil {
			return err
		}
		if subtle.ConstantTimeCompare([]byte(challenge), []byte(left.Challenge)) != 1 {
			refused = badTicket(appTicket)
			return nil
		}
		m, err := s.Store.GetMembershipTx(tx, left.TenantID, left.UserID)
		if errors.Is(err, ErrNotFound) {
			refused = badTicket(appTicket)
			return nil
		}
		if err != nil {
			return err
		}
		if refused = lockedOut(m); refused != nil {
			return nil
		}
		got, err = s.open(tx, arrival{who: who, method: left.Provider, label: left.Label}, m)
		return err
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	return got.reply()
}
