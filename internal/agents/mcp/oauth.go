package mcp

import (
	"context"
	"errors"
	"time"

	"agentd/internal/base/txn"
)

// Errors of authorization.
var (
	// ErrUnauthorized means that a server demands another credential than the one
	// it received.
	ErrUnauthorized = errors.New("mcp: the server refuses the credential")
	// ErrInvalidGrant means that a refresh token or code is no longer valid.
	ErrInvalidGrant = errors.New("mcp: the authorization is no longer valid")
)

// OAuth is the port to the authorization servers of MCP servers: authorization
// code with PKCE, discovered by RFC 9728 and RFC 8414. Errors: ErrInvalidGrant;
// otherwise a *fault.Error for people.
type OAuth interface {
	// Discover returns the authorization server that a server names.
	Discover(ctx context.Context, serverURL string) (Provider, error)
	// Register registers a client (RFC 7591).
	Register(ctx context.Context, p Provider, redirect, name string) (Client, error)
	// AuthorizeURL returns the URL that a person is redirected to.
	AuthorizeURL(p Provider, c Client, redirect, state, verifier string) string
	Exchange(ctx context.Context, p Provider, c Client, redirect, code, verifier string) (Token, error)
	Refresh(ctx context.Context, p Provider, c Client, refreshToken string) (Token, error)
}

// Provider is an authorization server, with what to request for one MCP server.
type Provider struct {
	Issuer       string   `json:"issuer"`
	Authorize    string   `json:"authorization_endpoint"`
	Token        string   `json:"token_endpoint"`
	Registration string   `json:"registration_endpoint,omitzero"`
	Methods      []string `json:"methods,omitempty"` // by which clients authenticate
	Scopes       []string `json:"scopes,omitempty"`
	Resource     string   `json:"resource"`
	NamesIssuer  bool     `json:"names_issuer,omitzero"` // its callbacks carry the issuer (RFC 9207)

	// Of providers that are known rather than discovered.
	Params         map[string]string `json:"params,omitempty"`         // more parameters of the authorization URL
	ScopeSeparator string            `json:"scope_separator,omitzero"` // "": a space
	AnyType        bool              `json:"any_type,omitzero"`        // its tokens are sent as Bearer tokens, whatever it calls their type
}

// Client is the identity of agentd at an authorization server.
type Client struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitzero"`
	Method string `json:"method,omitzero"` // token_endpoint_auth_method; "": the provider's choice
}

// Token is the result of an authorization.
type Token struct {
	Access  string    `json:"access"`
	Refresh string    `json:"refresh,omitzero"`
	Expiry  time.Time `json:"expiry,omitzero"` // zero: unknown
}

// Grant is an authorization as it is stored: sealed, because it holds tokens.
type Grant struct {
	TenantID string
	ServerID string
	Version  int64
	Sealed   []byte
}

// Pending is an authorization that a person has begun and not completed.
type Pending struct {
	TenantID string
	ID       string
	ServerID string
	Expires  time.Time
	Sealed   []byte
}

// Grants is the port to stored authorizations. A grant that is absent, or another
// tenant's, is nil.
type Grants interface {
	Get(ctx context.Context, tenant, server string) (*Grant, error)
	// PutTx stores a grant, replacing any other, and increments Version.
	PutTx(tx txn.Tx, tenant, server string, sealed []byte) error
	// UpdateTx replaces a grant if its version is still the stored one.
	UpdateTx(tx txn.Tx, g *Grant, sealed []byte) error
	// ClaimTx reports whether the caller may refresh a grant of this version. One
	// caller at a time may, until the given time or until the grant is replaced.
	ClaimTx(tx txn.Tx, g *Grant, now, until time.Time) (bool, error)
	// ReleaseTx ends a claim.
	ReleaseTx(tx txn.Tx, g *Grant) error
	// DeleteVersionTx deletes a grant if its version is still the stored one.
	DeleteVersionTx(tx txn.Tx, g *Grant) error
	// DeleteTx deletes the grant and the pending authorizations of a server.
	DeleteTx(tx txn.Tx, tenant, server string) error
	// CreatePendingTx stores a pending authorization, and deletes expired ones.
	CreatePendingTx(tx txn.Tx, p Pending, now time.Time) error
	// ConsumePendingTx deletes a pending authorization and returns it.
	ConsumePendingTx(tx txn.Tx, tenant, id string) (*Pending, error)
}

// granted is the plaintext of a Grant.
type granted struct {
	Origin   string   `json:"origin"` // the only destination of the token
	Provider Provider `json:"provider"`
	Client   Client   `json:"client"`
	Redirect string   `json:"redirect"`
	Token    Token    `json:"token"`
}

// pending is the plaintext of a Pending.
type pending struct {
	Provider Provider `json:"provider"`
	Client   Client   `json:"client"`
	Redirect string   `json:"redirect"`
	Verifier string   `json:"verifier"`
	URL      string   `json:"url"`     // of the server at the beginning
	Browser  []byte   `json:"browser"` // hash of what the browser that began keeps
	By       string   `json:"by"`      // the member who began
}
