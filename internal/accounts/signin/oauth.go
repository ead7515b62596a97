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
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

const (
	// Failed is the code of errors between a provider and agentd.
	Failed = "OAUTH_FAILED"

	oauthPath   = "/api/v1/auth/oauth"
	oauthCookie = "svc_oauth"
	flowLife    = 10 * time.Minute
	appLife     = time.Minute
)

// oauth signs people in through OpenID providers.
type oauth struct {
	writer    txn.Writer
	store     Store
	clock     clock.Clock
	audit     audit.Recorder // nil: not recorded
	public    func() string
	signupOn  func() bool
	invited   func(ctx context.Context, email string) (bool, error) // nil: no invites
	providers providers
	tokens    tokens
	logins    *logins
}

// flow is a sign-in that is in progress at a provider.
type flow struct {
	Provider  string `json:"provider"`
	Nonce     string `json:"nonce"`
	Verifier  string `json:"verifier"`
	Browser   []byte `json:"browser"`            // hash of the cookie of the browser that started it
	ReturnTo  string `json:"return_to,omitzero"` // a URL of this service
	Label     string `json:"label,omitzero"`     // of the device
	Challenge string `json:"challenge,omitzero"` // of the app that gets the session
	Terms     bool   `json:"terms,omitzero"`
	Cookie    bool   `json:"cookie,omitzero"` // the browser gets no key
}

// handover is a sign-in for an app that has not exchanged its code yet.
type handover struct {
	TenantID  string `json:"tenant_id"`
	UserID    string `json:"user_id"`
	Provider  string `json:"provider"`
	Label     string `json:"label,omitzero"`
	Challenge string `json:"challenge"`
}

// OAuthProvider is a provider that people can choose.
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
	OneTap    string          `json:"google_one_tap_client_id,omitzero" doc:"Client id for Google One Tap; absent where google is not configured."`
}

func (o oauth) list(context.Context, authz.Caller, *nothing) (OAuthProviders, error) {
	out := OAuthProviders{Providers: o.providers.shown()}
	if google, err := o.providers.find(google); err == nil {
		out.OneTap = google.ClientID
	}
	return out, nil
}

func (o oauth) grant(p ConfiguredProvider, f flow, state string) Grant {
	return Grant{Redirect: o.public() + oauthPath + "/" + p.ID + "/callback", State: state, Nonce: f.Nonce, Verifier: f.Verifier}
}

type oauthStartIn struct {
	Provider      string `path:"provider"`
	ReturnTo      string `query:"return_to" maxLength:"2000" doc:"A page of this service to return to: a path, or a URL below its own. Other values are ignored."`
	DeviceLabel   string `query:"device_label" maxLength:"80" doc:"A name for the list of signed-in devices."`
	AppChallenge  string `query:"app_code_challenge" maxLength:"200" doc:"Signs in an app, not this browser: base64url of the SHA-256 of the app's code_verifier."`
	CookieOnly    bool   `query:"cookie_only" doc:"true, from a page: the answer of the callback has no api_key. A redirect to return_to never has one."`
	AcceptTerms   bool   `query:"accept_terms" doc:"Required to sign up."`
	AcceptPrivacy bool   `query:"accept_privacy" doc:"As accept_terms."`
}

var challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// start redirects a browser to a provider.
func (o oauth) start(ctx context.Context, _ authz.Caller, in *oauthStartIn) (*route.Reply, error) {
	p, err := o.providers.find(in.Provider)
	if err != nil {
		return nil, err
	}
	if in.AppChallenge != "" && !challengeForm.MatchString(in.AppChallenge) {
		return nil, fault.New(fault.Malformed, "INVALID_QUERY",
			"The query parameter app_code_challenge must be the base64url of a SHA-256, which has 43 characters.")
	}
	state, browser := newToken(), newToken()
	f := flow{
		Provider: p.ID, Nonce: newToken(), Verifier: newToken(), Browser: hashToken(browser),
		ReturnTo: o.ownURL(in.ReturnTo), Label: in.DeviceLabel, Challenge: in.AppChallenge, Terms: in.AcceptTerms && in.AcceptPrivacy,
		Cookie: in.CookieOnly,
	}
	to, err := p.Port.Start(ctx, o.grant(p, f, state))
	if err != nil {
		return nil, err
	}
	err = o.writer.Write(ctx, func(tx txn.Tx) error {
		if err := o.store.DeleteExpiredTx(tx, o.clock.Now(), 50); err != nil {
			return err
		}
		return o.tokens.put(tx, oauthToken, state, f, flowLife)
	})
	if err != nil {
		return nil, err
	}
	return &route.Reply{Location: to, Cookie: &route.Cookie{Name: oauthCookie, Value: browser, Lasts: flowLife}}, nil
}

