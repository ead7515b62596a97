package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"agentd/internal/base/route"
)

// APIVersion is the date of the API contract.
const APIVersion = "2026-09-10"

// Values are shared between requests: headers are set by assignment, never
// appended to in place.
var (
	apiVersion  = []string{APIVersion}
	nosniff     = []string{"nosniff"}
	noReferrer  = []string{"no-referrer"}
	denyFraming = []string{"DENY"}
	noContent   = []string{"default-src 'none'; frame-ancestors 'none'"}
	noStore     = []string{"no-store"}
	hsts        = []string{"max-age=31536000"}
	yes         = []string{"true"}
)

// chainHeaders sets the headers of every answer. A Raw route that serves pages
// replaces the Content-Security-Policy.
func (s *Server) chainHeaders(h http.Header, id string) {
	h["X-Request-Id"] = []string{id}
	h["X-Api-Version"] = apiVersion
	h["X-Content-Type-Options"] = nosniff
	h["X-Frame-Options"] = denyFraming
	h["Referrer-Policy"] = noReferrer
	h["Content-Security-Policy"] = noContent
	if s.https {
		h["Strict-Transport-Security"] = hsts
	}
}

// deprecation marks the answers of a deprecated row.
func (x *exchange) deprecation(row *route.Row) {
	h := x.Header()
	h["Deprecation"] = yes
	h.Set("X-Api-Deprecation-Info", row.Deprecated)
	if row.Successor != "" {
		h.Set("Link", "<"+x.successor(row.Successor)+`>; rel="successor-version"`)
	}
}

// successor fills the parameters of this request into the successor's path, in
// their order: both paths have the same ones, perhaps under other names.
func (x *exchange) successor(pattern string) string {
	var path strings.Builder
	for i := 0; ; i++ {
		before, rest, found := strings.Cut(pattern, "{")
		path.WriteString(before)
		if !found {
			return path.String()
		}
		path.WriteString(url.PathEscape(x.param(i)))
		_, pattern, _ = strings.Cut(rest, "}")
	}
}
