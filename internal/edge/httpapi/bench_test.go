package httpapi

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd/internal/kernel/ratelimit"
)

// idle takes an answer and keeps nothing, so that only the chain is measured.
type idle struct{ header http.Header }

func (w *idle) Header() http.Header         { return w.header }
func (w *idle) Write(p []byte) (int, error) { return len(p), nil }
func (w *idle) WriteHeader(int)             {}

func benchmark(b *testing.B, method, path, body string, log io.Writer, change ...func(*Config)) {
	c := Config{Routes: toys(nil), Auth: newKeys(), Log: slog.New(slog.NewJSONHandler(log, nil))}
	for _, f := range change {
		f(&c)
	}
	edge, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Authorization", "Bearer "+ownerKey)
	r.Header.Set("Content-Type", "application/json")
	reader := strings.NewReader(body)
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(reader)
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		w := &idle{header: make(http.Header, 16)}
		edge.ServeHTTP(w, r)
	}
}

func BenchmarkGet(b *testing.B) { benchmark(b, "GET", "/api/v1/toys/"+toyID, "", io.Discard) }

// BenchmarkGetLimited is BenchmarkGet with three buckets that never run out.
func BenchmarkGetLimited(b *testing.B) {
	limits, err := ratelimit.Parse("tenant=1000000/s,key=1000000/s,endpoint=1000000/s")
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, "GET", "/api/v1/toys/"+toyID, "", io.Discard, func(c *Config) { c.Limiter = ratelimit.New(limits) })
}

func BenchmarkPost(b *testing.B) {
	benchmark(b, "POST", "/api/v1/toys", `{"name":"Bo","kind":"doll","tags":["a","b"]}`, io.Discard)
}

func BenchmarkUnmatched(b *testing.B) { benchmark(b, "GET", "/api/v1/nothing", "", io.Discard) }

// What finding and checking a credential adds to a request; who it belongs to
// is measured in package identity.
func BenchmarkAdmit(b *testing.B) {
	edge, err := New(Config{Routes: toys(nil), Raw: raws(), Auth: newKeys(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	for name, headers := range map[string][]string{
		"key":         bearer(ownerKey),
		"key_cookie":  {"Cookie", "theme=dark; svc_auth_token=" + ownerKey},
		"session":     {"Cookie", "theme=dark; svc_session=" + browser},
		"query_token": {"Accept", "text/event-stream"},
	} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest("GET", eventsPath+"?token="+ownerKey, nil)
			for i := 0; i+1 < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			x := &exchange{Context: r.Context(), server: edge, w: &idle{header: http.Header{}}}
			x.op = edge.mux.match(x, r)
			b.ReportAllocs()
			for b.Loop() {
				if err := edge.admit(x, r, x.op); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
