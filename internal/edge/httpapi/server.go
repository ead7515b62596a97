// Package httpapi is the HTTP edge: it mounts rows of routes, passes every
// request through one chain (request id, version, credentials, rate limit, scope
// and role, body limits, problem documents, log, metrics, traces), writes event streams
// and derives the OpenAPI document.
//
// A request is served in the goroutine of its connection. The only goroutine
// that the package starts checks the credentials of open streams again; it
// runs while there are any.
package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/kernel/idempotency"
	"agentd/internal/kernel/ratelimit"
)

// Config is what the edge is made of. Auth is required; the zero value of
// everything else is a sensible default.
type Config struct {
	Routes []route.Route
	Raw    []Raw

	Auth Authenticator
	// Fresh refuses callers who must show their second factor again before
	// something dangerous. Nil: nobody must.
	Fresh func(ctx context.Context, who authz.Caller) error
	// Idempotency keeps the answers to writes that carry an Idempotency-Key.
	// Nil: the header is not read.
	Idempotency *idempotency.Keeper
	// OncePatience is how long a repetition of a write that is Attached waits for
	// the first request's commit; 0: 10 s.
	OncePatience time.Duration
	// Ready says whether requests can be answered: whether the database is
	// there. Nil: always.
	Ready func(ctx context.Context) error
	// Echo sends an event through the live fan-out and waits until it is back,
	// for GET /health/sse. Nil: there is none to try.
	Echo func(ctx context.Context) error

	Log     *slog.Logger         // nil: slog.Default()
	Metrics *prometheus.Registry // nil: a new one, with Go's own metrics; served at /metrics
	Tracer  trace.Tracer         // nil: no spans

	// Limiter counts requests. Nil: one without limits for all, which still keeps
	// those of rows.
	Limiter *ratelimit.Limiter
	// Proxies are the networks whose X-Forwarded-For counts.
	Proxies []netip.Prefix

	PublicURL string // https://…: browsers come from there, and only over TLS
	Build     string // of the program, for the health route

	BodyBudget   int64         // bytes of big bodies in memory at once; 0: 32 MiB
	BodyTimeout  time.Duration // for a small body to arrive, a big one gets more; 0: 20 s
	Heartbeat    time.Duration // of silent streams; 0: 15 s
	RecheckEvery time.Duration // of the credentials of streams; 0: 3 s
	FrameTimeout time.Duration // for a frame to be taken by a reader; 0: 10 s
	// TenantStreams is how many event streams a tenant may have open at once;
	// 0: any number.
	TenantStreams int
}

// Server is the edge. It is an http.Handler; Serve and Shutdown run it on a
// listener.
type Server struct {
	auth       Authenticator
	sameOrigin *http.CrossOriginProtection
	once       *idempotency.Keeper
	patience   time.Duration // of a repetition with the first request
	fresh      func(context.Context, authz.Caller) error
	ready      func(context.Context) error
	echo       func(context.Context) error
	log        *slog.Logger
	tracer     trace.Tracer
	https      bool
	build      string
	started    time.Time

	proxies  proxies
	limits   *limits
	mux      *mux
	bodies   *bodies
	streams  *streams
	metrics  *metrics
	document func() ([]byte, error)
	draining atomic.Bool

	http   *http.Server
	base   context.Context         // that of every request
	cancel context.CancelCauseFunc // ends it, for the requests that outlive a shutdown
}

// New builds the edge. Errors: a public URL that is none. It panics on rows
// that contradict themselves: mistakes of the program that a start reveals.
func New(c Config) (*Server, error) {
	s := &Server{
		auth: c.Auth, sameOrigin: http.NewCrossOriginProtection(), once: c.Idempotency, patience: orDefault(c.OncePatience, 10*time.Second), fresh: c.Fresh, ready: c.Ready, echo: c.Echo, log: c.Log, tracer: c.Tracer,
		build: c.Build, started: time.Now(), mux: newMux(), proxies: c.Proxies,
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil || u.Host == "" {
			return nil, errors.New("the public URL must be absolute, such as https://agents.example.com")
		}
		s.https = u.Scheme == "https"
		if err := s.sameOrigin.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, err
		}
	}
	s.bodies = newBodies(orDefault(c.BodyBudget, 32<<20), orDefault(c.BodyTimeout, 20*time.Second))
	s.streams = newStreams(streamTimes{
		heartbeat: orDefault(c.Heartbeat, 15*time.Second),
		recheck:   orDefault(c.RecheckEvery, 3*time.Second),
		frame:     orDefault(c.FrameTimeout, 10*time.Second),
	}, c.TenantStreams, c.Auth.Valid, s.log)
	s.metrics = newMetrics(c.Metrics, s.streams.count)
	s.streams.refused = s.metrics.streamsRefused
	s.limits = newLimits(c.Limiter, s.metrics)

	// Made when somebody asks for it: it takes as long as the rest of the start.
	s.document = sync.OnceValues(func() ([]byte, error) { return OpenAPI(c.Routes, c.Raw) })
	s.mountAll(c)

	ctx, cancel := context.WithCancelCause(context.Background())
	s.base, s.cancel = ctx, cancel
	s.http = &http.Server{
		Handler:                      s,
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout:            5 * time.Second,
		WriteTimeout:                 answerTimeout, // renewed by exchange.Write
		IdleTimeout:                  2 * time.Minute,
		MaxHeaderBytes:               64 << 10,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func (s *Server) mountAll(c Config) {
	for _, r := range c.Routes {
		s.mount(s.routeOperation(r))
	}
	for _, raw := range c.Raw {
		s.mount(s.rawOperation(raw))
	}
	for _, raw := range own(s) {
		s.mount(s.rawOperation(raw))
	}
	s.mux.unmatched = &operation{row: route.Row{Public: true}, serve: s.mux.fallback, meters: s.metrics.of("", "")}
}

func (s *Server) mount(o *operation) {
	o.name, o.limits = o.row.Method+" "+o.row.Path, ratelimit.Rules(o.row.Limits)
	o.meters = s.metrics.of(o.row.Method, o.row.Path)
	s.mux.mount(o)
}

// Serve answers on a listener until Shutdown; it then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown stops gracefully: readiness turns false, nothing new is accepted,
// streams that can be resumed end at once, and what is left may finish until
// ctx ends. Error: ctx's, where requests had to be cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.cancel(errDraining)
	s.draining.Store(true)
	s.streams.drain()
	err := s.http.Shutdown(ctx)
	if err == nil {
		err = s.streams.wait(ctx)
	}
	if err != nil {
		s.cancel(errDraining)
		_ = s.http.Close()
	}
	return err
}
