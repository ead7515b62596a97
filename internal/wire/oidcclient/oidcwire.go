// Package oidcwire is signin.Provider over OpenID Connect: discovery, the
// authorization code flow with PKCE, and the checks of what comes back. It
// talks to nobody but the providers that the operator configures, which may be
// private.
package oidcclient

import (
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
	callTime  = 10 * time.Second // of one call to a provider
	knownTime = time.Hour        // how long what discovery gave is used
	mostBytes = 1 << 20          // of an answer
)

// Client talks to providers.
type Client struct {
	http  *http.Client
	clock clock.Clock
}

// New makes a client. clk judges the expiry of tokens.
func New(clk clock.Clock) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 2
	return &Client{clock: clk, http: &http.Client{
		Transport: bounded{transport}, Timeout: callTime,
		// A provider that redirects would be given secrets that are another's.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// bounded cuts answers off that are longer than any provider's.
type bounded struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, mostBytes), resp.Body}
	return resp, nil
}

// Provider gives one provider. What it says of itself is read at first use, so that
// one which is down keeps nobody from starting.
func (c *Client) Provider(cfg signin.ProviderConfig) signin.Provider {
	return &provider{client: c, cfg: cfg}
}

type provider struct {
	client *Client
	cfg    signin.ProviderConfig

	mu      sync.Mutex
	found   *oidc.Provider
	foundAt time.Time
}

// discover gives what the provider says of itself. What was known before serves
// on when it does not answer.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	found, at := p.found, p.foundAt
	p.mu.Unlock()
	if found != nil && time.Since(at) < knownTime {
		return found, nil
	}
	fresh, err := oidc.NewProvider(ctx, p.cfg.Issuer)
	if err != nil && found == nil {
		return nil, failed(err, "The sign-in service %s cannot be reached, or does not describe itself.", p.cfg.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.found = fresh
	}
	p.foundAt = time.Now()
	return p.found, nil
}

func (p *provider) oauth(found *oidc.Provider, g signin.Grant) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret.Reveal(),
		Endpoint: found.Endpoint(), RedirectURL: g.Redirect, Scopes: p.cfg.Scopes,
	}
}

// Start implements signin.Provider.
func (p *provider) Start(ctx context.Context, g signin.Grant) (string, error) {
	found, err := p.discover(oidc.ClientContext(ctx, p.client.http))
	if err != nil {
		return "", err
	}
	return p.oauth(found, g).AuthCodeURL(g.State, oidc.Nonce(g.Nonce), oauth2.S256ChallengeOption(g.Verifier)), nil
}

// Finish implements signin.Provider.
func (p *provider) Finish(ctx context.Context, g signin.Grant, code string) (signin.Claims, error) {
	ctx = oidc.ClientContext(ctx, p.client.http)
	found, err := p.discover(ctx)
	if err != nil {
		return signin.Claims{}, err
	}
	token, err := p.oauth(found, g).Exchange(ctx, code, oauth2.VerifierOption(g.Verifier))
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode == "invalid_grant" {
			return signin.Claims{}, fault.New(fault.Malformed, signin.Failed, "%s does not accept this sign-in any more; begin it anew.", p.cfg.Name).Because(err)
		}
		return signin.Claims{}, failed(err, "%s did not finish the sign-in.", p.cfg.Name)
	}
	claims, err := p.check(ctx, found, token, g)
	if err != nil {
		return claims, failed(err, "What %s answered cannot be trusted.", p.cfg.Name)
	}
	if claims.Email == "" {
		err = p.ask(ctx, found, token, &claims)
	}
	if err != nil {
		return claims, failed(err, "%s does not say who signed in.", p.cfg.Name)
	}
	return claims, nil
}

// said is what is read of a token.
type said struct {
	Email    string `json:"email"`
	Verified any    `json:"email_verified"` // some providers send it as text
	Name     string `json:"name"`
	Party    string `json:"azp"`
}

func (s said) verified() bool { return s.Verified == true || s.Verified == "true" }

// check verifies the id token: signature, issuer, audience and expiry by the
// library, the rest here (OpenID Connect Core 1.0, section 3.1.3.7).
func (p *provider) check(ctx context.Context, found *oidc.Provider, token *oauth2.Token, g signin.Grant) (signin.Claims, error) {
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return signin.Claims{}, errors.New("the answer holds no id token")
	}
	id, err := found.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: p.client.clock.Now}).Verify(ctx, raw)
	if err != nil {
		return signin.Claims{}, err
	}
	var s said
	if err := id.Claims(&s); err != nil {
		return signin.Claims{}, err
	}
	switch {
	case id.Nonce == "" || id.Nonce != g.Nonce:
		return signin.Claims{}, errors.New("the nonce is that of another sign-in")
	case s.Party != "" && s.Party != p.cfg.ClientID, s.Party == "" && slices.ContainsFunc(id.Audience, func(a string) bool { return a != p.cfg.ClientID }):
		return signin.Claims{}, errors.New("the token was made for another party")
	case id.Subject == "":
		return signin.Claims{}, errors.New("the token names nobody")
	}
	if id.AccessTokenHash != "" {
		if err := id.VerifyAccessToken(token.AccessToken); err != nil {
			return signin.Claims{}, err
		}
	}
	return signin.Claims{Issuer: id.Issuer, Subject: id.Subject, Email: s.Email, EmailVerified: s.verified(), Name: s.Name}, nil
}

// ask reads the email from the provider's userinfo, where the token has none.
func (p *provider) ask(ctx context.Context, found *oidc.Provider, token *oauth2.Token, claims *signin.Claims) error {
	if found.UserInfoEndpoint() == "" {
		return nil // then there is no email, which the slice refuses
	}
	info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return err
	}
	if info.Subject != claims.Subject {
		return errors.New("the userinfo is of somebody else")
	}
	var s said
	if err := info.Claims(&s); err != nil {
		return err
	}
	claims.Email, claims.EmailVerified = s.Email, s.verified()
	if claims.Name == "" {
		claims.Name = s.Name
	}
	return nil
}

// failed is the refusal for a provider that did not do its part.
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
