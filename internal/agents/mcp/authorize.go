package mcp

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
)

const (
	// StartPath is where a person begins to authorize a server.
	StartPath = "/api/v1/mcp/oauth/start"
	// CallbackPath is where the authorization server sends them back to.
	CallbackPath = "/api/v1/mcp/oauth/callback"

	// startLinkLife is how long a link to StartPath works: a run may wait for days
	// until somebody looks.
	startLinkLife = 7 * 24 * time.Hour
	// pendingLife is how long a person may take between leaving and coming back.
	pendingLife = 10 * time.Minute
)

// sealedState is what the state of a start link or of a callback holds, sealed.
type sealedState struct {
	Tenant  string    `json:"t"`
	ID      string    `json:"i"` // of the server, or of the pending authorization
	Expires time.Time `json:"e"`
}

// What tickets are for; one is never taken for another.
const (
	purposeStart    = "mcp_start"
	purposeCallback = "mcp_callback"
)

func (s *Service) seal(purpose, tenant, id string, life time.Duration) string {
	text, err := json.Marshal(sealedState{tenant, id, s.Clock.Now().Add(life)})
	if err != nil {
		panic(err) // strings and times always encode
	}
	return base64.RawURLEncoding.EncodeToString(s.box().Seal(text, purpose))
}

func (s *Service) open(purpose, state string) (sealedState, error) {
	var t sealedState
	sealed, err := base64.RawURLEncoding.DecodeString(state)
	if err == nil {
		var text []byte
		if text, err = s.box().Open(sealed, purpose); err == nil {
			err = json.Unmarshal(text, &t)
		}
	}
	if err != nil || s.Clock.Now().After(t.Expires) {
		return t, badState()
	}
	return t, nil
}

func badState() error {
	return fault.New(fault.Malformed, "", "The link is not one of ours, was used already or has expired; begin again.")
}

func (s *Service) startURL(tenant, server string) string {
	return s.Base() + StartPath + "?state=" + s.seal(purposeStart, tenant, server, startLinkLife)
}

type authorization struct {
	_ struct{} `json:"-" name:"McpAuthorization"`

	AuthorizationURL string    `json:"authorization_url" required:"true" format:"uri" doc:"To be opened in a browser by the person who authorizes. Whoever has it can authorize the server for this company."`
	ExpiresAt        time.Time `json:"expires_at" required:"true"`
}

func (s *Service) authorize(ctx context.Context, who authz.Caller, in *serverIn) (authorization, error) {
	v, err := s.store.Get(ctx, who.TenantID, in.ServerID)
	if err != nil {
		return authorization{}, err
	}
	if !v.authorizable() {
		return authorization{}, fault.New(fault.Conflict, "", "This server is not authorized by people: it is a stdio server, or a secret is stored for it.")
	}
	return authorization{AuthorizationURL: s.startURL(who.TenantID, v.ID), ExpiresAt: s.Clock.Now().Add(startLinkLife)}, nil
}

