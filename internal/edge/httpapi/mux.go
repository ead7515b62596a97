package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/kernel/ratelimit"
)

// operation is a mounted route.
type operation struct {
	row    route.Row
	status int // of success
	stream bool

	apiKeyHeader bool
	queryToken   bool
	upgrade      bool
	lateKey      bool
	streamToken  bool // a stream token may call it
	quiet        bool // a probe, logged at debug level
	https        bool // clients connect over TLS
	repeatable   bool // takes an Idempotency-Key
	ownPages     bool // a public write that only pages of this service may send

	params *binder // of a Raw row that has an In

	name   string           // in rate limits, the same on every node
	limits []ratelimit.Rule // of the row's own

	on func() error // refuses while the operator has switched off its feature; nil: it belongs to none

	// serve answers; its error is rendered by fail, or by Problem where that is nil.
	serve func(x *exchange, r *http.Request) error
	fail  func(w http.ResponseWriter, r *http.Request, status int, e *fault.Error)

	meters func() *meters
}

// mux finds operations. The radix tree is chi's; its handlers are not used,
// because a lookup alone costs half as much.
type mux struct {
	tree       *chi.Mux
	operations map[mounted]*operation
	unmatched  *operation
	families   []family
}

// Family is the paths that begin with a prefix and whose clients know another shape
// of errors than problem documents.
type Family struct {
	// Under is the prefix, such as /v1: the path itself and all below it. Where
	// several match, the longest holds.
	Under string
	// Fail renders the refusal of a request without an operation, as a Raw row's does.
	Fail func(w http.ResponseWriter, r *http.Request, status int, e *fault.Error)
}

type family struct {
	under     string
	unmatched *operation
}

type mounted struct{ method, pattern string }

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

var routings = sync.Pool{New: func() any { return chi.NewRouteContext() }}

func newMux() *mux {
	return &mux{tree: chi.NewRouter(), operations: map[mounted]*operation{}}
}

// mount adds an operation. It panics on a duplicate.
func (m *mux) mount(o *operation) {
	at := mounted{o.row.Method, o.row.Path}
	if m.operations[at] != nil {
		panic("httpapi: " + at.method + " " + at.pattern + " is mounted twice")
	}
	m.operations[at] = o
	m.tree.Method(at.method, at.pattern, http.NotFoundHandler())
}

// match returns the operation of a request and sets the path parameters of x.
func (m *mux) match(x *exchange, r *http.Request) *operation {
	x.routed = routings.Get().(*chi.Context)
	x.routed.Reset()
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // the server drops the body
	}
	pattern := m.tree.Find(x.routed, method, routingPath(r))
	o := m.operations[mounted{method, pattern}]
	if o == nil {
		return m.unmatchedAt(r.URL.Path)
	}
	if r.URL.RawPath != "" {
		for i, value := range x.routed.URLParams.Values {
			if plain, err := url.PathUnescape(value); err == nil {
				x.routed.URLParams.Values[i] = plain
			}
		}
	}
	return o
}

// unmatchedAt returns the operation that refuses what no other one answers at a path.
func (m *mux) unmatchedAt(path string) *operation {
	for _, f := range m.families {
		if rest, below := strings.CutPrefix(path, f.under); below && (rest == "" || rest[0] == '/') {
			return f.unmatched
		}
	}
	return m.unmatched
}

// routingPath returns the path as it was sent, so that an escaped slash is part of
// a parameter.
func routingPath(r *http.Request) string {
	switch {
	case r.URL.RawPath != "":
		return r.URL.RawPath
	case r.URL.Path == "":
		return "/"
	}
	return r.URL.Path
}

// allowed lists the methods that a path answers; empty: the path is unknown.
func (m *mux) allowed(r *http.Request) []string {
	var allow []string
	for _, method := range methods {
		asked := method
		if method == http.MethodHead {
			asked = http.MethodGet
		}
		if m.tree.Find(chi.NewRouteContext(), asked, routingPath(r)) != "" {
			allow = append(allow, method)
		}
	}
	if len(allow) > 0 {
		allow = append(allow, http.MethodOptions)
	}
	return allow
}

// fallback answers requests without an operation: 404, 405 with Allow, OPTIONS.
func (m *mux) fallback(x *exchange, r *http.Request) error {
	allow := m.allowed(r)
	if len(allow) == 0 {
		if path := routingPath(r); strings.Contains(path, "//") || len(path) > 1 && strings.HasSuffix(path, "/") {
			return fault.New(fault.NotFound, "", "There is nothing at this path, a part of which is empty: is a variable not set? "+
				"/api/v1/openapi.json lists the operations.")
		}
		return fault.New(fault.NotFound, "", "There is nothing at this path; /api/v1/openapi.json lists the operations.")
	}
	x.Header().Set("Allow", strings.Join(allow, ", "))
	if r.Method == http.MethodOptions {
		m.preflight(x, r)
		x.WriteHeader(http.StatusNoContent)
		return nil
	}
	return statusFault(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED",
		"This path does not answer that method; it answers "+strings.Join(slices.Sorted(slices.Values(allow)), ", ")+".")
}
