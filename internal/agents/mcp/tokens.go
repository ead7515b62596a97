package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

const (
	// refreshEarly is how long before its end a token is replaced.
	refreshEarly = 30 * time.Second
	// refreshTimeout is how long one caller may take to refresh, on whatever node.
	refreshTimeout = 20 * time.Second
	// refreshPoll is how often the others look whether it is done.
	refreshPoll = 50 * time.Millisecond
)

// tokens implements Tokens with the grant of one server.
type tokens struct {
	s              *Service
	tenant, server string
	origin         string
}

// Token implements Tokens. One caller of all nodes refreshes at a time, because
// a refresh token may count once only; the others wait for what it gets.
func (t *tokens) Token(ctx context.Context, rejected string) (string, error) {
	deadline := t.s.Clock.Now().Add(2 * refreshTimeout)
	for {
		stored, g, err := t.s.grant(ctx, t.tenant, t.server)
		if err != nil || g == nil || g.Origin != t.origin {
			return "", err // a server that is about to move is tried before it is stored
		}
		now := t.s.Clock.Now()
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
	err = t.s.write(ctx, func(tx txn.Tx) (err error) {
		claimed, err = t.s.Grants.ClaimTx(tx, stored, now, now.Add(refreshTimeout))
		return err
	})
	return claimed, err
}

// refresh replaces the token. What a provider gave is stored even if the call
// that wanted it is over: the old one may not count any more.
func (t *tokens) refresh(ctx context.Context, stored *Grant, g *granted) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
	defer cancel()
	token, err := t.s.OAuth.Refresh(ctx, g.Provider, g.Client, g.Token.Refresh)
	switch {
	case errors.Is(err, ErrInvalidGrant):
		if err := t.s.write(ctx, func(tx txn.Tx) error { return t.s.Grants.DeleteVersionTx(tx, stored) }); err != nil {
			return "", err
		}
		return "", ErrUnauthorized
	case err != nil:
		return "", errors.Join(err, t.s.write(ctx, func(tx txn.Tx) error { return t.s.Grants.ReleaseTx(tx, stored) }))
	}
	if token.Refresh == "" {
		token.Refresh = g.Token.Refresh
	}
	g.Token = token
	text, err := json.Marshal(g)
	if err != nil {
		return "", err
	}
	err = t.s.write(ctx, func(tx txn.Tx) error {
		return t.s.Grants.UpdateTx(tx, stored, t.s.box().Seal(text, grantContext(t.tenant, t.server)))
	})
	return token.Access, err
}

// grant reads what there is; nil: nothing.
func (s *Service) grant(ctx context.Context, tenant, server string) (*Grant, *granted, error) {
	stored, err := s.Grants.Get(ctx, tenant, server)
	if err != nil || stored == nil {
		return nil, nil, err
	}
	text, err := s.box().Open(stored.Sealed, grantContext(tenant, server))
	if err != nil {
		return nil, nil, err
	}
	g := new(granted)
	return stored, g, json.Unmarshal(text, g)
}

// granted says whether a person has authorized the server.
func (s *Service) granted(ctx context.Context, t *Target) bool {
	stored, err := s.Grants.Get(ctx, t.TenantID, t.ServerID)
	return err == nil && stored != nil
}
