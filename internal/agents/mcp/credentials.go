package mcp

import (
	"context"
	"crypto/subtle"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
)

// credentials keeps the grants of servers, sealed, and renews their tokens.
type credentials struct {
	writer txn.Writer
	grants Grants
	oauth  OAuth
	box    *secret.Box
	clock  clock.Clock
}

// grant returns the grant of a server, nil if it has none.
func (c *credentials) grant(ctx context.Context, tenant, server string) (*Grant, *granted, error) {
	stored, err := c.grants.Get(ctx, tenant, server)
	if err != nil || stored == nil {
		return nil, nil, err
	}
	text, err := c.box.Open(stored.Sealed, grantContext(tenant, server))
	if err != nil {
		return nil, nil, err
	}
	g := new(granted)
	return stored, g, json.Unmarshal(text, g)
}

// granted reports whether a person has authorized the server.
func (c *credentials) granted(ctx context.Context, t *Target) bool {
	stored, err := c.grants.Get(ctx, t.TenantID, t.ServerID)
	return err == nil && stored != nil
}

// sealGrant returns a grant as it is stored.
func (c *credentials) sealGrant(tenant, server string, g *granted) ([]byte, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	return c.box.Seal(text, grantContext(tenant, server)), nil
}

// addPending stores an authorization for which a person is sent away.
func (c *credentials) addPending(ctx context.Context, tenant, id, server string, p *pending) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return c.writer.Write(ctx, func(tx txn.Tx) error {
		now := c.clock.Now()
		return c.grants.CreatePendingTx(tx, Pending{
			TenantID: tenant, ID: id, ServerID: server, Expires: now.Add(pendingLife),
			Sealed: c.box.Seal(text, pendingContext(tenant, id)),
		}, now)
	})
}

// takePending removes and returns the authorization that a callback ends. Errors:
// fault.Malformed if it was taken before or has expired, and if another browser began
// it.
func (c *credentials) takePending(ctx context.Context, state sealedState, browser string) (*pending, *Pending, error) {
	var stored *Pending
	p := new(pending)
	err := c.writer.Write(ctx, func(tx txn.Tx) (err error) {
		stored, err = c.grants.ConsumePendingTx(tx, state.Tenant, state.ID)
		if err != nil || stored == nil || c.clock.Now().After(stored.Expires) {
			return err
		}
		text, err := c.box.Open(stored.Sealed, pendingContext(state.Tenant, state.ID))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, p); err != nil {
			return err
		}
		if subtle.ConstantTimeCompare(p.Browser, hashBrowser(browser)) != 1 {
			return otherBrowser() // rolls back: the browser that began can still complete it
		}
		return nil
	})
	if err == nil && (stored == nil || c.clock.Now().After(stored.Expires)) {
		err = invalidState()
	}
	return p, stored, err
}

func otherBrowser() error {
	return fault.New(fault.Malformed, "",
		"Another browser began this authorization, or this one does not keep cookies; start again, in the browser in which you are signed in.")
}

func grantContext(tenant, server string) string { return "mcp_grant/" + tenant + "/" + server }
func pendingContext(tenant, id string) string   { return "mcp_pending/" + tenant + "/" + id }
