package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/trace"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
)

// ServeHTTP passes a request through the chain.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	x := &exchange{Context: r.Context(), server: s, w: w, start: now, limited: now, id: requestID(r.Header.Get("X-Request-Id"))}
	x.who = authz.Caller{Address: s.trusted().client(r), RequestID: x.id}
	s.chainHeaders(w.Header(), x.id)
	origins(s.origins()).headers(w.Header(), r)
	if len(r.TransferEncoding) > 0 {
		// Together with a Content-Length it is an attempt at request smuggling, which
		// net/http does not distinguish from a harmless upload.
		w.Header()["Connection"] = []string{"close"}
	}
	if r.ContentLength != 0 {
		s.bodies.setBodyDeadline(x, r.ContentLength)
	}
	x.op = s.mux.match(x, r)
	x.page = x.op.pageOf(w, r)
	if s.tracer != nil {
		x.Context = s.startSpan(x, r)
	}
	r = r.WithContext(x)
	s.metrics.inFlight.Inc()
	defer func() {
		if panicked := recover(); x.detached == nil {
			defer x.drain(r)
			s.finish(x, r, panicked)
		}
	}()
	if x.op.row.Deprecated != "" {
		x.deprecation(&x.op.row)
	}
	err := s.admit(x, r, x.op)
	if err == nil {
		err = x.op.serve(x, r)
	}
	if err != nil {
		x.writeError(r, err)
	}
}

// finish turns a panic into a 500 and finishes the request.
func (s *Server) finish(x *exchange, r *http.Request, panicked any) {
	aborted := panicked == http.ErrAbortHandler
	if panicked != nil && !aborted {
		cause := fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		aborted = x.status != 0
		if !aborted {
			x.writeError(r, cause)
		} else {
			_, x.failed = Classify(cause)
		}
	}
	switch {
	case x.gone:
		x.status = statusClientGone
	case aborted && x.status == 0:
		x.status = http.StatusInternalServerError
	case x.status == 0:
		x.status = http.StatusOK // what net/http sends for a handler that wrote nothing
	}
	s.finishRequest(x, r.Method, r.URL.Path)
	routings.Put(x.routed)
	x.routed = nil
	if aborted {
		panic(http.ErrAbortHandler)
	}
}

// finishRequest records a request that is over in the log, the metrics and its
// span.
func (s *Server) finishRequest(x *exchange, method, path string) {
	elapsed := time.Since(x.start)
	s.metrics.inFlight.Dec()
	x.op.meters().observe(x.status, elapsed, x.op.stream || x.status == http.StatusSwitchingProtocols)
	s.logRequest(x, method, path, elapsed)
	if s.watch != nil {
		s.watchRequest(x, method)
	}
	if s.tracer != nil {
		endSpan(trace.SpanFromContext(x.Context), x)
	}
}

// logRequest writes the one wide line per request. It leaves out whatever could
// contain a credential: query, headers, and the path of a public route.
func (s *Server) logRequest(x *exchange, method, path string, elapsed time.Duration) {
	level := slog.LevelInfo
	serverError := x.status >= 500 && x.status != http.StatusNotImplemented || x.failed != nil && x.failed.Kind == fault.Internal && !x.gone
	switch {
	case x.status == http.StatusInternalServerError, serverError && x.failed != nil && x.failed.Kind == fault.Internal:
		level = slog.LevelError
	case serverError: // full, stopping, or without something outside that it needs: it passes
		level = slog.LevelWarn
	case x.op.quiet:
		level = slog.LevelDebug
	}
	if !s.log.Enabled(x, level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 16),
		slog.String("method", method),
		slog.String("route", x.op.row.Path),
		slog.Int("status", x.status),
		slog.Int64("duration_us", elapsed.Microseconds()),
		slog.Int64("bytes", x.bytes),
		slog.String("request_id", x.id))
	if x.who.TenantID != "" {
		attrs = append(attrs,
			slog.String("tenant", x.who.TenantID), slog.String("user", x.who.UserID), credentialID(x.who),
			slog.String("path", path))
	}
	if x.failed != nil {
		attrs = append(attrs, slog.String("code", x.failed.Code))
		if serverError && x.failed.Cause != nil {
			attrs = append(attrs, slog.String("cause", x.failed.Cause.Error()))
		}
	}
	if s.tracer != nil {
		if span := trace.SpanContextFromContext(x.Context); span.HasTraceID() {
			attrs = append(attrs, slog.String("trace_id", span.TraceID().String()))
		}
	}
	s.log.LogAttrs(x, level, "request", attrs...)
}

// credentialID identifies the caller's credential.
func credentialID(who authz.Caller) slog.Attr {
	if who.SessionID != "" {
		return slog.String("session_id", who.SessionID)
	}
	return slog.String("key_id", who.KeyID)
}
