// Package httpapitest serves routes over real HTTP in the tests of packages that
// define them.
package httpapitest

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/edge/httpapi"
)

// Keys maps API keys to their callers. It implements [httpapi.Authenticator].
type Keys map[string]authz.Caller

// Authenticate implements httpapi.Authenticator.
func (k Keys) Authenticate(_ context.Context, key string) (authz.Caller, error) {
	if who, known := k[key]; known {
		return who, nil
	}
	return authz.Caller{}, fault.New(fault.Unauthenticated, "", "no such key")
}

// AuthenticateSession implements httpapi.Authenticator.
func (Keys) AuthenticateSession(context.Context, string) (authz.Caller, time.Duration, error) {
	return authz.Caller{}, 0, fault.New(fault.Unauthenticated, "", "no such session")
}

// Valid implements httpapi.Authenticator.
func (Keys) Valid(context.Context, authz.Caller) error { return nil }

// Serve serves rows until the test ends.
func Serve(t testing.TB, keys Keys, rows []httpapi.Raw) (url string, api *httpapi.Server) {
	t.Helper()
	api, err := httpapi.New(httpapi.Config{Raw: rows, Auth: keys, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		if err := api.Serve(l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		_ = api.Shutdown(context.WithoutCancel(t.Context())) // it may have been called before
		served.Wait()
	})
	return "http://" + l.Addr().String(), api
}