// ownURL returns a URL of this service in its absolute form, and "" for any
// other, because a person who signs in must not be redirected to another site.
func (o oauth) ownURL(to string) string {
	own, err := url.Parse(o.public())
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
	State    string `query:"state" maxLength:"200" doc:"From the provider, unchanged."`
	Error    string `query:"error" maxLength:"200" doc:"From the provider, instead of a code."`
	Issuer   string `query:"iss" maxLength:"2000" doc:"From the provider (RFC 9207)."`
	Browser  string `cookie:"svc_oauth"`
}

// AppCode answers the callback of a sign-in for an app that named no return_to.
type AppCode struct {
	_ struct{} `json:"-" name:"AppCode"`

	Code string `json:"code" required:"true" doc:"Exchange it with POST /auth/oauth/exchange within a minute."`
}

// callback continues a sign-in when the provider redirects the browser back.
func (o oauth) callback(ctx context.Context, who authz.Caller, in *oauthCallbackIn) (*route.Reply, error) {
	p, err := o.providers.find(in.Provider)
	if err != nil {
		return nil, err
	}
	var f flow
	err = o.writer.Write(ctx, func(tx txn.Tx) error {
		f = flow{}
		return o.tokens.take(tx, oauthToken, in.State, &f)
	})
	switch {
	case err != nil:
		return nil, err
	case f.Provider != p.ID, in.Issuer != "" && in.Issuer != p.Issuer,
		// A person who opens the link of another person's flow must not be signed in as them.
		subtle.ConstantTimeCompare(hashToken(in.Browser), f.Browser) != 1:
		return nil, invalidToken(oauthToken)
	case in.Error != "":
		return providerError(p, f, in.Error)
	case in.Code == "":
		return nil, fault.New(fault.Malformed, Failed, "The provider did not send a code.")
	}
	claims, err := p.Port.Finish(ctx, o.grant(p, f, in.State), in.Code)
	if err != nil {
		return nil, err
	}
	return o.signIn(ctx, who, p, f, claims)
}

var errorWord = regexp.MustCompile(`^[a-z_]{1,60}$`)

// providerError returns the browser with the provider's error, which is mostly
// that the person cancelled.
func providerError(p ConfiguredProvider, f flow, reason string) (*route.Reply, error) {
	if !errorWord.MatchString(reason) {
		reason = "server_error"
	}
	if f.ReturnTo != "" {
		return &route.Reply{Status: 302, Location: f.ReturnTo + "#error=" + reason}, nil
	}
	return nil, fault.New(fault.Malformed, Failed, "%s did not sign you in: %s.", p.Name, reason)
}

// signIn signs in the person that a provider authenticated.
func (o oauth) signIn(ctx context.Context, who authz.Caller, p ConfiguredProvider, f flow, c Claims) (*route.Reply, error) {
	a := authenticated{
		who: who, name: c.Name, method: p.ID, label: cmp.Or(f.Label, p.Name), terms: f.Terms,
		key: !f.Cookie && f.ReturnTo == "", // an address with a key would stay in the browser's history
	}
	email, unusable := verifiedEmail(p, c)
	if unusable == nil && !o.signupOn() && o.invited != nil {
		var err error
		if a.invited, err = o.invited(ctx, email); err != nil {
			return nil, err
		}
	}
	var result login
	var code string
	err := o.writer.Write(ctx, func(tx txn.Tx) error {
		result, code = login{}, ""
		linked, err := o.linkedEmail(tx, c)
		if err != nil {
			return err
		}
		if a.email, a.linked = linked, linked != ""; !a.linked {
			if unusable != nil {
				return unusable
			}
			a.email = email
		}
		m, err := o.logins.membershipOf(tx, a)
		if err != nil {
			return err
		}
		if f.Challenge == "" {
			result, err = o.logins.openSession(tx, a, m)
		} else {
			code = newToken()
			result.caller, err = o.handOver(tx, code, handover{
				TenantID: m.Member.TenantID, UserID: m.Member.UserID, Provider: p.ID, Label: a.label, Challenge: f.Challenge,
			}, who, m.Member.Role)
		}
		if err != nil || a.linked {
			return err
		}
		return o.link(tx, result.caller, p, c, email)
	})
	if err != nil {
		return nil, err
	}
	return afterCallback(f, result, code)
}

// handOver stores a sign-in for an app under a code, and returns the person who
// signed in as a caller.
func (o oauth) handOver(tx txn.Tx, code string, h handover, who authz.Caller, role authz.Role) (authz.Caller, error) {
	caller := authz.Caller{TenantID: h.TenantID, UserID: h.UserID, Role: role, Address: who.Address, RequestID: who.RequestID}
	return caller, o.tokens.put(tx, appToken, code, h, appLife)
}

