// Package oidcclient implements signin.Provider over OpenID Connect: discovery,
// the authorization code flow with PKCE, and the checks of the response. It
// connects only to the providers that the operator configures, which may have
// private addresses.
package oidcclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"agentd/internal/accounts/signin"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
)

const (
	callTime      = 10 * time.Second // timeout of one call to a provider
	discoveryTime = time.Hour        // how long the result of discovery is cached
	maxBytes      = 1 << 20          // of a response
)

// Client calls providers.
type Client struct {
	http   *http.Client
	recent *http.Client // for the tokens that strangers send
	clock  clock.Clock
}

// New returns a client. clk decides whether tokens have expired.
func New(clk clock.Clock) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 2
	return NewOver(clk, transport)
}

// NewOver is New for providers that are called over a transport, such as a guarded one.
func NewOver(clk clock.Clock, transport http.RoundTripper) *Client {
	over := func(transport http.RoundTripper) *http.Client {
		return &http.Client{
			Transport: transport, Timeout: callTime,
			// Following a redirect could send secrets to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Client{clock: clk, http: over(bounded{transport}), recent: over(&recent{next: bounded{transport}, clock: clk})}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// bounded truncates responses to maxBytes.
type bounded struct{ http.RoundTripper }

// CloseIdleConnections lets [http.Client.CloseIdleConnections] reach the transport.
func (b bounded) CloseIdleConnections() {
	if closer, ok := b.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxBytes), resp.Body}
	return resp, nil
}

const (
	recentTime = 10 * time.Second
	maxRecent  = 32
)

// recent answers reads that need no credential, of keys and discovery, from memory for
// some seconds. A token that names an unknown key has the keys read again: strangers
// could otherwise have agentd call a provider as often as they send tokens.
type recent struct {
	next  http.RoundTripper
	clock clock.Clock

	mu   sync.Mutex
	kept map[string]keptAnswer
}

type keptAnswer struct {
	at     time.Time
	header http.Header
	body   []byte
}

// RoundTrip implements http.RoundTripper.
func (c *recent) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || r.Header.Get("Authorization") != "" {
		return c.next.RoundTrip(r)
	}
	address := r.URL.String()
	c.mu.Lock()
	kept, found := c.kept[address]
	c.mu.Unlock()
	if found && c.clock.Now().Sub(kept.at) < recentTime {
		return kept.response(r), nil
	}
	resp, err := c.next.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	kept = keptAnswer{at: c.clock.Now(), header: resp.Header}
	if kept.body, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= maxRecent {
		c.kept = map[string]keptAnswer{}
	}
	c.kept[address] = kept
	return kept.response(r), nil
}

func (k *keptAnswer) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: k.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(k.body)), ContentLength: int64(len(k.body)), Request: r,
	}
}

// Provider returns one provider. Discovery happens at the first use, so that a
// provider that is down does not keep the server from starting.
func (c *Client) Provider(cfg signin.ProviderConfig) signin.Provider {
	return &provider{client: c, cfg: cfg, tokens: &provider{client: &Client{http: c.recent, clock: c.clock}, cfg: cfg}}
}

type provider struct {
	client *Client
	cfg    signin.ProviderConfig
	tokens *provider // for Verify, which reads keys through Client.recent

	mu         sync.Mutex
	metadata   *oidc.Provider
	metadataAt time.Time
}

// discover returns the provider's metadata. If discovery fails, the metadata of
// an earlier one stays in use.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	metadata, at := p.metadata, p.metadataAt
	p.mu.Unlock()
	if metadata != nil && time.Since(at) < discoveryTime {
		return metadata, nil
	}
	fresh, err := oidc.NewProvider(ctx, p.cfg.Issuer)
	if err != nil && metadata == nil {
		return nil, failed(err, "The sign-in service %s cannot be reached, or its discovery document is invalid.", p.cfg.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.metadata = fresh
	}
	p.metadataAt = time.Now()
	return p.metadata, nil
}

func (p *provider) oauth(metadata *oidc.Provider, g signin.Grant) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret.Reveal(),
		Endpoint: metadata.Endpoint(), RedirectURL: g.Redirect, Scopes: p.cfg.Scopes,
	}
}

// Start implements signin.Provider.
func (p *provider) Start(ctx context.Context, g signin.Grant) (string, error) {
	metadata, err := p.discover(oidc.ClientContext(ctx, p.client.http))
	if err != nil {
		return "", err
	}
	return p.oauth(metadata, g).AuthCodeURL(g.State, oidc.Nonce(g.Nonce), oauth2.S256ChallengeOption(g.Verifier)), nil
}

