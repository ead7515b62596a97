package mcp

import (
	"context"
	"errors"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

const (
	// refreshEarly is how long before its expiry a token is replaced.
	refreshEarly = 30 * time.Second
	// refreshTimeout is how long one caller of all nodes may take to refresh.
	refreshTimeout = 20 * time.Second
	// refreshPoll is how often the other callers check whether it is done.
	refreshPoll = 50 * time.Millisecond
)

// tokens implements Tokens with the grant of one server.
type tokens struct {
	*credentials
	tenant, server string
	origin         string
}

// Token implements Tokens. One caller of all nodes refreshes at a time, because
// a refresh token may be valid only once; the others wait for its result.
func (t *tokens) Token(ctx context.Context, rejected string) (string, error) {
	deadline := t.clock.Now().Add(2 * refreshTimeout)
	for {
		stored, g, err := t.grant(ctx, t.tenant, t.server)
		if err != nil || g == nil || g.Origin != t.origin {
			return "", err // the token of the old origin is not sent to a new one, which is tried before it is stored
		}
		now := t.clock.Now()
		fresh := g.Token.Expiry.IsZero() || now.Before(g.Token.Expiry.Add(-refreshEarly))
		switch {
		case g.Token.Access != rejected && fresh:
			return g.Token.Access, nil
		case g.Token.Refresh == "" && g.Token.Access == rejected:
			return "", ErrUnauthorized
		case g.Token.Refresh == "":
			return g.Token.Access, nil
		case now.After(deadline):
			return "", fault.New(fault.Unavailable, codeOAuth, "The server's authorization could not be renewed in time.")
		}
		claimed, err := t.claim(ctx, stored, now)
		if err != nil {
			return "", err
		}
		if claimed {
			return t.refresh(ctx, stored, g)
		}
		wait := time.NewTimer(refreshPoll)
		select {
		case <-ctx.Done():
			wait.Stop()
			return "", ctx.Err()
		case <-wait.C:
		}
	}
}

func (t *tokens) claim(ctx context.Context, stored *Grant, now time.Time) (claimed bool, err error) {
	err = t.writer.Write(ctx, func(tx txn.Tx) (err error) {
		claimed, err = t.grants.ClaimTx(tx, stored, now, now.Add(refreshTimeout))
		return err
	})
	return claimed, err
}

// refresh replaces the token. The new one is stored even if the call that needed
// it was cancelled: the old one may be invalid from now on.
func (t *tokens) refresh(ctx context.Context, stored *Grant, g *granted) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
	defer cancel()
	token, err := t.oauth.Refresh(authz.WithTenant(ctx, t.tenant), g.Provider, g.Client, g.Token.Refresh)
	switch {
	case errors.Is(err, ErrInvalidGrant):
		if err := t.writer.Write(ctx, func(tx txn.Tx) error { return t.grants.DeleteVersionTx(tx, stored) }); err != nil {
			return "", err
		}
		return "", ErrUnauthorized
	case err != nil:
		return "", errors.Join(err, t.writer.Write(ctx, func(tx txn.Tx) error { return t.grants.ReleaseTx(tx, stored) }))
	}
	if token.Refresh == "" {
		token.Refresh = g.Token.Refresh
	}
	g.Token = token
	sealed, err := t.sealGrant(t.tenant, t.server, g)
	if err != nil {
		return "", err
	}
	err = t.writer.Write(ctx, func(tx txn.Tx) error { return t.grants.UpdateTx(tx, stored, sealed) })
	return token.Access, err
}
