// Package httpapi is the HTTP edge: it mounts rows of routes, passes every
// request through one chain (request id, version, credentials, rate limit, scope
// and role, body limits, problem documents, log, metrics, traces), writes event streams
// and derives the OpenAPI document.
//
// A request is served in the goroutine of its connection. While streams are open,
// one goroutine of the package rechecks their credentials, and a hijacked stream
// has two of its own.
package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/idempotency"
	"agentd/internal/kernel/ratelimit"
)

// Config configures the edge. Auth is required; the zero value of everything else
// is a sensible default.
type Config struct {
	Routes []route.Route
	Raw    []Raw
	// Families have refusals of unknown paths and methods in a shape of their own.
	Families []Family

	Auth Authenticator
	// Fresh refuses callers who must repeat MFA before a dangerous operation. Nil:
	// MFA is never repeated.
	Fresh func(ctx context.Context, who authz.Caller) error
	// TenantNames names companies in the refusal of a request that is meant for
	// another one. Nil: it has ids only.
	TenantNames TenantNames
	// Idempotency stores the answers to writes that carry an Idempotency-Key.
	// Nil: the header is ignored.
	Idempotency *idempotency.Manager
	// RepeatWait is how long a repeated request to a ReplayByRef row waits for the
	// first one's commit; 0: 10 s.
	RepeatWait time.Duration
	// Ready checks whether requests can be answered, that is, whether the database
	// answers. Nil: they always can.
	Ready func(ctx context.Context) error
	// SelfTest sends an event through the live fan-out and waits until it returns,
	// for GET /health/sse. Nil: there is no fan-out to test.
	SelfTest func(ctx context.Context) error

	// Watch is called with refusals and downloads, for the audit log. It does not
	// block. Nil: they are not recorded.
	Watch func(audit.Sighting)

	Log     *slog.Logger         // nil: slog.Default()
	Metrics *prometheus.Registry // nil: a new one, with Go's own metrics; served at /metrics
	Tracer  trace.Tracer         // nil: no spans

	// Limiter counts requests. Nil: only the limits of single rows are enforced.
	Limiter *ratelimit.Limiter
	// Proxies are the networks whose X-Forwarded-For is trusted.
	Proxies []netip.Prefix
	// ProxiesNow takes the place of Proxies, if not nil, and may change.
	ProxiesNow func() []netip.Prefix
	// MaxBodyNow returns how long a JSON body may be, up to MaxBody; it may change. Nil:
	// MaxBody.
	MaxBodyNow func() int64

	PublicURL string // of browsers; https://… turns on secure cookies and HSTS
	TLS       bool   // clients connect to this process over TLS, which has the effect of an https public URL
	Build     string // version of the program, for the health route
	// HideBuild leaves the build out of the health route: it is for the operator.
	HideBuild bool
	// Degraded returns what does not work though the service is healthy; nil: nothing.
	Degraded func() []string
	// HideMetrics lets /metrics not exist here, because Private serves it.
	HideMetrics bool

	BodyBudget   int64         // bytes of large bodies in memory at once; 0: 24 MiB
	BodyTimeout  time.Duration // for a small body to arrive, more for a large one; 0: 20 s
	Heartbeat    time.Duration // of silent streams; 0: 15 s
	RecheckEvery time.Duration // of the credentials of streams; 0: 3 s
	FrameTimeout time.Duration // for a client to take a frame; 0: 10 s
	// Origins are the origins whose pages may call the API, with keys and without
	// cookies; "*" is any. Empty: none but the service's own.
	Origins func() []string
	// TenantStreams returns how many event streams a tenant may have open at once;
	// 0: any number. Nil: any number.
	TenantStreams func() int
	// Heartbeats returns after which silence an event stream sends a comment; nil:
	// Heartbeat.
	Heartbeats func() time.Duration
	// Held reports whether a tenant is under a legal hold; nil: none is.
	Held func(tenant string) bool
	// Feature returns the check of a feature that the operator may switch off, which a
	// path belongs to; nil where it belongs to none.
	Feature func(path string) func() error
}

