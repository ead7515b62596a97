package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/idempotency"
)

// exchange is one request and its answer: what the chain learns about it, for
// the log line, the metrics and the problem document. It is the request's
// context and its response writer in one, which saves a hot path the allocation
// of two wrappers.
type exchange struct {
	context.Context

	server  *Server
	w       http.ResponseWriter
	id      string // X-Request-Id
	start   time.Time
	limited time.Time    // when the write deadline was last set, first by the server
	routed  *chi.Context // path parameters; nil once the answer is out
	op      *operation
	who     authz.Caller

	ticket *idempotency.Operation // of a ReplayByRef write; nil: it has no key
	held   *heldAnswer            // buffers the answer; nil: it is sent as it comes

	detached *detached // of a hijacked stream; nil: not hijacked

	match string // If-Match of a Conditional write
	page  *page  // of another origin; nil: none that the row's function decides about

	origin txn.Origin // of the statements of its handler

	status int // 0: no header was sent
	bytes  int64
	failed *fault.Error
	holder *authz.Caller // of a credential that was not accepted, as far as it is known; nil: none was refused
	gone   bool          // the client left before it was answered
}

type exchangeKey struct{}

// Value implements context.Context.
func (x *exchange) Value(key any) any {
	switch key {
	case exchangeKey{}:
		return x
	case chi.RouteCtxKey:
		return x.routed
	case txn.OriginKey{}:
		return &x.origin
	case route.MatcherKey{}:
		if x.match != "" {
			return x
		}
	case route.OriginKey{}:
		if x.page != nil {
			return x.page
		}
	}
	return x.Context.Value(key)
}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// RequestID returns the id of the request that ctx belongs to, "" outside of
// one. It is the correlation id of problem documents and of log lines.
func RequestID(ctx context.Context) string {
	if x := exchangeOf(ctx); x != nil {
		return x.id
	}
	return ""
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= 200 || status == http.StatusSwitchingProtocols {
		x.status = status
	}
	if x.held == nil {
		x.w.WriteHeader(status)
	}
}

// answerTimeout is how long a client may take to read what is written. It is
// renewed for handlers that start late or write for long.
const answerTimeout = time.Minute

// extendDeadline sets the write deadline for what is written next.
func (x *exchange) extendDeadline(now time.Time, timeout time.Duration) {
	x.limited = now
	_ = http.NewResponseController(x.w).SetWriteDeadline(now.Add(timeout)) // not every writer has one
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(p []byte) (int, error) {
	if x.held != nil {
		if x.status == 0 {
			x.status = http.StatusOK
		}
		return x.held.body.Write(p)
	}
	if now := time.Now(); now.Sub(x.limited) > answerTimeout/2 {
		x.extendDeadline(now, answerTimeout)
	}
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.w.Write(p)
	x.bytes += int64(n)
	return n, err
}

// Unwrap serves http.ResponseController and upgrades.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }

// Flush implements http.Flusher, which some third-party handlers require.
func (x *exchange) Flush() {
	if x.held == nil {
		x.flush()
	}
}

func (x *exchange) flush() { _ = http.NewResponseController(x.w).Flush() }

// param returns the i-th path parameter, unescaped.
func (x *exchange) param(i int) string {
	if i < len(x.routed.URLParams.Values) {
		return x.routed.URLParams.Values[i]
	}
	return ""
}