// afterCallback returns the reply to the callback: a redirect to return_to if
// there is one, and otherwise the session or the app's code.
func afterCallback(f flow, result login, code string) (*route.Reply, error) {
	switch {
	case code != "" && f.ReturnTo != "":
		return &route.Reply{Status: 302, Location: f.ReturnTo + "#code=" + code}, nil
	case code != "":
		text, err := json.Marshal(AppCode{Code: code})
		return &route.Reply{JSON: text}, err
	case f.ReturnTo == "":
		return result.reply()
	}
	to := f.ReturnTo
	if result.session.NeedsFactor {
		to += "#mfa_required=true"
	}
	return &route.Reply{Status: 302, Location: to, Cookie: identity.SessionCookie(result.raw)}, nil
}

// verifiedEmail returns the email address that a provider has verified.
func verifiedEmail(p ConfiguredProvider, c Claims) (string, error) {
	email := strings.ToLower(c.Email)
	switch {
	case c.Email == "" || checkEmail(email) != nil:
		return "", fault.New(fault.Forbidden, Failed, "%s did not share your email address; allow it to, then sign in again.", p.Name)
	case !c.EmailVerified:
		return "", fault.New(fault.Forbidden, Failed, "%s has not verified your email address; verify it there first.", p.Name)
	case email != lowerASCII(c.Email):
		// Lower-casing other letters could turn one person's address into another's.
		return "", fault.New(fault.Forbidden, Failed, "Your email address at %s contains letters that can be mistaken for others.", p.Name)
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

// linkedEmail returns the email of the person that an account at a provider is
// linked to, or "". It deletes a link to a person without a membership.
func (o oauth) linkedEmail(tx txn.Tx, c Claims) (email string, err error) {
	l, err := o.store.GetLinkTx(tx, c.Issuer, c.Subject)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	members, err := verifiedMemberships(tx, o.store, l.Email)
	if err != nil || len(members) > 0 {
		return l.Email, err
	}
	return "", o.store.DeleteLinkTx(tx, l.Email, l.Provider)
}

func (o oauth) link(tx txn.Tx, who authz.Caller, p ConfiguredProvider, c Claims, email string) error {
	err := o.store.CreateLinkTx(tx, Link{
		Issuer: c.Issuer, Subject: c.Subject, Provider: p.ID, Email: email, ProviderEmail: c.Email, LinkedAt: o.clock.Now(),
	})
	if errors.Is(err, ErrTaken) {
		// The address may have been reassigned to another person.
		return fault.New(fault.Forbidden, Failed,
			"Another account at %s is linked to this address; sign in another way and unlink it.", p.Name)
	}
	if err != nil {
		return err
	}
	details, err := json.Marshal(map[string]any{"provider": p.ID}, json.Deterministic(true))
	if err != nil {
		return err
	}
	return audit.Write(o.audit, tx, who, audit.Entry{Action: "auth.provider_linked", TargetType: "user", TargetID: who.UserID,
		Details: details})
}

type oauthExchangeIn struct {
	Body struct {
		Code     string `json:"code" required:"true" minLength:"1" maxLength:"200" doc:"The code of the address to which the provider's page returned. It is valid once."`
		Verifier string `json:"code_verifier" required:"true" minLength:"43" maxLength:"128" doc:"The text whose SHA-256 was the app_code_challenge."`

		CookieOnly bool `json:"cookie_only,omitzero" doc:"true, from a page: the answer has no api_key."`
	}
}

// exchange issues to an app the session that a browser signed in for. The first
// attempt uses the code up, right or wrong.
func (o oauth) exchange(ctx context.Context, who authz.Caller, in *oauthExchangeIn) (*route.Reply, error) {
	sum := sha256.Sum256([]byte(in.Body.Verifier))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	var result login
	var rejected error // does not roll back the use of the code
	err := o.writer.Write(ctx, func(tx txn.Tx) error {
		rejected = nil
		var h handover
		if err := o.tokens.take(tx, appToken, in.Body.Code, &h); err != nil {
			return err
		}
		if subtle.ConstantTimeCompare([]byte(challenge), []byte(h.Challenge)) != 1 {
			rejected = invalidToken(appToken)
			return nil
		}
		m, err := o.store.GetMembershipTx(tx, h.TenantID, h.UserID)
		if errors.Is(err, ErrNotFound) {
			rejected = invalidToken(appToken)
			return nil
		}
		if err != nil {
			return err
		}
		if rejected = suspended(m); rejected != nil {
			return nil
		}
		result, err = o.logins.openSession(tx, authenticated{who: who, method: h.Provider, label: h.Label, key: !in.Body.CookieOnly}, m)
		return err
	})
	if err == nil {
		err = rejected
	}
	if err != nil {
		return nil, err
	}
	return result.reply()
}
