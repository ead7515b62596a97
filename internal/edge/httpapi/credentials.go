package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// Authenticator resolves credentials. Errors of all three methods:
// fault.Unauthenticated for an unknown or expired credential, fault.Forbidden for
// a suspended user or tenant, fault.Unavailable.
type Authenticator interface {
	// Authenticate returns the caller of a key or a stream token. With an error it
	// returns the holder, where the credential is a known one that is not valid any
	// more.
	Authenticate(ctx context.Context, raw string) (authz.Caller, error)
	// AuthenticateSession returns the caller of a browser session. If renew is
	// not 0, the cookie is sent again, to last that long.
	AuthenticateSession(ctx context.Context, token string) (who authz.Caller, renew time.Duration, err error)
	// Valid checks that the credential of an authenticated caller is still valid.
	Valid(ctx context.Context, who authz.Caller) error
}

const (
	keyCookie         = "svc_auth_token" // holds a key or a stream token
	sessionCookie     = "svc_session"    // holds a browser session
	hostPrefix        = "__Host-"        // of the name of that cookie under https, so that no other host of the domain can set it
	subprotocol       = "svc."           // prefix of a key in base64
	maxCredentialSize = 1024
)

// unauthenticated returns the one 401 of the chain: the reason why a credential was
// refused is for the log only.
func unauthenticated(cause error) error {
	return fault.New(fault.Unauthenticated, "AUTH_ERROR", "This operation needs a valid credential: an API key in the header "+
		"Authorization as 'Bearer <API_KEY>', or the cookie svc_session of a signed-in browser.").Because(cause)
}

type credentialError string

func (e credentialError) Error() string { return string(e) }

const (
	errNoCredential  = credentialError("no credential")
	errTwo           = credentialError("more than one credential in the same place")
	errScheme        = credentialError("an Authorization scheme other than Bearer")
	errCredentialLen = credentialError("an empty or oversized credential")
)

// credential is what a request authenticates with.
type credential struct {
	raw     string
	session bool // only valid as a browser session
	cookie  bool // a browser attached it, perhaps on behalf of another site's page
}

// credential returns what a request authenticates with. The first place that holds
// one decides, even if it is invalid and a later one is not: Authorization,
// x-api-key, the WebSocket subprotocol, the cookies svc_session and svc_auth_token,
// the query token (docs/authentication.md).
func (o *operation) credential(r *http.Request) (credential, error) {
	if values := r.Header["Authorization"]; len(values) > 0 {
		raw, err := onlyValue(values)
		scheme, token, _ := strings.Cut(raw, " ")
		if err == nil && !strings.EqualFold(scheme, "Bearer") {
			err = errScheme
		}
		return credential{raw: strings.TrimSpace(token)}, err
	}
	if o.apiKeyHeader {
		if values := r.Header["X-Api-Key"]; len(values) > 0 {
			raw, err := onlyValue(values)
			return credential{raw: raw}, err
		}
	}
	upgrades := o.upgrade && upgrades(r)
	if upgrades {
		if keys := subprotocolKeys(r); len(keys) > 0 {
			raw, err := onlyValue(keys)
			return credential{raw: raw}, err
		}
	}
	if len(r.Header["Cookie"]) > 0 {
		for _, name := range [...]string{hostPrefix + sessionCookie, sessionCookie, keyCookie} {
			if values := cookies(r, name); len(values) > 0 {
				raw, err := onlyValue(values)
				return credential{raw: raw, session: name != keyCookie, cookie: true}, err
			}
		}
	}
	if o.takesQueryToken(r, upgrades) {
		if values := r.URL.Query()["token"]; len(values) > 0 {
			raw, err := onlyValue(values)
			return credential{raw: raw}, err
		}
	}
	return credential{}, errNoCredential
}

// onlyValue returns the only value of a place; several are ambiguous.
func onlyValue(values []string) (string, error) {
	if len(values) > 1 {
		return "", errTwo
	}
	return values[0], nil
}

// cookies returns the values of a cookie. A second one may have been set by
// another site of the same domain.
func cookies(r *http.Request, name string) (values []string) {
	for _, c := range r.CookiesNamed(name) {
		values = append(values, c.Value)
	}
	return values
}

// upgrades reports whether a request asks for a WebSocket.
func upgrades(r *http.Request) bool {
	return r.Method == http.MethodGet && hasWord(r.Header["Upgrade"], "websocket") && hasWord(r.Header["Connection"], "upgrade")
}

// hasWord reports whether a comma-separated header has a word, in any case.
func hasWord(header []string, word string) bool {
	for _, line := range header {
		for entry := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(entry), word) {
				return true
			}
		}
	}
	return false
}

// subprotocolKeys returns the keys that WebSocket clients, which may be unable to
// set another header, offer as svc.<base64 of the key>: in either alphabet, padded
// or not. Invalid base64 counts as an empty key.
func subprotocolKeys(r *http.Request) (keys []string) {
	for _, line := range r.Header["Sec-Websocket-Protocol"] {
		for entry := range strings.SplitSeq(line, ",") {
			encoded, isKey := strings.CutPrefix(strings.TrimSpace(entry), subprotocol)
			if !isKey {
				continue
			}
			encoded = strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(encoded, "="))
			key, err := base64.RawURLEncoding.DecodeString(encoded)
			if err != nil {
				key = nil
			}
			keys = append(keys, string(key))
		}
	}
	return keys
}

