package mcp

import (
	"context"
	"errors"
	"time"

	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
)

// Errors of authorization.
var (
	// ErrUnauthorized says that a server wants another credential than the one
	// it got.
	ErrUnauthorized = errors.New("mcp: the server refuses the credential")
	// ErrInvalidGrant says that a refresh token or code does not count any more.
	ErrInvalidGrant = errors.New("mcp: the authorization does not count any more")
)

// OAuth is the port to the authorization servers of MCP servers: authorization
// code with PKCE, found by RFC 9728 and RFC 8414. Errors: ErrInvalidGrant; else
// a *fault.Error for people.
type OAuth interface {
	// Discover finds who authorizes a server, by asking it.
	Discover(ctx context.Context, serverURL string) (Provider, error)
	// Register makes a client (RFC 7591).
	Register(ctx context.Context, p Provider, redirect, name string) (Client, error)
	// AuthorizeURL is where a person is sent.
	AuthorizeURL(p Provider, c Client, redirect, state, verifier string) string
	Exchange(ctx context.Context, p Provider, c Client, redirect, code, verifier string) (Token, error)
	Refresh(ctx context.Context, p Provider, c Client, refreshToken string) (Token, error)
}

// Provider is an authorization server, and what is asked of it for one server.
type Provider struct {
	Issuer       string   `json:"issuer"`
	Authorize    string   `json:"authorization_endpoint"`
	Token        string   `json:"token_endpoint"`
	Registration string   `json:"registration_endpoint,omitzero"`
	Methods      []string `json:"methods,omitempty"` // by which clients authenticate
	Scopes       []string `json:"scopes,omitempty"`
	Resource     string   `json:"resource"`
	NamesIssuer  bool     `json:"names_issuer,omitzero"` // its answers say who it is (RFC 9207)
}

// Client is what we are to an authorization server.
type Client struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitzero"`
	Method string `json:"method,omitzero"` // token_endpoint_auth_method; "" as the provider likes
}

// Token is what an authorization gives.
type Token struct {
	Access  string    `json:"access"`
	Refresh string    `json:"refresh,omitzero"`
	Expiry  time.Time `json:"expiry,omitzero"` // zero: unknown
}

// Grant is an authorization as it is stored: sealed, as it holds tokens.
type Grant struct {
	TenantID string
	ServerID string
	Version  int64
	Sealed   []byte
}

// Pending is an authorization that a person was sent away for.
type Pending struct {
	TenantID string
	ID       string
	ServerID string
	Expires  time.Time
	Sealed   []byte
}

// Grants is the port to what is stored of authorizations. Another tenant's are
// absent, which is nil.
type Grants interface {
	Get(ctx context.Context, tenant, server string) (*Grant, error)
	// PutTx stores a grant in place of any other. Version counts up.
	PutTx(tx txn.Tx, tenant, server string, sealed []byte) error
	// UpdateTx is Put in place of a grant of a version, and does nothing where
	// there is another or none.
	UpdateTx(tx txn.Tx, g *Grant, sealed []byte) error
	// ClaimTx gives one caller at a time the right to refresh a grant of a
	// version, until a moment or until the grant is put.
	ClaimTx(tx txn.Tx, g *Grant, now, until time.Time) (bool, error)
	// ReleaseTx gives the right back.
	ReleaseTx(tx txn.Tx, g *Grant) error
	// DeleteVersionTx deletes a grant of a version.
	DeleteVersionTx(tx txn.Tx, g *Grant) error
	// DeleteTx removes what there is of a server.
	DeleteTx(tx txn.Tx, tenant, server string) error
	// CreatePendingTx stores one, and removes those that are expired.
	CreatePendingTx(tx txn.Tx, p Pending, now time.Time) error
	// ConsumePendingTx removes one and gives it, once.
	ConsumePendingTx(tx txn.Tx, tenant, id string) (*Pending, error)
}

// granted is the inside of a Grant.
type granted struct {
	Origin   string   `json:"origin"` // the only place that gets the token
	Provider Provider `json:"provider"`
	Client   Client   `json:"client"`
	Redirect string   `json:"redirect"`
	Token    Token    `json:"token"`
}

// pending is the inside of a Pending.
type pending struct {
	Provider Provider `json:"provider"`
	Client   Client   `json:"client"`
	Redirect string   `json:"redirect"`
	Verifier string   `json:"verifier"`
	URL      string   `json:"url"` // of the server when the person was sent away
}

func grantContext(tenant, server string) string { return "mcp_grant/" + tenant + "/" + server }
func pendingContext(tenant, id string) string   { return "mcp_pending/" + tenant + "/" + id }

// box seals what belongs to servers.
func (s *Service) box() *secret.Box { return s.Kernel.Box }