// Server is the edge. It is an http.Handler; Serve and Shutdown run it on a
// listener.
type Server struct {
	auth         Authenticator
	sameOrigin   *http.CrossOriginProtection
	idempotency  *idempotency.Manager
	repeatWait   time.Duration // for the first request, by a repeated one
	fresh        func(context.Context, authz.Caller) error
	held         func(tenant string) bool
	tenantNames  TenantNames
	ready        func(context.Context) error
	selfTest     func(context.Context) error
	watch        func(audit.Sighting)
	log          *slog.Logger
	tracer       trace.Tracer
	https        bool
	build        string
	showsBuild   bool
	hidesMetrics bool
	degraded     func() []string
	started      time.Time

	proxies    proxies
	proxiesNow func() []netip.Prefix // nil: proxies
	limits     *limits
	mux        *mux
	bodies     *bodies
	streams    *streams
	metrics    *metrics
	document   *File
	origins    func() []string
	feature    func(path string) func() error
	draining   atomic.Bool

	http   *http.Server
	base   context.Context         // of every request
	cancel context.CancelCauseFunc // ends base, for requests that outlive a shutdown
}

// New builds the edge. It returns an error for an invalid public URL and panics on
// inconsistent rows, which are programming errors.
func New(c Config) (*Server, error) {
	s := &Server{
		auth: c.Auth, sameOrigin: http.NewCrossOriginProtection(), fresh: c.Fresh, held: c.Held, tenantNames: c.TenantNames,
		idempotency: c.Idempotency, repeatWait: orDefault(c.RepeatWait, 10*time.Second),
		ready: c.Ready, selfTest: c.SelfTest, watch: c.Watch, log: c.Log, tracer: c.Tracer,
		build: c.Build, showsBuild: !c.HideBuild, hidesMetrics: c.HideMetrics, degraded: c.Degraded, https: c.TLS,
		started: time.Now(), mux: newMux(), proxies: c.Proxies, proxiesNow: c.ProxiesNow,
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil || u.Host == "" {
			return nil, errors.New("the public URL must be absolute, such as https://agents.example.com")
		}
		s.https = s.https || u.Scheme == "https"
		if err := s.sameOrigin.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, err
		}
	}
	s.bodies = newBodies(orDefault(c.BodyBudget, 24<<20), orDefault(c.BodyTimeout, 20*time.Second))
	s.bodies.most = c.MaxBodyNow
	s.streams = newStreams(streamTimes{
		heartbeat: orDefault(c.Heartbeat, 15*time.Second),
		recheck:   orDefault(c.RecheckEvery, 3*time.Second),
		frame:     orDefault(c.FrameTimeout, 10*time.Second),
	}, c.TenantStreams, c.Auth.Valid, s.log)
	s.metrics = newMetrics(c.Metrics, s.streams.count)
	s.streams.refused, s.streams.heartbeats = s.metrics.streamsRefused, c.Heartbeats
	s.feature = c.Feature
	s.limits = newLimits(c.Limiter, s.metrics)

	// Rendered on first use: it takes as long as the rest of the start.
	s.document = NewFile("application/json", func() ([]byte, bool, error) {
		document, err := OpenAPI(c.Routes, c.Raw)
		return document, false, err
	})
	if s.origins = c.Origins; s.origins == nil {
		s.origins = func() []string { return nil }
	}
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
	for _, raw := range edgeRoutes(s) {
		if c.HideMetrics && raw.Row.ID == "getMetrics" {
			continue
		}
		s.mount(s.rawOperation(raw))
	}
	unmatched := operation{row: route.Row{Public: true}, serve: s.mux.fallback, meters: s.metrics.of("", "")}
	s.mux.unmatched = &unmatched
	for _, f := range c.Families {
		shaped := unmatched
		shaped.fail = f.Fail
		s.mux.families = append(s.mux.families, family{under: f.Under, unmatched: &shaped})
	}
	slices.SortFunc(s.mux.families, func(a, b family) int { return len(b.under) - len(a.under) })
}

func (s *Server) mount(o *operation) {
	o.name, o.limits = o.row.Method+" "+o.row.Path, ratelimit.Rules(o.row.Limits)
	o.meters = s.metrics.of(o.row.Method, o.row.Path)
	s.obeyFeature(o)
	s.mux.mount(o)
}

// Serve answers on a listener until Shutdown; it then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Drain announces that the server is going to stop: readiness turns false, and the
// readers of streams that can be resumed get the end of the stream, to reconnect
// elsewhere. Requests, also for streams, are still served.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.streams.drain(false)
}

// Shutdown stops gracefully: readiness turns false, nothing new is accepted,
// streams that can be resumed end at once, and other requests may finish until
// ctx ends. It returns ctx's error if requests had to be cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.cancel(errDraining)
	s.draining.Store(true)
	s.streams.drain(true)
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
