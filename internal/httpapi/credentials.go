package httpapi

import (
	"context"
	"net/http"
	"strings"

	"agentd/internal/authz"
	"agentd/internal/fault"
)

// Authenticator says who a credential belongs to.
type Authenticator interface {
	// Authenticate finds the caller of a raw key. Errors: fault.Unauthenticated
	// for a key that does not authenticate, fault.Forbidden for one of a
	// suspended tenant, fault.Unavailable.
	Authenticate(ctx context.Context, rawKey string) (authz.Caller, error)
}

const (
	keyCookie  = "svc_auth_token"
	maxKeySize = 1024
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
	errTwoHeaders    = credentialError("more than one Authorization header")
	errScheme        = credentialError("an Authorization scheme other than Bearer")
	errCredentialLen = credentialError("an empty or oversized credential")
)

// credential finds what a request authenticates with. The first of
// Authorization, x-api-key, cookie and query token that is present decides,
// though a later one were right (decisions.md D3).
func (o *operation) credential(r *http.Request) (key string, fromCookie bool, err error) {
	if values := r.Header["Authorization"]; len(values) > 0 {
		if len(values) > 1 {
			return "", false, errTwoHeaders
		}
		scheme, token, _ := strings.Cut(values[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", false, errScheme
		}
		return strings.TrimSpace(token), false, nil
	}
	if o.apiKeyHeader {
		if values := r.Header["X-Api-Key"]; len(values) > 0 {
			return values[0], false, nil
		}
	}
	if len(r.Header["Cookie"]) > 0 {
		if c, err := r.Cookie(keyCookie); err == nil {
			return c.Value, true, nil
		}
	}
	if o.takesQueryToken(r) {
		if token := r.URL.Query().Get("token"); token != "" {
			return token, false, nil
		}
	}
	return "", false, errNoCredential
}

// takesQueryToken: a key in an address ends up in histories and logs of
// others, so it counts only where a browser can send nothing else.
func (o *operation) takesQueryToken(r *http.Request) bool {
	if r.URL.RawQuery == "" || r.Method != http.MethodGet {
		return false
	}
	if o.queryToken {
		return true
	}
	return o.stream && strings.Contains(strings.ToLower(r.Header.Get("Accept")), "text/event-stream")
}

// admit authenticates the caller and checks what the row asks of one.
func (s *Server) admit(x *exchange, r *http.Request, o *operation) error {
	if o.row.Public {
		return nil
	}
	key, fromCookie, err := o.credential(r)
	if err != nil {
		return unauthenticated(err)
	}
	if key == "" || len(key) > maxKeySize {
		return unauthenticated(errCredentialLen)
	}
	if fromCookie {
		if err := s.sameOrigin.Check(r); err != nil {
			return fault.New(fault.Forbidden, "", "A write that is authenticated by a cookie must come from this service's own pages.").Because(err)
		}
	}
	who, err := s.auth.Authenticate(x, key)
	if fault.Is(err, fault.Unauthenticated) {
		return unauthenticated(err)
	}
	if err != nil {
		return err
	}
	if fromCookie {
		who.Method = "cookie"
	}
	who.Address, who.RequestID = x.who.Address, x.id
	x.who, x.key = who, key
	if err := who.Check(o.row.Role, o.row.Scopes...); err != nil {
		return err
	}
	if o.row.Operator && !who.Operator {
		return fault.New(fault.Forbidden, "", "This operation is the operator's of this service; your company is not the one that runs it.")
	}
	return nil
}
