package mcpclient

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/fault"
)

// OAuth implements mcp.OAuth. It uses the guarded transport for every call, because
// servers and authorization servers choose the addresses.
type OAuth struct {
	http *http.Client
}

var _ mcp.OAuth = (*OAuth)(nil)

const oauthTimeout = 15 * time.Second

// NewOAuth returns an OAuth on the guarded transport.
func NewOAuth(guarded http.RoundTripper) *OAuth {
	return &OAuth{&http.Client{
		Transport: guarded, Timeout: oauthTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

const codeOAuth = "OAUTH_FAILED"

func oauthFailed(cause error, format string, args ...any) error {
	if e, ok := errors.AsType[*fault.Error](cause); ok && e.Kind == fault.Forbidden {
		return e // the address is refused
	}
	return fault.New(fault.Unavailable, codeOAuth, format, args...).Because(cause)
}

// Discover implements mcp.OAuth.
func (o *OAuth) Discover(ctx context.Context, serverURL string) (mcp.Provider, error) {
	challenges, err := o.challenge(ctx, serverURL)
	if err != nil {
		return mcp.Provider{}, oauthFailed(err, "The server could not be asked for its authorization server.")
	}
	resource, err := o.resource(ctx, serverURL, challenges)
	if err != nil {
		return mcp.Provider{}, err
	}
	issuer := resource.AuthorizationServers[0]
	meta, err := auth.GetAuthServerMetadata(ctx, issuer, o.http)
	if err != nil {
		return mcp.Provider{}, oauthFailed(err, "The authorization server's metadata cannot be used: %s", sentence(err.Error(), 200))
	}
	if meta == nil { // servers of before 2025-06 have the endpoints at fixed paths
		base := strings.TrimRight(issuer, "/")
		meta = &oauthex.AuthServerMeta{
			Issuer: issuer, AuthorizationEndpoint: base + "/authorize", TokenEndpoint: base + "/token", RegistrationEndpoint: base + "/register",
		}
	}
	p := mcp.Provider{
		Issuer: meta.Issuer, Authorize: meta.AuthorizationEndpoint, Token: meta.TokenEndpoint, Registration: meta.RegistrationEndpoint,
		Methods: meta.TokenEndpointAuthMethodsSupported, Resource: resource.Resource,
		NamesIssuer: meta.AuthorizationResponseIssParameterSupported,
		Scopes:      scopes(challenges, resource, meta),
	}
	if !mcp.IsWebURL(p.Authorize) || !mcp.IsWebURL(p.Token) {
		return p, oauthFailed(nil, "The authorization server's metadata has no valid endpoints.")
	}
	return p, nil
}

// challenge calls the server without a credential and returns its challenges.
func (o *OAuth) challenge(ctx context.Context, serverURL string) ([]oauthex.Challenge, error) {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + protocol +
		`","capabilities":{},"clientInfo":{"name":"agentd","version":"1"}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, serverURL, strings.NewReader(hello))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := o.http.Do(req)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	challenges, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		return nil, nil // an unreadable challenge counts as absent
	}
	return challenges, nil
}

// resource returns the server's metadata (RFC 9728), from the URL in its challenge or
// the default one. A server without metadata is authorized by its own host.
func (o *OAuth) resource(
	ctx context.Context, serverURL string, challenges []oauthex.Challenge,
) (*oauthex.ProtectedResourceMetadata, error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return nil, oauthFailed(err, "The server's URL cannot be read.")
	}
	root := url.URL{Scheme: u.Scheme, Host: u.Host}
	type place struct{ url, resource string }
	var places []place
	for _, c := range challenges {
		if at := c.Params["resource_metadata"]; at != "" {
			places = append(places, place{at, serverURL})
		}
	}
	wellKnown := root
	wellKnown.Path = "/.well-known/oauth-protected-resource"
	if path := strings.Trim(u.Path, "/"); path != "" {
		below := wellKnown
		below.Path += "/" + path
		places = append(places, place{below.String(), serverURL})
	}
	places = append(places, place{wellKnown.String(), serverURL}, place{wellKnown.String(), root.String()})
	var denied error
	for _, at := range places {
		meta, err := oauthex.GetProtectedResourceMetadata(ctx, at.url, at.resource, o.http)
		if e, ok := errors.AsType[*fault.Error](err); ok {
			denied = e
		}
		if err == nil && meta != nil && len(meta.AuthorizationServers) > 0 {
			return meta, nil
		}
	}
	if denied != nil {
		return nil, denied
	}
	return &oauthex.ProtectedResourceMetadata{Resource: serverURL, AuthorizationServers: []string{root.String()}}, nil
}

// scopes returns those of the challenge, otherwise all that the server supports, and
// the one for refresh tokens, if the provider supports it.
func scopes(challenges []oauthex.Challenge, resource *oauthex.ProtectedResourceMetadata, meta *oauthex.AuthServerMeta) []string {
	var wanted []string
	for _, c := range challenges {
		if c.Scheme == "bearer" {
			wanted = append(wanted, strings.Fields(c.Params["scope"])...)
		}
	}
	if len(wanted) == 0 {
		wanted = slices.Clone(resource.ScopesSupported)
	}
	const offline = "offline_access"
	if slices.Contains(meta.ScopesSupported, offline) && !slices.Contains(wanted, offline) {
		wanted = append(wanted, offline)
	}
	return wanted
}

// Register implements mcp.OAuth.
func (o *OAuth) Register(ctx context.Context, p mcp.Provider, redirect, name string) (mcp.Client, error) {
	method := "none"
	if len(p.Methods) > 0 && !slices.Contains(p.Methods, method) {
		method = p.Methods[0]
	}
	kind := "web"
	if u, err := url.Parse(redirect); err == nil && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1") {
		kind = "native"
	}
	res, err := oauthex.RegisterClient(ctx, p.Registration, &oauthex.ClientRegistrationMetadata{
		ClientName: name, RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: method, ApplicationType: kind,
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, Scope: strings.Join(p.Scopes, " "),
	}, o.http)
	if err != nil {
		return mcp.Client{}, oauthFailed(err, "The authorization server does not register agentd as a client: %s", sentence(err.Error(), 200))
	}
	if res.TokenEndpointAuthMethod != "" {
		method = res.TokenEndpointAuthMethod
	}
	return mcp.Client{ID: res.ClientID, Secret: res.ClientSecret, Method: method}, nil
}

func (o *OAuth) config(p mcp.Provider, c mcp.Client, redirect string) *oauth2.Config {
	method := c.Method
	if method == "" && len(p.Methods) > 0 {
		method = p.Methods[0]
	}
	style := oauth2.AuthStyleInHeader
	if method == "client_secret_post" || method == "none" || c.Secret == "" {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: c.ID, ClientSecret: c.Secret, RedirectURL: redirect, Scopes: p.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: p.Authorize, TokenURL: p.Token, AuthStyle: style},
	}
}

// AuthorizeURL implements mcp.OAuth.
func (o *OAuth) AuthorizeURL(p mcp.Provider, c mcp.Client, redirect, state, verifier string) string {
	options := append(resource(p), oauth2.S256ChallengeOption(verifier))
	for name, value := range p.Params {
		options = append(options, oauth2.SetAuthURLParam(name, value))
	}
	config := o.config(p, c, redirect)
	if p.ScopeSeparator != "" && len(config.Scopes) > 0 {
		config.Scopes = []string{strings.Join(config.Scopes, p.ScopeSeparator)}
	}
	return config.AuthCodeURL(state, options...)
}

// Exchange implements mcp.OAuth.
func (o *OAuth) Exchange(ctx context.Context, p mcp.Provider, c mcp.Client, redirect, code, verifier string) (mcp.Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, o.http)
	t, err := o.config(p, c, redirect).Exchange(ctx, code, append(resource(p), oauth2.VerifierOption(verifier))...)
	return tokenOf(p, t, err)
}

// resource returns the parameter that names what a token is for (RFC 8707).
func resource(p mcp.Provider) []oauth2.AuthCodeOption {
	if p.Resource == "" {
		return nil
	}
	return []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("resource", p.Resource)}
}

// Refresh implements mcp.OAuth.
func (o *OAuth) Refresh(ctx context.Context, p mcp.Provider, c mcp.Client, refreshToken string) (mcp.Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, o.http)
	t, err := o.config(p, c, "").TokenSource(ctx, &oauth2.Token{RefreshToken: refreshToken}).Token()
	return tokenOf(p, t, err)
}

func tokenOf(p mcp.Provider, t *oauth2.Token, err error) (mcp.Token, error) {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && (e.ErrorCode == "invalid_grant" || e.ErrorCode == "invalid_client") {
		return mcp.Token{}, errors.Join(mcp.ErrInvalidGrant, err)
	}
	if err != nil {
		return mcp.Token{}, oauthFailed(err, "The authorization server issued no token.")
	}
	if !p.AnyType && !strings.EqualFold(t.Type(), "Bearer") {
		return mcp.Token{}, oauthFailed(nil, "The authorization server issued a token of a type that is not supported.")
	}
	return mcp.Token{Access: t.AccessToken, Refresh: t.RefreshToken, Expiry: t.Expiry}, nil
}
