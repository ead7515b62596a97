package mcp

import (
	"context"

	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
)

// Vault keeps authorizations by people of other things than MCP servers, such as
// integrations, under the ids of these things: sealed, and renewed by one node at a
// time.
type Vault struct{ credentials *credentials }

// NewVault returns a vault.
func NewVault(w txn.Writer, g Grants, o OAuth, box *secret.Box, c clock.Clock) *Vault {
	return &Vault{&credentials{writer: w, grants: g, oauth: o, box: box, clock: c}}
}

// Authorization is what a person authorized.
type Authorization struct {
	Origin   string // the only destination of the token
	Provider Provider
	Client   Client
	Redirect string
	Token    Token
}

// PutTx stores an authorization, replacing any other of the id.
func (v *Vault) PutTx(tx txn.Tx, tenant, id string, a *Authorization) error {
	g := granted(*a)
	sealed, err := v.credentials.sealGrant(tenant, id, &g)
	if err != nil {
		return err
	}
	return v.credentials.grants.PutTx(tx, tenant, id, sealed)
}

// DeleteTx deletes the authorization of an id.
func (v *Vault) DeleteTx(tx txn.Tx, tenant, id string) error {
	return v.credentials.grants.DeleteTx(tx, tenant, id)
}

// Token returns the token to call an origin with, "" if none is stored for it.
// rejected is a token that was just refused. Errors: ErrUnauthorized if the person
// must authorize it again.
func (v *Vault) Token(ctx context.Context, tenant, id, origin, rejected string) (string, error) {
	return (&tokens{v.credentials, tenant, id, origin}).Token(ctx, rejected)
}

// Origin returns what a secret is bound to of a URL: scheme, host and port.
func Origin(url string) string { return origin(url) }
