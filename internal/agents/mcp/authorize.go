package mcp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/url"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
)

const codeOAuth = "OAUTH_FAILED"

// Authorizer lets people authorize servers: authorization code with PKCE. A link leads
// a member of the company to a page at StartPath that says what they consent to;
// the browser that consented completes the authorization at CallbackPath. So
// whoever is sent a link by a stranger authorizes nothing for the stranger.
type Authorizer struct {
	servers     *Servers
	credentials *credentials
	links       *links
	oauth       OAuth
	remote      Remote
	waiting     Waiting // nil: no runs wait
	clock       clock.Clock
	logger      *slog.Logger
	base        func() string
	names       func(ctx context.Context, tenant, user string) (company, person string)
}

// Consent is what a person is shown before they authorize a server.
type Consent struct {
	Company string
	Server  string
	URL     string // of the server
	AskedBy string // "" for a run
	// Token confirms the consent: only the credential that it was shown to can send
	// it back, within ten minutes.
	Token string
}

// Ask returns what a member is asked to consent to by a link. Errors:
// fault.Malformed for the state, fault.Forbidden for a link of another company,
// fault.NotFound, fault.Conflict.
func (a *Authorizer) Ask(ctx context.Context, who authz.Caller, state string) (Consent, error) {
	s, err := a.links.open(purposeStart, state)
	if err != nil {
		return Consent{}, err
	}
	v, err := a.serverFor(ctx, who, s)
	if err != nil {
		return Consent{}, err
	}
	c := Consent{Server: v.Name, URL: v.URL, Token: a.links.seal(purposeConsent, s.Tenant, v.ID, who.Credential(), pendingLife)}
	c.Company, c.AskedBy = a.names(ctx, s.Tenant, s.By)
	return c, nil
}

// serverFor returns the server that a state names, if the caller may authorize it.
func (a *Authorizer) serverFor(ctx context.Context, who authz.Caller, s sealedState) (*Server, error) {
	if s.Tenant != who.TenantID {
		return nil, fault.New(fault.Forbidden, "",
			"This link is for another company than the one that you are signed in to. "+
				"If you are a member of it, switch to it and open the link again.")
	}
	if who.Method != "cookie" {
		return nil, fault.New(fault.Forbidden, "", "Only a person can authorize a server: open the link in a browser that is signed in.")
	}
	v, err := a.servers.store.Get(ctx, s.Tenant, s.ID)
	if err != nil {
		return nil, err
	}
	if !v.authorizable() || !v.Enabled {
		return nil, fault.New(fault.Conflict, "", "This server is disabled, or no longer authorized by people.")
	}
	return v, nil
}

// Begin begins the authorization that a member consented to, and returns the URL at
// the authorization server to redirect them to. browser is what their browser
// keeps until Finish. Errors: as Ask; OAUTH_FAILED.
func (a *Authorizer) Begin(ctx context.Context, who authz.Caller, token, browser string) (location string, err error) {
	s, err := a.links.open(purposeConsent, token)
	if err == nil && s.By != who.Credential() {
		err = invalidState()
	}
	if err != nil {
		return "", err
	}
	v, err := a.serverFor(ctx, who, s)
	if err != nil {
		return "", err
	}
	p := pending{
		Redirect: a.base() + CallbackPath, Verifier: rand.Text() + rand.Text(), URL: v.URL, Browser: hashBrowser(browser), By: who.UserID,
	}
	ctx = authz.WithTenant(ctx, s.Tenant)
	if p.Provider, err = a.oauth.Discover(ctx, v.URL); err != nil {
		return "", err
	}
	if p.Client, err = a.client(ctx, v, &p); err != nil {
		return "", err
	}
	id := ident.New()
	if err := a.credentials.addPending(ctx, s.Tenant, id, v.ID, &p); err != nil {
		return "", err
	}
	back := a.links.seal(purposeCallback, s.Tenant, id, "", pendingLife)
	return a.oauth.AuthorizeURL(p.Provider, p.Client, p.Redirect, back, p.Verifier), nil
}

func hashBrowser(browser string) []byte {
	sum := sha256.Sum256([]byte(browser))
	return sum[:]
}