// takesQueryToken reports whether ?token= authenticates a request. A key in an
// address ends up in browser histories and proxy logs, so it is accepted only where
// a browser cannot send a header.
func (o *operation) takesQueryToken(r *http.Request, upgrades bool) bool {
	if r.URL.RawQuery == "" || r.Method != http.MethodGet {
		return false
	}
	return o.queryToken || upgrades ||
		o.stream && strings.Contains(strings.ToLower(r.Header.Get("Accept")), "text/event-stream")
}

// admit authenticates the caller, counts the request and checks what the row
// requires of its caller.
func (s *Server) admit(x *exchange, r *http.Request, o *operation) error {
	if o.row.Public {
		if o.ownPages {
			if err := s.sameOrigin.Check(r); err != nil {
				return fault.New(fault.Forbidden, "", "This form must be sent by a page of this service; open the page and try "+
					"again.").Because(err)
			}
		}
		return s.limits.take(x, o, "")
	}
	if o.lateKey && upgrades(r) {
		if _, err := o.credential(r); errors.Is(err, errNoCredential) {
			return s.limits.take(x, o, "")
		}
	}
	if err := s.authenticate(x, r, o); err != nil {
		return err
	}
	if x.who.HalfOpen && !o.row.HalfOpen {
		e := fault.New(fault.Unauthenticated, "mfa_required",
			"This session has not completed MFA: send a code to POST /api/v1/auth/mfa/verify, then repeat the request.")
		e.Extra = map[string]any{"mfa_required": true, "reason": "stale"}
		return e
	}
	if x.who.StreamOnly && !o.streamToken && (!o.stream || r.Method != http.MethodGet) {
		return fault.New(fault.Forbidden, "STREAM_TOKEN_ONLY", "A stream token only opens event streams, by GET; use an API key "+
			"or sign in.")
	}
	if err := mayCall(&x.who, &o.row); err != nil {
		return err
	}
	if o.row.Operator && !x.who.Operator {
		return fault.New(fault.Forbidden, "", "Only the company that operates this service may call this operation.")
	}
	if o.row.Person {
		if err := x.who.CheckPerson(); err != nil {
			return err
		}
	}
	if o.row.Destroys && s.held != nil && s.held(x.who.TenantID) {
		return fault.UnderHold()
	}
	if o.row.Fresh && s.fresh != nil {
		return s.fresh(x, x.who)
	}
	return nil
}

// mayCall refuses a caller whose key lacks a scope that the row requires, or whose
// role is too low.
func mayCall(who *authz.Caller, row *route.Row) error {
	if len(row.And) == 0 {
		return who.Check(row.Role, row.Scopes...)
	}
	if err := who.Check("", row.Scopes...); err != nil {
		return err
	}
	for _, scope := range row.And {
		if err := who.Check("", scope); err != nil {
			return err
		}
	}
	return who.Check(row.Role)
}

// authenticate sets x.who and counts the request.
func (s *Server) authenticate(x *exchange, r *http.Request, o *operation) error {
	cred, err := o.credential(r)
	if err != nil {
		return unauthenticated(err)
	}
	if cred.raw == "" || len(cred.raw) > maxCredentialSize {
		return unauthenticated(errCredentialLen)
	}
	if cred.cookie {
		if err := s.ownPages(r, o); err != nil {
			return err
		}
	}
	if err := s.limits.checkGuess(x, cred.raw); err != nil {
		x.holder = &authz.Caller{}
		return err
	}
	who, renew, err := s.identify(x, cred)
	if fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) {
		holder := who // so that callers of other requests are not moved to the heap
		x.holder = &holder
	}
	if fault.Is(err, fault.Unauthenticated) {
		s.limits.countFailure(x)
		return unauthenticated(err)
	}
	if err != nil {
		return err
	}
	if renew > 0 {
		o.setCookie(x, &route.Cookie{Name: sessionCookie, Value: cred.raw, Lasts: renew})
	}
	if cred.cookie {
		who.Method = "cookie"
	}
	who.Address, who.RequestID = x.who.Address, x.id
	x.who = who
	x.origin = txn.Origin{Tenant: who.TenantID, Route: r.Method + " " + o.row.Path, Reads: r.Method == http.MethodGet}
	if err := s.limits.take(x, o, cred.raw); err != nil {
		return err
	}
	return s.assertTenant(x, r)
}

func (s *Server) identify(ctx context.Context, cred credential) (who authz.Caller, renew time.Duration, err error) {
	if cred.session {
		return s.auth.AuthenticateSession(ctx, cred.raw)
	}
	who, err = s.auth.Authenticate(ctx, cred.raw)
	return who, 0, err
}

// ownPages refuses what another site's page makes a browser send with our
// cookies: writes, and upgrades, which read and write although they are GETs.
func (s *Server) ownPages(r *http.Request, o *operation) error {
	if o.upgrade && upgrades(r) {
		r = r.WithContext(r.Context()) // a copy
		r.Method = http.MethodPost
	}
	if err := s.sameOrigin.Check(r); err != nil {
		return fault.New(fault.Forbidden, "", "A write that is authenticated by a cookie must come from this service's own "+
			"pages.").Because(err)
	}
	return nil
}
