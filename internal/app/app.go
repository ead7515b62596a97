// Package app is the composition root: it builds every part of agentd from
// the configuration, starts and stops them in order, and holds no logic of its
// own. Only the command line and end-to-end tests import it.
//
// platform is what all parts stand on. Each part_*.go builds one area and returns
// what it adds to the program as a value (part); build lists them in order.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/signin"
	"agentd/internal/base/config"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/engine"
)

// cutTime is how long Stop waits for what it has cut off.
const cutTime = 10 * time.Second

// loneTime is how long requests may still take on SQLite once all runs have
// stopped: this is the only node, so that a request that waits for a run waits in
// vain.
const loneTime = time.Second

// App is a running agentd.
type App struct {
	platform *platform
	program  *program
	listener net.Listener
	private  net.Listener // of metrics; nil: they are on listener
	failed   chan error
}

// program is what is built on a platform.
type program struct {
	accounts *accounts
	models   *models
	signIn   *signin.Service
	parts    []part
	server   *httpapi.Server
}

// Start builds and starts everything. On an error nothing is left running.
func Start(ctx context.Context, cfg config.Config, log *slog.Logger) (*App, error) {
	return start(ctx, cfg, "dev", log)
}

func start(ctx context.Context, cfg config.Config, version string, log *slog.Logger) (_ *App, err error) {
	level := newLevelHandler(log.Handler())
	p := &platform{cfg: cfg, version: version, log: slog.New(level), level: level, metrics: prometheus.NewRegistry()}
	a := &App{platform: p, failed: make(chan error, 1)}
	defer func() {
		if err != nil {
			a.Stop(context.WithoutCancel(ctx))
		}
	}()
	if err := openPlatform(ctx, p); err != nil {
		return nil, err
	}
	if a.program, err = build(ctx, p); err != nil {
		return nil, err
	}
	if err := a.startServices(); err != nil {
		return nil, err
	}
	if err := a.startWorkers(); err != nil {
		return nil, err
	}
	return a, a.listen(ctx)
}

// Address is where the server listens, as host:port.
func (a *App) Address() string { return a.listener.Addr().String() }

// Failed receives the error that ends a running server.
func (a *App) Failed() <-chan error { return a.failed }

// FirstKey returns the owner's key, where this start made the first tenant.
func (a *App) FirstKey() (identity.Grant, bool) {
	return a.program.accounts.grant, a.program.accounts.first
}

// Routes returns what the server serves.
func (a *App) Routes() ([]route.Route, []httpapi.Raw) { return routesOf(a.program.parts) }

// Drain lets what is under way come to its end, until ctx ends: the server reports
// that it is not ready, nothing new is claimed, and each handler of work returns at
// the end of its present step. Requests are served until then. Stop comes next.
func (a *App) Drain(ctx context.Context) {
	server := a.program.server
	server.Drain()
	var handlers sync.WaitGroup
	for _, w := range a.workers() {
		handlers.Go(func() {
			if err := w.runner.Drain(ctx); err != nil {
				a.platform.log.Warn("some work did not end in time and is cut off", "kind", w.kind, "items", w.runner.Running())
			}
		})
	}
	handlers.Wait()
	if !a.platform.db.Postgres() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, loneTime)
		defer cancel()
	}
	a.shutdown(ctx)
}

// Stop ends everything in the reverse order of starting: requests and streams
// first, then runs, which go on at the next start, then the database.
func (a *App) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cutTime)
	defer cancel()
	a.platform.stop(ctx)
}

