// Package app is the composition root: it builds every part of agentd from
// the configuration, starts and stops them in order, and holds no logic of its
// own. Only the command line and end-to-end tests import it.
package app

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/accounts/identity"
	"agentd/internal/agents/modelproxy"
	"agentd/internal/agents/providerkey"
	"agentd/internal/base/clock"
	"agentd/internal/base/config"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/edge/httpapi"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
	"agentd/internal/store/natsbus"
	"agentd/internal/store/sqldb"
	"agentd/internal/wire/openaiclient"
	"agentd/internal/wire/outbound"
)

// Times of leases and of stopping.
const (
	lease     = 15 * time.Second
	drainTime = 10 * time.Second
)

// maxRuns is how many runs a node drives at once. They mostly wait for
// models; what comes beyond is queued for any node.
const maxRuns = 4096

// App is a running agentd.
type App struct {
	cfg    config.Config
	log    *slog.Logger
	clock  clock.Clock
	node   string
	stops  []func(context.Context) // in the order of starting
	failed chan error

	metrics  *prometheus.Registry
	box      *secret.Box
	db       *sqldb.DB
	hub      *event.Hub
	people   *identity.Service
	audit    *audit.Log
	server   *httpapi.Server
	routes   []route.Route
	raw      []httpapi.Raw
	listener net.Listener
	bound    atomic.Pointer[string] // its address, once there is one
	grant    identity.Grant
	first    bool // this start made the first tenant
	models   *model.Catalogue
	breaker  *model.Breaker    // before every endpoint
	gateway  *modelproxy.Proxy // the model proxy
	plans    *quota.Plans
	wire     *openaiclient.Client
	keys     *providerkey.Service // tenants' keys of model providers
	guarded  *outbound.Client     // for addresses that tenants choose
	hooks    *outbound.Client     // for the webhooks among them
	embedder model.Embedder       // nil: none is configured
}

// Start builds and starts everything. On an error nothing is left running.
func Start(ctx context.Context, cfg config.Config, log *slog.Logger) (_ *App, err error) {
	a := &App{cfg: cfg, log: log, clock: clock.System{}, metrics: prometheus.NewRegistry(), failed: make(chan error, 1)}
	defer func() {
		if err != nil {
			a.Stop(context.WithoutCancel(ctx))
		}
	}()
	for _, part := range []func(context.Context) error{a.openStorage, a.openBus, a.build, a.listen} {
		if err = part(ctx); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Address is where the server listens, as host:port.
func (a *App) Address() string { return a.listener.Addr().String() }

// Failed receives the error that ends a running server.
func (a *App) Failed() <-chan error { return a.failed }

// FirstKey is the owner's key, where this start made the first tenant.
func (a *App) FirstKey() (identity.Grant, bool) { return a.grant, a.first }

// Stop ends everything in the reverse order of starting: requests and streams
// first, then runs, which go on at the next start, then the database.
func (a *App) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	for _, stop := range slices.Backward(a.stops) {
		stop(ctx)
	}
	a.stops = nil
}

func (a *App) onStop(f func(context.Context)) { a.stops = append(a.stops, f) }

// openStorage opens and migrates the database and learns this node's name. A
// data directory serves one node: its name says whose leases are free again
// after a crash.
func (a *App) openStorage(ctx context.Context) error {
	dir := a.cfg.Storage.DataDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("the data directory: %w", err)
	}
	unlock, err := sqldb.LockDir(dir)
	if err != nil {
		return err
	}
	a.onStop(func(context.Context) {
		if err := unlock(); err != nil {
			a.log.Warn("unlocking the data directory", "err", err)
		}
	})
	if a.node, err = nodeName(dir); err != nil {
		return err
	}
	c := sqldb.Config{URL: a.cfg.Storage.DatabaseURL.Reveal(), Logger: a.log, Metrics: observeWrites(a.metrics)}
	if c.URL == "" {
		c.Dir = dir
	}
	if a.db, err = sqldb.Open(ctx, c); err != nil {
		return err
	}
	a.onStop(func(context.Context) {
		if err := a.db.Close(); err != nil {
			a.log.Error("closing the database", "err", err)
		}
	})
	return a.db.Migrate(ctx)
}

func nodeName(dir string) (string, error) {
	path := filepath.Join(dir, "node_id")
	b, err := os.ReadFile(path)
	if err == nil && ident.Valid(string(b)) {
		return string(b), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	name := ident.New()
	return name, os.WriteFile(path, []byte(name), 0o600)
}

func (a *App) openBus(context.Context) error {
	master, err := a.cfg.MasterKey()
	if err != nil {
		return err
	}
	if a.box, err = secret.NewBox(master); err != nil {
		return err
	}
	a.hub = event.NewHub()
	bus, err := natsbus.Open(natsbus.Config{
		URL: a.cfg.Bus.NATSURL.Reveal(), Listen: a.cfg.Bus.NATSListen,
		Token: hex.EncodeToString(a.box.Derive("nats")), Node: a.node, Logger: a.log,
	}, a.hub)
	if err != nil {
		return err
	}
	a.onStop(func(context.Context) { bus.Close() })
	return nil
}
