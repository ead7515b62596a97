// Package egress checks the addresses that tenants save and that the program calls
// for them later: webhooks, endpoints of models, MCP servers.
package egress

import (
	"context"
	"slices"
	"sync"

	"agentd/internal/base/fault"
)

// CheckFunc returns why the calls of a tenant may not reach a URL. It may look the
// host up, so it is not called in a transaction. A name that does not resolve passes:
// every call checks the address again. Errors: fault.Invalid, whose Detail is the
// message for the field; any other error is a failure to check.
type CheckFunc func(ctx context.Context, tenant, url string) error

// Address is a URL in a body.
type Address struct {
	Field string // its path in the body
	URL   string
}

// CheckNew checks the addresses of a body that are not among those that are stored
// already, all at a time. A nil CheckFunc accepts everything. Errors: fault.Invalid
// with every refused field; those of the CheckFunc.
func (check CheckFunc) CheckNew(ctx context.Context, tenant string, stored, sent []Address) error {
	if check == nil {
		return nil
	}
	outcomes := make([]error, len(sent))
	var wg sync.WaitGroup
	for i, a := range sent {
		if !slices.ContainsFunc(stored, func(known Address) bool { return known.URL == a.URL }) {
			wg.Go(func() { outcomes[i] = check(ctx, tenant, a.URL) })
		}
	}
	wg.Wait()
	var refused []fault.Field
	for i, err := range outcomes {
		switch {
		case fault.Is(err, fault.Invalid):
			refused = append(refused, fault.Field{Field: sent[i].Field, Message: fault.From(err).Detail})
		case err != nil:
			return err
		}
	}
	if refused != nil {
		return fault.BadFields(refused...)
	}
	return nil
}