func (a *App) startServices() error {
	for _, part := range a.program.parts {
		for _, s := range part.services {
			if err := a.platform.start(s); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	return nil
}

// startWorkers starts the runners of all parts, which wake when work of their
// kind becomes due on any node.
func (a *App) startWorkers() error {
	a.platform.observeQueue(a.workersOfParts())
	all := a.workers()
	wake := func(kind string) {
		for _, w := range all {
			if w.kind == kind {
				w.runner.Wake()
			}
		}
	}
	if err := a.platform.start(a.platform.onSignal(signalWork, wake)); err != nil {
		return err
	}
	for _, w := range all {
		if err := a.platform.start(a.running(w)); err != nil {
			return err
		}
		if w.kind == engine.WorkKind {
			running := w.runner.Running
			a.platform.running.Store(&running)
		}
	}
	return nil
}

// workers returns the runners that run on this node: none where it only serves the API.
func (a *App) workers() []worker {
	if a.platform.cfg.Server.Role == config.RoleAPI {
		return nil
	}
	return a.workersOfParts()
}

func (a *App) workersOfParts() (all []worker) {
	for _, part := range a.program.parts {
		all = append(all, part.workers...)
	}
	return all
}

// running is a worker as a service.
func (a *App) running(w worker) service {
	return func() (func(context.Context), error) {
		return func(ctx context.Context) {
			if err := w.runner.Stop(ctx); err != nil {
				a.platform.log.Warn("work did not stop in time; it goes on at the next start", "kind", w.kind, "err", err)
			}
		}, w.runner.Start()
	}
}

// listen opens the address and serves requests on it.
func (a *App) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if a.listener, err = lc.Listen(ctx, "tcp", a.platform.cfg.Server.Listen); err != nil {
		return listenError("AGENTD_LISTEN", err)
	}
	address := a.listener.Addr().String()
	a.platform.address.Store(&address)
	if a.platform.cfg.Server.Unencrypted() {
		a.platform.log.Warn("keys and answers travel in clear: agentd listens beyond this machine, without TLS (AGENTD_TLS_CERT) "+
			"and without an https address in front of it (AGENTD_PUBLIC_URL)", "listen", address)
	}
	serving := a.listener
	if cfg := a.platform.cfg.Server; cfg.TLSCert != "" {
		certificate, err := httpapi.LoadCertificate(cfg.TLSCert, cfg.TLSKey, a.platform.log)
		if err != nil {
			return errors.Join(fmt.Errorf("AGENTD_TLS_CERT: %w", err), a.listener.Close())
		}
		serving = tls.NewListener(a.listener, certificate.Config())
	}
	if err := a.listenPrivately(ctx); err != nil {
		return errors.Join(err, a.listener.Close())
	}
	if a.platform.cfg.Server.Role == config.RoleWorker {
		return a.serveOn(serving, a.program.server.Probes())
	}
	return a.platform.start(func() (func(context.Context), error) {
		go func() {
			if err := a.program.server.Serve(serving); err != nil {
				a.failed <- err
			}
		}()
		return a.shutdown, nil
	})
}

// listenError names the setting, and what to do where the address is taken.
func listenError(setting string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s: %w: another program uses the port; stop it, or set %s to another one, as 127.0.0.1:9000", setting, err, setting)
	}
	return fmt.Errorf("%s: %w", setting, err)
}

// listenPrivately serves metrics on a listener of their own, if one is configured.
func (a *App) listenPrivately(ctx context.Context) error {
	listen := a.platform.cfg.Server.MetricsListen
	if listen == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return listenError("AGENTD_METRICS_LISTEN", err)
	}
	a.private = l
	return a.serveOn(l, a.program.server.Private())
}

// serveOn serves a listener beside the API's server.
func (a *App) serveOn(l net.Listener, server *http.Server) error {
	return a.platform.start(func() (func(context.Context), error) {
		go func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				a.failed <- err
			}
		}()
		return func(context.Context) { _ = server.Close() }, nil
	})
}

// MetricsAddress is where metrics are served, if they have a listener of their own.
func (a *App) MetricsAddress() string {
	if a.private == nil {
		return ""
	}
	return a.private.Addr().String()
}

// shutdown ends the server once its requests are answered, or when ctx ends.
func (a *App) shutdown(ctx context.Context) {
	if err := a.program.server.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
		a.platform.log.Warn("some requests had to be cut off", "err", err)
	}
}
