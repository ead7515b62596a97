package httpapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"agentd/internal/base/route"
	"agentd/internal/kernel/ratelimit"
)

// limited reports whether a rate limit can refuse an operation.
func limited(row *route.Row) bool { return !row.Public || len(row.Limits) > 0 }

// rateHeaders are the rate limit headers of answers.
var rateHeaders = []struct{ name, component, doc string }{
	{"X-RateLimit-Limit", "XRateLimitLimit", "How many requests the tightest of the limits that apply admits in its period."},
	{"X-RateLimit-Remaining", "XRateLimitRemaining", "How many more it admits at this moment."},
	{"X-RateLimit-Reset", "XRateLimitReset", "When all of it is there again, if nothing is used meanwhile: Unix time in seconds."},
}

// rateHeaders publishes the headers with an answer. They are absent where the
// operator switched limits off.
func (d *document) rateHeaders(answer *huma.Response) {
	if answer.Headers == nil {
		answer.Headers = map[string]*huma.Header{}
	}
	for _, h := range rateHeaders {
		d.openapi.Components.Headers[h.component] = &huma.Header{Description: h.doc, Schema: &huma.Schema{Type: huma.TypeInteger}}
		answer.Headers[h.name] = &huma.Header{Ref: "#/components/headers/" + h.component}
	}
}

// tooMany publishes the headers of a 429.
func (d *document) tooMany(answer *huma.Response) {
	d.rateHeaders(answer)
	answer.Headers["Retry-After"] = retryAfter()
	buckets := make([]any, len(ratelimit.Buckets))
	for i, name := range ratelimit.Buckets {
		buckets[i] = name
	}
	answer.Headers["X-RateLimit-Bucket"] = &huma.Header{
		Description: "Whose allowance ran out, where it is a rate limit: the company's, the credential's, or that of this operation.",
		Schema:      &huma.Schema{Type: huma.TypeString, Enum: buckets},
	}
}

func retryAfter() *huma.Header {
	return &huma.Header{Description: "Seconds.", Schema: &huma.Schema{Type: huma.TypeInteger}}
}

// refusalHeaders publishes the headers that go with a status of refusal.
func (d *document) refusalHeaders(answer *huma.Response, status int) {
	switch status {
	case http.StatusUnauthorized:
		answer.Headers = map[string]*huma.Header{"WWW-Authenticate": {Schema: &huma.Schema{Type: huma.TypeString}}}
	case http.StatusServiceUnavailable:
		answer.Headers = map[string]*huma.Header{"Retry-After": retryAfter()}
	case http.StatusTooManyRequests:
		d.tooMany(answer)
	}
}