// Finish implements signin.Provider.
func (p *provider) Finish(ctx context.Context, g signin.Grant, code string) (signin.Claims, error) {
	ctx = oidc.ClientContext(ctx, p.client.http)
	metadata, err := p.discover(ctx)
	if err != nil {
		return signin.Claims{}, err
	}
	token, err := p.oauth(metadata, g).Exchange(ctx, code, oauth2.VerifierOption(g.Verifier))
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode == "invalid_grant" {
			return signin.Claims{}, fault.New(fault.Malformed, signin.Failed, "%s does not accept this sign-in any more; start it again.",
				p.cfg.Name).Because(err)
		}
		return signin.Claims{}, failed(err, "%s did not complete the sign-in.", p.cfg.Name)
	}
	claims, err := p.check(ctx, metadata, token, g)
	if err != nil {
		return claims, failed(err, "The response of %s failed verification.", p.cfg.Name)
	}
	if claims.Email == "" {
		err = p.readUserInfo(ctx, metadata, token, &claims)
	}
	if err != nil {
		return claims, failed(err, "%s did not return who signed in.", p.cfg.Name)
	}
	return claims, nil
}

// rawClaims are the claims of a token or of userinfo.
type rawClaims struct {
	Email    string `json:"email"`
	Verified any    `json:"email_verified"` // some providers send it as text
	Name     string `json:"name"`
	Party    string `json:"azp"`
}

func (c rawClaims) verified() bool { return c.Verified == true || c.Verified == "true" }

// check verifies the ID token: the library checks signature, issuer, audience
// and expiry; the rest is checked here (OpenID Connect Core 1.0, section
// 3.1.3.7).
func (p *provider) check(ctx context.Context, metadata *oidc.Provider, token *oauth2.Token, g signin.Grant) (signin.Claims, error) {
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return signin.Claims{}, errors.New("the response contains no ID token")
	}
	id, err := metadata.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: p.client.clock.Now}).Verify(ctx, raw)
	if err != nil {
		return signin.Claims{}, err
	}
	var c rawClaims
	if err := id.Claims(&c); err != nil {
		return signin.Claims{}, err
	}
	if id.Nonce == "" || id.Nonce != g.Nonce {
		return signin.Claims{}, errors.New("the nonce belongs to another sign-in")
	}
	if err := p.checkParty(id, c); err != nil {
		return signin.Claims{}, err
	}
	if id.AccessTokenHash != "" {
		if err := id.VerifyAccessToken(token.AccessToken); err != nil {
			return signin.Claims{}, err
		}
	}
	return signin.Claims{Issuer: id.Issuer, Subject: id.Subject, Email: c.Email, EmailVerified: c.verified(), Name: c.Name}, nil
}

// Verify implements signin.Provider.
func (p *provider) Verify(ctx context.Context, token string) (signin.Claims, error) {
	return p.tokens.verify(ctx, token)
}

func (p *provider) verify(ctx context.Context, token string) (signin.Claims, error) {
	ctx = oidc.ClientContext(ctx, p.client.http)
	metadata, err := p.discover(ctx)
	if err != nil {
		return signin.Claims{}, err
	}
	id, err := metadata.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: p.client.clock.Now}).Verify(ctx, token)
	var c rawClaims
	if err == nil {
		err = id.Claims(&c)
	}
	if err == nil {
		err = p.checkParty(id, c)
	}
	if err != nil {
		return signin.Claims{}, fault.New(fault.Unauthenticated, signin.Failed, "The credential is not a valid ID token of %s for this service.",
			p.cfg.Name).Because(err)
	}
	return signin.Claims{Issuer: id.Issuer, Subject: id.Subject, Email: c.Email, EmailVerified: c.verified(), Name: c.Name}, nil
}

// checkParty refuses a token that was issued to another client, or about nobody.
func (p *provider) checkParty(id *oidc.IDToken, c rawClaims) error {
	switch {
	case c.Party != "" && c.Party != p.cfg.ClientID,
		c.Party == "" && slices.ContainsFunc(id.Audience, func(a string) bool { return a != p.cfg.ClientID }):
		return errors.New("the token was issued to another client")
	case id.Subject == "":
		return errors.New("the token has no subject")
	}
	return nil
}

// readUserInfo reads the email from the provider's userinfo endpoint, if the
// token has none.
func (p *provider) readUserInfo(ctx context.Context, metadata *oidc.Provider, token *oauth2.Token, claims *signin.Claims) error {
	if metadata.UserInfoEndpoint() == "" {
		return nil // package signin refuses claims without an email
	}
	info, err := metadata.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return err
	}
	if info.Subject != claims.Subject {
		return errors.New("the userinfo belongs to another subject")
	}
	var c rawClaims
	if err := info.Claims(&c); err != nil {
		return err
	}
	claims.Email, claims.EmailVerified = c.Email, c.verified()
	if claims.Name == "" {
		claims.Name = c.Name
	}
	return nil
}

// failed returns the error for a provider that failed.
func failed(cause error, format string, args ...any) error {
	kind := fault.Upstream
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](cause); ok && timeout.Timeout() {
		kind = fault.UpstreamTimeout
	}
	return fault.New(kind, signin.Failed, format, args...).Because(cause)
}
