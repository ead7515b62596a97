package httpapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
)

// Authenticator says who a credential belongs to. Errors of all three:
// fault.Unauthenticated for what does not authenticate, fault.Forbidden for
// who is locked out, fault.Unavailable.
type Authenticator interface {
	// Authenticate finds the caller of a key or a stream token.
	Authenticate(ctx context.Context, raw string) (authz.Caller, error)
	// AuthenticateSession finds the caller of a browser session. If renew is
	// not 0, the browser is sent the cookie again, to last so long.
	AuthenticateSession(ctx context.Context, token string) (who authz.Caller, renew time.Duration, err error)
	// Valid says whether what a caller came with still counts.
	Valid(ctx context.Context, who authz.Caller) error
}

const (
	keyCookie         = "svc_auth_token" // holds a key or a stream token
	sessionCookie     = "svc_session"    // holds a browser session
	subprotocol       = "svc."           // what follows is a key in base64
	maxCredentialSize = 1024
)

// unauthenticated is the one 401 of the chain: why a credential does not count
// is for the log only.
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

// credential is what a request authenticates with, and what came with it
// without a script's doing: a cookie.
type credential struct {
	raw     string
	session bool // a browser session, and nothing else
	cookie  bool
}

// credential finds what a request authenticates with. The first that is
// present decides, though a later one were right: Authorization, x-api-key,
// the WebSocket subprotocol, the cookies svc_session and svc_auth_token, the
// query token (decisions.md D3; docs/authentication.md).
func (o *operation) credential(r *http.Request) (credential, error) {
	if values := r.Header["Authorization"]; len(values) > 0 {
		raw, err := one(values)
		scheme, token, _ := strings.Cut(raw, " ")
		if err == nil && !strings.EqualFold(scheme, "Bearer") {
			err = errScheme
		}
		return credential{raw: strings.TrimSpace(token)}, err
	}
	if o.apiKeyHeader {
		if values := r.Header["X-Api-Key"]; len(values) > 0 {
			raw, err := one(values)
			return credential{raw: raw}, err
		}
	}
	upgrades := o.upgrade && upgrades(r)
	if upgrades {
		if keys := subprotocolKeys(r); len(keys) > 0 {
			raw, err := one(keys)
			return credential{raw: raw}, err
		}
	}
	if len(r.Header["Cookie"]) > 0 {
		for _, name := range [...]string{sessionCookie, keyCookie} {
			if values := cookies(r, name); len(values) > 0 {
				raw, err := one(values)
				return credential{raw: raw, session: name == sessionCookie, cookie: true}, err
			}
		}
	}
	if o.takesQueryToken(r, upgrades) {
		if values := r.URL.Query()["token"]; len(values) > 0 {
			raw, err := one(values)
			return credential{raw: raw}, err
		}
	}
	return credential{}, errNoCredential
}

// one takes the only value of a place: which of several was meant, nobody
// knows.
func one(values []string) (string, error) {
	if len(values) > 1 {
		return "", errTwo
	}
	return values[0], nil
}

// cookies gives the values of a cookie. A second one may be another site's of
// the same domain, which put it there.
func cookies(r *http.Request, name string) (values []string) {
	for _, c := range r.CookiesNamed(name) {
		values = append(values, c.Value)
	}
	return values
}

// upgrades says whether a request asks for a WebSocket.
func upgrades(r *http.Request) bool {
	return r.Method == http.MethodGet && hasWord(r.Header["Upgrade"], "websocket") && hasWord(r.Header["Connection"], "upgrade")
}

// hasWord says whether a header that holds a list has a word, in any case.
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

// subprotocolKeys gives what WebSocket clients that can set no other header
// offer as svc.<base64 of the key>, in either alphabet, padded or not. What is
// no base64 is no key.
func subprotocolKeys(r *http.Request) (keys []string) {
	for _, line := range r.Header["Sec-Websocket-Protocol"] {
		for entry := range strings.SplitSeq(line, ",") {
			encoded, ours := strings.CutPrefix(strings.TrimSpace(entry), subprotocol)
			if !ours {
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

// takesQueryToken: a key in an address ends up in histories and logs of
// others, so it counts only where a browser can send nothing else.
func (o *operation) takesQueryToken(r *http.Request, upgrades bool) bool {
	if r.URL.RawQuery == "" || r.Method != http.MethodGet {
		return false
	}
	return o.queryToken || upgrades ||
		o.stream && strings.Contains(strings.ToLower(r.Header.Get("Accept")), "text/event-stream")
}

// admit authenticates the caller, counts the request and checks what the row
// asks of its caller.
func (s *Server) admit(x *exchange, r *http.Request, o *operation) error {
	if o.row.Public {
		return s.limits.take(x, o, "")
	}
	if err := s.authenticate(x, r, o); err != nil {
		return err
	}
	if x.who.HalfOpen && !o.row.HalfOpen {
		e := fault.New(fault.Unauthenticated, "mfa_required",
			"This session still owes its second factor: send a code to POST /api/v1/auth/mfa/verify, then repeat the request.")
		e.Extra = map[string]any{"mfa_required": true, "reason": "stale"}
		return e
	}
	if x.who.StreamOnly && (!o.stream || r.Method != http.MethodGet) {
		return fault.New(fault.Forbidden, "STREAM_TOKEN_ONLY", "A stream token opens event streams by GET and nothing else; use a key or sign in.")
	}
	if err := mayCall(&x.who, &o.row); err != nil {
		return err
	}
	if o.row.Operator && !x.who.Operator {
		return fault.New(fault.Forbidden, "", "This operation is the operator's of this service; your company is not the one that runs it.")
	}
	if o.row.Fresh && s.fresh != nil {
		return s.fresh(x, x.who)
	}
	return nil
}

// mayCall refuses a caller whose key lacks a scope that the row asks for, or whose
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

// authenticate says in x who calls, and counts the request.
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
	if err := s.limits.guess(x, cred.raw); err != nil {
		return err
	}
	who, renew, err := s.identify(x, cred)
	if fault.Is(err, fault.Unauthenticated) {
		s.limits.wrong(x)
		return unauthenticated(err)
	}
	if err != nil {
		return err
	}
	if renew > 0 {
		http.SetCookie(x, o.cookie(&route.Cookie{Name: sessionCookie, Value: cred.raw, Lasts: renew}))
	}
	if cred.cookie {
		who.Method = "cookie"
	}
	who.Address, who.RequestID = x.who.Address, x.id
	x.who = who
	return s.limits.take(x, o, cred.raw)
}

func (s *Server) identify(ctx context.Context, cred credential) (who authz.Caller, renew time.Duration, err error) {
	if cred.session {
		return s.auth.AuthenticateSession(ctx, cred.raw)
	}
	who, err = s.auth.Authenticate(ctx, cred.raw)
	return who, 0, err
}

// ownPages refuses what another site's page makes a browser send with its
// cookies: writes, and upgrades, which read and write although they are GETs.
func (s *Server) ownPages(r *http.Request, o *operation) error {
	if o.upgrade && upgrades(r) {
		r = r.WithContext(r.Context()) // a copy
		r.Method = http.MethodPost
	}
	if err := s.sameOrigin.Check(r); err != nil {
		return fault.New(fault.Forbidden, "", "A write that is authenticated by a cookie must come from this service's own pages.").Because(err)
	}
	return nil
}
