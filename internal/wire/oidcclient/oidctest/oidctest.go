// Package oidctest is an OpenID provider for tests, over HTTP on a port of its
// own: discovery, keys, the authorization code flow with PKCE, userinfo. It
// signs with RS256 by code of its own, so that it shares no mistake with what
// is tested.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// Client is what the provider knows of whoever uses it.
const (
	ClientID     = "agentd"
	ClientSecret = "client-secret"
)

// Claims of a token.
type Claims = map[string]any

// Provider is a running provider. Its hooks are set before they are used.
type Provider struct {
	URL string // its issuer

	// User is who signs in: claims beyond those of the protocol.
	User Claims
	// UserInfo answers the userinfo endpoint; nil: there is none.
	UserInfo Claims
	// Twist changes the claims of id tokens before they are signed.
	Twist func(Claims)
	// TwistToken changes a signed token.
	TwistToken func(string) string
	// Broken are paths that answer 500.
	Broken map[string]bool
	// Redirect are paths that answer with a redirect to the right place.
	Redirect map[string]bool
	// Now is the provider's clock.
	Now func() time.Time

	server *httptest.Server
	mu     sync.Mutex
	key    *rsa.PrivateKey
	kid    string
	codes  map[string]url.Values // code -> the request that it answers
	last   url.Values
}

// New starts a provider that ends with the test.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{User: Claims{}, Broken: map[string]bool{}, Redirect: map[string]bool{}, Now: time.Now, codes: map[string]url.Values{}}
	p.Rotate(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.userinfo)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case p.Broken[r.URL.Path]:
			http.Error(w, "out of order", http.StatusInternalServerError)
		case p.Redirect[r.URL.Path] && r.URL.Query().Get("again") == "":
			http.Redirect(w, r, r.URL.Path+"?again=1", http.StatusTemporaryRedirect)
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(p.server.Close)
	p.URL = p.server.URL
	return p
}

// Close stops the provider before its test ends.
func (p *Provider) Close() { p.server.Close() }

// Rotate makes a new key; the old one is not published any more.
func (p *Provider) Rotate(t testing.TB) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.kid = key, rand.Text()
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, v)
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	doc := Claims{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"}, "code_challenge_methods_supported": []string{"S256"},
	}
	if p.UserInfo != nil {
		doc["userinfo_endpoint"] = p.URL + "/userinfo"
	}
	answer(w, http.StatusOK, doc)
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer(w, http.StatusOK, Claims{"keys": []Claims{{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": p.kid,
		"n": base64.RawURLEncoding.EncodeToString(p.key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

// authorize is the page on which the user says yes at once.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	to, err := p.Authorize(r.URL.Query())
	if err != "" {
		http.Error(w, err, http.StatusBadRequest)
		return
	}
	http.Redirect(w, r, to, http.StatusFound)
}

// Authorize answers an authorization request: where the browser goes then.
func (p *Provider) Authorize(q url.Values) (to, failure string) {
	switch {
	case q.Get("client_id") != ClientID:
		return "", "unknown client"
	case q.Get("response_type") != "code" || !strings.Contains(" "+q.Get("scope")+" ", " openid "):
		return "", "no code flow of OpenID Connect"
	case q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("nonce") == "" || q.Get("state") == "":
		return "", "no PKCE, nonce or state"
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code], p.last = q, q
	p.mu.Unlock()
	return q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode(), ""
}

// Last is the authorization request that came last.
func (p *Provider) Last() url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// token trades a code, once, from whoever has its verifier.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	if id != ClientID || secret != ClientSecret {
		answer(w, http.StatusUnauthorized, Claims{"error": "invalid_client"})
		return
	}
	p.mu.Lock()
	asked, ok := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !ok || r.FormValue("grant_type") != "authorization_code" || r.FormValue("redirect_uri") != asked.Get("redirect_uri") ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") {
		answer(w, http.StatusBadRequest, Claims{"error": "invalid_grant"})
		return
	}
	now := p.Now()
	claims := Claims{
		"iss": p.URL, "aud": ClientID, "sub": "ann-at-the-provider", "nonce": asked.Get("nonce"),
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
	maps.Copy(claims, p.User)
	if p.Twist != nil {
		p.Twist(claims)
	}
	token := p.Sign(claims)
	if p.TwistToken != nil {
		token = p.TwistToken(token)
	}
	answer(w, http.StatusOK, Claims{"access_token": "access", "token_type": "Bearer", "expires_in": 300, "id_token": token})
}

func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer access" {
		answer(w, http.StatusUnauthorized, Claims{"error": "invalid_token"})
		return
	}
	answer(w, http.StatusOK, p.UserInfo)
}

// Sign makes a token.
func (p *Provider) Sign(claims Claims) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	head := part(Claims{"alg": "RS256", "typ": "JWT", "kid": p.kid}) + "." + part(claims)
	sum := sha256.Sum256([]byte(head))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return head + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func part(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}
