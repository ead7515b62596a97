package console_test

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
)

// nobody authenticates nobody: the pages hold no data, and need no credential.
type nobody struct{}

func (nobody) Authenticate(context.Context, string) (authz.Caller, error) {
	return authz.Caller{}, fault.New(fault.Unauthenticated, "", "No.")
}

func (nobody) AuthenticateSession(context.Context, string) (authz.Caller, time.Duration, error) {
	return authz.Caller{}, 0, fault.New(fault.Unauthenticated, "", "No.")
}

func (nobody) Valid(context.Context, authz.Caller) error { return nil }
