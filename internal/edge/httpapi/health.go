package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"runtime/debug"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
)

// health is the answer of the health routes.
type health struct {
	Status    string    `json:"status" enum:"healthy,unhealthy" required:"true"`
	Timestamp time.Time `json:"timestamp" required:"true"`
	Connected bool      `json:"kv_connected" required:"true" doc:"Whether the database answers."`
	Resumes   int       `json:"pending_resumes" required:"true" doc:"Always 0: runs that were interrupted are in the queue, and go on by themselves."`
	Degraded  []string  `json:"degraded,omitzero" doc:"What does not work at the moment: disk_low, where new runs are refused because the disk is nearly full."`
	Uptime    int64     `json:"uptime_seconds" required:"true"`
	Version   string    `json:"version" required:"true" doc:"The date of the API contract, as in X-API-Version."`
	Build     string    `json:"build,omitzero" doc:"Version of the program."`
	BuildSHA  string    `json:"build_sha,omitzero"`
	BuildTime string    `json:"build_time,omitzero"`
}

// readiness is the answer of the readiness routes.
type readiness struct {
	Status     string     `json:"status" enum:"ready,not_ready" required:"true"`
	Timestamp  time.Time  `json:"timestamp" required:"true"`
	Components components `json:"components" required:"true"`
	Checks     checks     `json:"checks" required:"true" doc:"The same as components, in a word each."`
}

type checks struct {
	_ struct{} `json:"-" name:"ReadinessChecks"`

	KV string `json:"kv" enum:"ok,failed" required:"true" doc:"The database."`
}

type components struct {
	_ struct{} `json:"-" name:"ReadinessComponents"`

	KV store `json:"kv" doc:"The database."`
}

type store struct {
	_ struct{} `json:"-" name:"ReadinessComponent"`

	OK        bool    `json:"ok"`
	LatencyMS float64 `json:"latency_ms"`
}

type liveness struct {
	Status string `json:"status" enum:"ok,stopping" required:"true"`
}

// readyTimeout is how long a probe waits for the database.
const readyTimeout = 2 * time.Second

// edgeRoutes lists the operations that the edge itself answers. None needs a key.
// For the OpenAPI document alone, s may be nil.
func edgeRoutes(s *Server) []Raw {
	probe := func(path, id, summary string, answer reflect.Type, serve func(http.ResponseWriter, *http.Request, authz.Caller) error) Raw {
		row := route.Row{Method: http.MethodGet, Path: path, ID: id, Tag: "Health", Summary: summary, Public: true, AnswerOf: answer}
		return Raw{Row: row, Quiet: true, Serve: serve}
	}
	document := probe("/api/v1/openapi.json", "getDocument", "Get this OpenAPI document", nil, s.serveDocument)
	document.Tag = "Meta"
	streaming := probe("/health/sse", "getStreamHealth", "Check event streams with a short one", nil, s.serveStreamHealth)
	streaming.Streams = true
	streaming.Events = &healthEvents
	healthOf, readyOf, liveOf := reflect.TypeFor[health](), reflect.TypeFor[readiness](), reflect.TypeFor[liveness]()
	return []Raw{
		probe("/api/v1/health", "getHealth", "Get the health of the service", healthOf, s.serveHealth),
		probe("/health", "getRootHealth", "Get the health of the service", healthOf, s.serveHealth),
		probe("/healthz", "getHealthz", "Get the health of the service", healthOf, s.serveHealth),
		probe("/health/live", "getLiveness", "Check that the process is running", liveOf, s.serveLive),
		probe("/health/ready", "getReadiness", "Check whether the service is ready for requests", readyOf, s.serveReady),
		probe("/readyz", "getReadyz", "Check whether the service is ready for requests", readyOf, s.serveReady),
		probe("/ready", "getReady", "Check whether the service is ready for requests", readyOf, s.serveReady),
		probe("/metrics", "getMetrics", "Get metrics in the Prometheus text format", nil, s.serveMetrics),
		streaming,
		document,
	}
}

// check reports whether the service is ready for requests, and how long the check
// took.
func (s *Server) check(ctx context.Context) (bool, time.Duration) {
	if s.ready == nil {
		return true, 0
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	start := time.Now()
	err := s.ready(ctx)
	if err != nil {
		s.log.WarnContext(ctx, "not ready", "cause", err)
	}
	return err == nil, time.Since(start)
}

func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	connected, _ := s.check(r.Context())
	h := s.healthOf(connected)
	if s.showsBuild {
		h.describeBuild(s.build)
	}
	return JSON(w, okOr503(connected), h)
}

func (s *Server) healthOf(connected bool) *health {
	h := &health{
		Status: "healthy", Timestamp: time.Now().UTC(), Connected: connected,
		Uptime: int64(time.Since(s.started).Seconds()), Version: APIVersion,
	}
	if s.degraded != nil {
		h.Degraded = s.degraded()
	}
	if !connected {
		h.Status = "unhealthy"
	}
	return h
}

// describeBuild adds what only the operator is shown.
func (h *health) describeBuild(version string) {
	h.Build = version
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				h.BuildSHA = setting.Value
			case "vcs.time":
				h.BuildTime = setting.Value
			}
		}
	}
}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	connected, latency := s.check(r.Context())
	ready := connected && !s.draining.Load()
	doc := readiness{
		Status: "ready", Timestamp: time.Now().UTC(),
		Components: components{KV: store{OK: connected, LatencyMS: float64(latency.Microseconds()) / 1000}},
		Checks:     checks{KV: "ok"},
	}
	if !connected {
		doc.Checks.KV = "failed"
	}
	if !ready {
		doc.Status = "not_ready"
	}
	return JSON(w, okOr503(ready), &doc)
}

func (s *Server) serveLive(w http.ResponseWriter, _ *http.Request, _ authz.Caller) error {
	if s.draining.Load() {
		return JSON(w, http.StatusServiceUnavailable, &liveness{"stopping"})
	}
	return JSON(w, http.StatusOK, &liveness{"ok"})
}

// serveStreamHealth sends the frames connected, ping and done, and [DONE], after a
// test event has passed the live fan-out that all streams depend on.
func (s *Server) serveStreamHealth(_ http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	start := time.Now()
	if s.selfTest != nil {
		if err := s.selfTest(ctx); err != nil {
			return fault.New(fault.Unavailable, "", "Live events are not delivered on this server.").Because(err)
		}
	}
	took := time.Since(start)
	st, err := OpenStream(r, StreamOptions{})
	if err != nil {
		return err
	}
	defer st.Close()
	now := time.Now().UTC().Format(time.RFC3339Nano)
	for _, f := range []route.Frame{
		{Name: "connected", Data: fmt.Appendf(nil, `{"event":"connected","timestamp":%q}`, now)},
		{Name: "ping", Data: fmt.Appendf(nil, `{"event":"ping","timestamp":%q,"latency_ms":%g}`, now, float64(took.Microseconds())/1000)},
		{Name: "done", Data: []byte(`{"event":"done","status":"ok"}`)},
		{Data: []byte("[DONE]")},
	} {
		f.More = f.Name != ""
		if st.Send(f) != nil {
			break // the client left
		}
	}
	return nil
}

func okOr503(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	s.metrics.handler().ServeHTTP(w, r)
	return nil
}

func (s *Server) serveDocument(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	return s.document.Serve(w, r, who)
}
