package app

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"agentd/internal/app/banner"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/wire/sandbox"
)

// Garbage collection: an idle agentd is small, and a busy one may use some
// memory to spare the collector. GOGC and GOMEMLIMIT override.
const gcPercent = 120

// Serve runs agentd until ctx ends or the server fails. What a person should
// know goes to out, the log to errs; program is what they type to run agentd.
func Serve(ctx context.Context, cfg config.Config, version, program string, out, errs io.Writer) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	buffered := newLogWriter(errs)
	defer buffered.flush()
	log := newLogger(cfg.Observability, buffered)
	protect(cfg, log)
	stopTraces, err := traces(ctx, cfg.Observability, version)
	if err != nil {
		return err
	}
	defer stopTraces(context.WithoutCancel(ctx))
	a, err := Start(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer a.Stop(context.WithoutCancel(ctx))
	if err := banner.Write(out, a.describe(version, program)); err != nil {
		return err
	}
	// What only the start needed goes back to the system. Pools let go of theirs
	// at the second collection.
	runtime.GC()
	debug.FreeOSMemory()
	select {
	case <-ctx.Done():
		log.Info("stopping")
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

func newLogger(c config.Observability, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.Level()}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
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
func (a *App) describe(version, program string) banner.Info {
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
	return i
}
