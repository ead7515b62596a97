// Package apptest starts whole servers for tests and talks to them as a client
// does. Start runs agentd in the test's own process, with data of its own and a
// simulated model; BuildProcess runs the program as a process that can be
// killed. A Server's methods send requests and fail the test when the answer is
// not the expected one; Admin works on the server's database beside it.
//
// Each package in test/e2e tests one area with it, and calls Main in its
// TestMain. What belongs to one area's tests alone stays in that package.
package apptest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"testing"

	"agentd/internal/app"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// OwnerKey is the owner's key of every server that Start makes.
const OwnerKey = "svc_ownerkey_0123456789abcdefghijklmnopqrstuv"

// Server is a running agentd and the key with which its methods call it.
type Server struct {
	T      testing.TB // which a failing method fails
	App    *app.App
	Config config.Config
	URL    string
	Key    string
}

// Start runs agentd on a free port with data of its own and a simulated model.
func Start(t testing.TB, sim *modeltest.Server, adjust ...func(*config.Config)) *Server {
	t.Helper()
	return Restart(t, configured(t, sim, adjust...))
}

func configured(t testing.TB, sim *modeltest.Server, adjust ...func(*config.Config)) config.Config {
	t.Helper()
	cfg := config.Config{}
	cfg.Server.Listen = "127.0.0.1:0"
	cfg.Server.RateLimits = "off" // tests ask more often than people do
	cfg.Storage.DataDir = sqldbtest.Migrated(t, sqldbtest.SQLite).Dir
	cfg.Security.OwnerKey = secret.New(OwnerKey)
	if sim != nil {
		cfg.Models.BaseURL = sim.URL
		cfg.Models.APIKey = secret.New("operator-key")
		cfg.Models.Model = "sim-model"
	}
	for _, f := range adjust {
		f(&cfg)
	}
	return cfg
}

// Restart runs agentd again with what an earlier one left.
func Restart(t testing.TB, cfg config.Config) *Server {
	t.Helper()
	level := slog.LevelError
	if os.Getenv("AGENTD_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return restart(t, cfg, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level})))
}

// StartLogging is Start with a server that logs everything to w.
func StartLogging(t testing.TB, w io.Writer, sim *modeltest.Server, adjust ...func(*config.Config)) *Server {
	t.Helper()
	return restart(t, configured(t, sim, adjust...), slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})))
}

// StartRecording is Start with a server that calls sent with every statement that it
// sends to its database.
func StartRecording(t testing.TB, sent func(sqldb.Sent), sim *modeltest.Server, adjust ...func(*config.Config)) *Server {
	t.Helper()
	return restartIn(sqldb.WithRecorder(t.Context(), sent), t, configured(t, sim, adjust...), slog.New(slog.DiscardHandler))
}

func restart(t testing.TB, cfg config.Config, log *slog.Logger) *Server {
	t.Helper()
	return restartIn(t.Context(), t, cfg, log)
}

func restartIn(ctx context.Context, t testing.TB, cfg config.Config, log *slog.Logger) *Server {
	t.Helper()
	a, err := app.Start(ctx, cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	n := &Server{T: t, App: a, Config: cfg, URL: "http://" + a.Address(), Key: OwnerKey}
	t.Cleanup(n.Stop)
	return n
}

// Stop ends the server; it may be called twice.
func (n *Server) Stop() { n.App.Stop(context.Background()) }

var addresses atomic.Uint32

// setAddress lets each request come from an address of its own, where the server
// believes X-Forwarded-For (AddressPerRequest).
func (n *Server) setAddress(req *http.Request) {
	if n.Config.Server.TrustedProxies != "" && req.Header.Get("X-Forwarded-For") == "" {
		a := addresses.Add(1)
		req.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", a>>16&255, a>>8&255, a&255))
	}
}

// WithT returns the same server for a subtest.
func (n *Server) WithT(t testing.TB) *Server {
	other := *n
	other.T = t
	return &other
}

// WithKey returns the same server, called with another key.
func (n *Server) WithKey(key string) *Server {
	other := *n
	other.Key = key
	return &other
}