// Start begins an authorization: it gives the address of the authorization
// server to send the person to. Errors: fault.Malformed for the state,
// fault.NotFound, OAUTH_FAILED.
func (s *Service) Start(ctx context.Context, state string) (location string, err error) {
	t, err := s.open(purposeStart, state)
	if err != nil {
		return "", err
	}
	v, err := s.store.Get(ctx, t.Tenant, t.ID)
	if err != nil {
		return "", err
	}
	if !v.authorizable() || !v.Enabled {
		return "", fault.New(fault.Conflict, "", "This server is disabled, or not authorized by people any more.")
	}
	p := pending{Redirect: s.Base() + CallbackPath, Verifier: rand.Text() + rand.Text(), URL: v.URL}
	if p.Provider, err = s.OAuth.Discover(ctx, v.URL); err != nil {
		return "", err
	}
	if p.Client, err = s.client(ctx, v, &p); err != nil {
		return "", err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	id := ident.New()
	err = s.write(ctx, func(tx txn.Tx) error {
		now := s.Clock.Now()
		return s.Grants.CreatePendingTx(tx, Pending{
			TenantID: t.Tenant, ID: id, ServerID: v.ID, Expires: now.Add(pendingLife),
			Sealed: s.box().Seal(text, pendingContext(t.Tenant, id)),
		}, now)
	})
	if err != nil {
		return "", err
	}
	return s.OAuth.AuthorizeURL(p.Provider, p.Client, p.Redirect, s.seal(purposeCallback, t.Tenant, id, pendingLife), p.Verifier), nil
}

// client gives what we are to the provider: a client that was registered by
// hand, the one that an earlier authorization registered, or a new one.
func (s *Service) client(ctx context.Context, v *Server, p *pending) (Client, error) {
	if v.Auth.ClientID != "" {
		return Client{ID: v.Auth.ClientID, Secret: v.ClientSecret}, nil
	}
	if _, old, err := s.grant(ctx, v.TenantID, v.ID); err != nil {
		return Client{}, err
	} else if old != nil && old.Provider.Issuer == p.Provider.Issuer && old.Redirect == p.Redirect {
		return old.Client, nil
	}
	if p.Provider.Registration == "" {
		return Client{}, fault.New(fault.Unavailable, codeOAuth,
			"The authorization server takes no clients that register themselves; register one there with the redirect address %s and set auth.client_id.", p.Redirect)
	}
	return s.OAuth.Register(ctx, p.Provider, p.Redirect, "agentd ("+v.Name+")")
}

const codeOAuth = "OAUTH_FAILED"

// CallbackParams is what the authorization server sends a person back with.
type CallbackParams struct {
	State  string
	Code   string
	Error  string
	Issuer string
}

// Finish ends an authorization: it stores what it gave, sets the runs going
// that wait for it, and gives the server's name. Errors: fault.Malformed for a
// state that is not ours, was used or is too old; OAUTH_FAILED.
func (s *Service) Finish(ctx context.Context, a CallbackParams) (server string, err error) {
	t, err := s.open(purposeCallback, a.State)
	if err != nil {
		return "", err
	}
	p, stored, err := s.take(ctx, t)
	if err != nil {
		return "", err
	}
	if a.Error != "" || a.Code == "" {
		return "", fault.New(fault.Malformed, codeOAuth, "The server was not authorized: the authorization server answered %.100q.", a.Error)
	}
	if a.Issuer != p.Provider.Issuer && (a.Issuer != "" || p.Provider.NamesIssuer) {
		return "", fault.New(fault.Malformed, codeOAuth, "The answer comes from another authorization server than the one that was asked.")
	}
	v, err := s.store.Get(ctx, t.Tenant, stored.ServerID)
	if err != nil {
		return "", err
	}
	if origin(v.URL) != origin(p.URL) {
		return "", fault.New(fault.Conflict, "", "The server was moved meanwhile; begin again.")
	}
	token, err := s.OAuth.Exchange(ctx, p.Provider, p.Client, p.Redirect, a.Code, p.Verifier)
	if errors.Is(err, ErrInvalidGrant) {
		return "", fault.New(fault.Malformed, codeOAuth, "The authorization server does not accept the code that it gave.").Because(err)
	}
	if err != nil {
		return "", err
	}
	if err := s.keep(ctx, v, granted{origin(p.URL), p.Provider, p.Client, p.Redirect, token}); err != nil {
		return "", err
	}
	s.Remote.Forget(t.Tenant, v.ID)
	if s.waiting != nil {
		if err := s.waiting.Authorized(ctx, t.Tenant, v.ID); err != nil {
			return "", err
		}
	}
	// What the server says of itself is told from now on; nobody waits for it.
	if _, err := s.probe(ctx, v); err == nil {
		err = s.note(ctx, authz.Caller{TenantID: t.Tenant}, v)
		if err != nil {
			s.Logger.Warn("noting that an MCP server was authorized", "tenant", t.Tenant, "server", v.ID, "err", err)
		}
	}
	return v.Name, nil
}

// keep stores a grant, if the server is still there to be authorized.
func (s *Service) keep(ctx context.Context, v *Server, g granted) error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	return s.write(ctx, func(tx txn.Tx) error {
		now, err := s.store.GetTx(tx, v.TenantID, v.ID)
		if err != nil {
			return err
		}
		if origin(now.URL) != origin(v.URL) {
			return fault.New(fault.Conflict, "", "The server was moved meanwhile; begin again.")
		}
		return s.Grants.PutTx(tx, v.TenantID, v.ID, s.box().Seal(text, grantContext(v.TenantID, v.ID)))
	})
}

func (s *Service) take(ctx context.Context, t sealedState) (*pending, *Pending, error) {
	var stored *Pending
	err := s.write(ctx, func(tx txn.Tx) (err error) {
		stored, err = s.Grants.ConsumePendingTx(tx, t.Tenant, t.ID)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if stored == nil || s.Clock.Now().After(stored.Expires) {
		return nil, nil, badState()
	}
	text, err := s.box().Open(stored.Sealed, pendingContext(t.Tenant, t.ID))
	if err != nil {
		return nil, nil, err
	}
	p := new(pending)
	return p, stored, json.Unmarshal(text, p)
}

// IsWebURL says whether an address is one that a person can be sent to.
func IsWebURL(location string) bool {
	u, err := url.Parse(location)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}