// client returns agentd's client at the provider: the one that the tenant
// registered, the one of an earlier authorization, or a new registration.
func (a *Authorizer) client(ctx context.Context, v *Server, p *pending) (Client, error) {
	if v.Auth.ClientID != "" {
		return Client{ID: v.Auth.ClientID, Secret: v.ClientSecret}, nil
	}
	if _, old, err := a.credentials.grant(ctx, v.TenantID, v.ID); err != nil {
		return Client{}, err
	} else if old != nil && old.Provider.Issuer == p.Provider.Issuer && old.Redirect == p.Redirect {
		return old.Client, nil
	}
	if p.Provider.Registration == "" {
		return Client{}, fault.New(fault.Unavailable, codeOAuth,
			"The authorization server does not let clients register themselves; "+
				"register one there with the redirect URI %s and set auth.client_id.", p.Redirect)
	}
	return a.oauth.Register(ctx, p.Provider, p.Redirect, "agentd ("+v.Name+")")
}

// CallbackParams are the parameters with which the authorization server redirects
// a person back.
type CallbackParams struct {
	State  string
	Code   string
	Error  string
	Issuer string
	// Browser is what the browser keeps; see Begin.
	Browser string
}

// Finish completes an authorization: it stores the grant, resumes the runs that
// waited for it and returns the server's name. Errors: fault.Malformed for the
// state or a refusal of the authorization server, fault.NotFound, OAUTH_FAILED.
func (a *Authorizer) Finish(ctx context.Context, in CallbackParams) (server string, err error) {
	s, err := a.links.open(purposeCallback, in.State)
	if err != nil {
		return "", err
	}
	p, stored, err := a.credentials.takePending(ctx, s, in.Browser)
	if err != nil {
		return "", err
	}
	if err := in.check(p); err != nil {
		return "", err
	}
	v, err := a.servers.store.Get(ctx, s.Tenant, stored.ServerID)
	if err != nil {
		return "", err
	}
	if origin(v.URL) != origin(p.URL) {
		return "", serverMoved()
	}
	token, err := a.oauth.Exchange(authz.WithTenant(ctx, s.Tenant), p.Provider, p.Client, p.Redirect, in.Code, p.Verifier)
	if errors.Is(err, ErrInvalidGrant) {
		return "", fault.New(fault.Malformed, codeOAuth, "The authorization server does not accept the code that it issued.").Because(err)
	}
	if err != nil {
		return "", err
	}
	if err := a.storeGrant(ctx, v, &granted{origin(p.URL), p.Provider, p.Client, p.Redirect, token}); err != nil {
		return "", err
	}
	return v.Name, a.authorized(ctx, v, p.By)
}

// check returns the error of a callback that does not carry a code of the
// provider that was asked.
func (in *CallbackParams) check(p *pending) error {
	if in.Error != "" || in.Code == "" {
		return fault.New(fault.Malformed, codeOAuth, "The server was not authorized: the authorization server answered %.100q.", in.Error)
	}
	if in.Issuer != p.Provider.Issuer && (in.Issuer != "" || p.Provider.NamesIssuer) {
		return fault.New(fault.Malformed, codeOAuth, "The answer comes from another authorization server than the one that was asked.")
	}
	return nil
}

func serverMoved() error {
	return fault.New(fault.Conflict, "", "The server's URL was changed meanwhile; start again.")
}

// storeGrant stores a grant, unless the server was deleted or moved meanwhile.
func (a *Authorizer) storeGrant(ctx context.Context, v *Server, g *granted) error {
	sealed, err := a.credentials.sealGrant(v.TenantID, v.ID, g)
	if err != nil {
		return err
	}
	return a.credentials.writer.Write(ctx, func(tx txn.Tx) error {
		current, err := a.servers.store.GetTx(tx, v.TenantID, v.ID)
		if err != nil {
			return err
		}
		if origin(current.URL) != origin(v.URL) {
			return serverMoved()
		}
		return a.credentials.grants.PutTx(tx, v.TenantID, v.ID, sealed)
	})
}

// authorized makes a new grant effective: it drops old connections, resumes the
// runs that wait and records what the server offers now.
func (a *Authorizer) authorized(ctx context.Context, v *Server, by string) error {
	a.remote.Forget(v.TenantID, v.ID)
	if a.waiting != nil {
		if err := a.waiting.Authorized(ctx, v.TenantID, v.ID); err != nil {
			return err
		}
	}
	// The authorization has succeeded whatever becomes of this.
	if _, err := a.servers.probe(ctx, v); err == nil {
		if err := a.servers.recordProbe(ctx, authz.Caller{TenantID: v.TenantID, UserID: by}, v); err != nil {
			a.logger.Warn("recording that an MCP server was authorized failed", "tenant", v.TenantID, "server", v.ID, "err", err)
		}
	}
	return nil
}

// IsWebURL reports whether a person can be redirected to a URL.
func IsWebURL(location string) bool {
	u, err := url.Parse(location)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}
