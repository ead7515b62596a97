package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"agentd/internal/accounts/signin"
	"agentd/internal/app/banner"
	"agentd/internal/app/shortlog"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/wire/sandbox"
)

// Garbage collection: an idle agentd is small, and a busy one may use some
// memory to spare the collector. GOGC and GOMEMLIMIT override.
const (
	gcPercent      = 120
	gcPercentStart = 50 // what lives on lies close together, and pages of what does not go back
)

// ErrCtrlC is the cause of a context that ends because a person pressed Ctrl-C at a
// terminal. Serve then drains for maxCtrlC at most.
var ErrCtrlC = errors.New("interrupted at the terminal")

const maxCtrlC = 3 * time.Second

// Process is what Serve needs to know of the process.
type Process struct {
	Version   string
	Program   string          // what a person types to run agentd
	Out, Errs io.Writer       // for what a person should know, and for the log
	Terminal  bool            // Errs is a terminal
	Cut       <-chan struct{} // closed to stop at once; nil: never
}

// Serve runs agentd until ctx ends or the server fails. When ctx ends it drains
// for as long as is configured, or until process.Cut is closed.
func Serve(ctx context.Context, cfg config.Config, process Process) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercentStart)
	}
	buffered := newLogWriter(process.Errs)
	defer buffered.flush()
	log := newLogger(cfg.Observability, buffered, process.Terminal)
	protect(cfg, log)
	stopTraces, err := traces(ctx, cfg.Observability, process.Version)
	if err != nil {
		return err
	}
	defer stopTraces(context.WithoutCancel(ctx))
	a, err := start(ctx, cfg, process.Version, log)
	if err != nil {
		return err
	}
	defer a.Stop(context.WithoutCancel(ctx))
	shown, err := a.describe(ctx, process.Version, process.Program)
	if err != nil {
		return err
	}
	if err := banner.Write(process.Out, shown); err != nil {
		return err
	}
	if err := a.platform.start(background(func(ctx context.Context) { a.program.models.probe(ctx, a.platform) })); err != nil {
		return err
	}
	// What only the start needed goes back to the system. Pools let go of theirs
	// at the second collection.
	runtime.GC()
	debug.FreeOSMemory()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	select {
	case <-ctx.Done():
		a.drain(ctx, process.Cut)
		return nil
	case err := <-a.failed:
		return err
	}
}

// protect keeps other processes of the same user, and whoever may look at their
// environment, from the secrets of this one, which has read them.
func protect(cfg config.Config, log *slog.Logger) {
	secrets := cfg.Secrets()
	for name := range secrets {
		_ = os.Unsetenv(name) // fails for an empty name
	}
	if err := sandbox.Protect(slices.Collect(maps.Values(secrets))); err != nil {
		log.Warn("this process can be looked into by others of its user", "err", err)
	}
}

// drain drains for as long as is configured, or until cut is closed. ctx has ended.
func (a *App) drain(ctx context.Context, cut <-chan struct{}) {
	timeout := a.platform.cfg.Server.DrainTimeout
	if errors.Is(context.Cause(ctx), ErrCtrlC) {
		timeout = min(timeout, maxCtrlC)
	}
	a.platform.log.Info("stopping; a second signal cuts off what is under way", "drain_timeout", timeout)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		a.Drain(ctx)
	}()
	select {
	case <-drained:
	case <-cut:
		cancel()
		<-drained
	}
}

func newLogger(c config.Observability, w io.Writer, terminal bool) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.Level()}
	switch {
	case c.LogFormat == "json":
		return slog.New(slog.NewJSONHandler(w, opts))
	case c.LogFormat == "short", terminal && c.LogFormat != "text":
		return slog.New(shortlog.New(w, opts.Level))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// traces sends spans to the collector that is configured; without one spans
// cost nothing.
func traces(ctx context.Context, c config.Observability, version string) (stop func(context.Context), err error) {
	if c.OTLPEndpoint == "" {
		return func(context.Context) {}, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.OTLPEndpoint))
	if err != nil {
		return nil, err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(
		sdkresource.NewSchemaless(semconv.ServiceName("agentd"), semconv.ServiceVersion(version))))
	otel.SetTracerProvider(provider)
	return func(ctx context.Context) { _ = provider.Shutdown(ctx) }, nil // spans that are lost at the end are lost
}

// describe returns what the banner prints.
func (a *App) describe(ctx context.Context, version, program string) (banner.Info, error) {
	cfg := a.platform.cfg
	key, first := a.FirstKey()
	i := banner.Info{
		Version: version, Program: program, Listening: a.Address(), PublicURL: cfg.Server.PublicURL,
		Database: "SQLite in " + cfg.Storage.DataDir, Model: a.program.models.catalogue.Default(),
		Endpoint: cfg.Models.BaseURL, FirstStart: first,
	}
	if !cfg.Storage.DatabaseURL.Empty() {
		i.Database = cfg.Storage.DatabaseURL.String()
	}
	if first && cfg.Security.OwnerKey.Empty() {
		i.OwnerKey = secret.New(string(key.RawKey))
	}
	if first {
		token, err := a.program.signIn.NewLink(ctx, key.TenantID, key.UserID)
		if err != nil {
			return banner.Info{}, err
		}
		i.Link = secret.New(signin.LinkPath + "?token=" + token)
	}
	return i, nil
}
