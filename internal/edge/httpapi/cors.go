package httpapi

import (
	"net/http"
	"slices"
	"strings"
)

// Headers of cross-origin answers. Pages of other origins send a key; cookies of this
// one never go with their requests, because no answer allows credentials.
const (
	corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE"
	corsMaxAge  = "7200"
	corsExposed = "X-Request-Id, X-Run-Id, X-Api-Version, X-Model, X-SVC-Warning, X-Should-Retry, Retry-After, ETag, Location, Link, " +
		"Idempotency-Replayed, RateLimit, RateLimit-Policy, Content-Disposition"
	// maxCORSHeaders bounds the list of header names that a preflight may ask for.
	maxCORSHeaders = 2 << 10
)

// origins are the origins whose pages may call the API; "*" is any.
type origins []string

// headers adds what lets a page of an allowed origin read the answer.
func (o origins) headers(h http.Header, r *http.Request) {
	if len(o) == 0 {
		return
	}
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	anyone := slices.Contains(o, "*")
	if origin == "" || !anyone && !slices.Contains(o, strings.ToLower(origin)) {
		return
	}
	if anyone {
		origin = "*"
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Access-Control-Expose-Headers", corsExposed)
		return
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Max-Age", corsMaxAge)
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" && len(asked) <= maxCORSHeaders && tokens(asked) {
		h.Set("Access-Control-Allow-Headers", asked)
	}
}

// tokens reports whether a text is a list of names of headers.
func tokens(list string) bool {
	return !strings.ContainsFunc(list, func(r rune) bool {
		return r != '-' && r != '_' && r != ',' && r != ' ' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
