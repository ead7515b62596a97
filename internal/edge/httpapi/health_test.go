package httpapi

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func metricsText(t testing.TB, w *world) string {
	t.Helper()
	_, body := w.call(t, "GET", "/metrics", "", header("Authorization", ""))
	return body
}

func TestHealth(t *testing.T) {
	t.Parallel()
	var down error
	w := start(t, func(c *Config) { c.Ready = func(context.Context) error { return down } })
	get := func(path string) (int, map[string]any) {
		rec := httptest.NewRecorder()
		w.edge.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
		var doc map[string]any
		if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
			t.Fatalf("%s: %s", path, rec.Body)
		}
		return rec.Code, doc
	}
	expect := func(path string, status int, word string) {
		t.Helper()
		if code, doc := get(path); code != status || doc["status"] != word {
			t.Errorf("%s: %d %v", path, code, doc)
		}
	}
	for _, path := range []string{"/health", "/healthz", "/api/v1/health"} {
		expect(path, 200, "healthy")
	}
	for _, path := range []string{"/ready", "/readyz", "/health/ready"} {
		expect(path, 200, "ready")
	}
	expect("/health/live", 200, "ok")
	if _, doc := get("/healthz"); doc["version"] != APIVersion || doc["kv_connected"] != true {
		t.Errorf("%v", doc)
	}

	down = errors.New("dial tcp 10.0.0.1: refused")
	expect("/healthz", 503, "unhealthy")
	expect("/readyz", 503, "not_ready")
	expect("/health/live", 200, "ok")

	down = nil
	w.edge.draining.Store(true)
	expect("/readyz", 503, "not_ready")
	expect("/health/live", 503, "stopping")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.call(t, "GET", "/api/v1/toys/"+toyID, "")
	w.call(t, "GET", "/api/v1/toys/7", "")
	w.call(t, "GET", "/no/such/path", "")
	w.stream(t, eventsPath)
	got := metricsText(t, w)
	for _, line := range []string{
		`agentd_http_requests_total{method="GET",route="/api/v1/toys/{toyId}",status="2xx"} 1`,
		`agentd_http_requests_total{method="GET",route="/api/v1/toys/{toyId}",status="4xx"} 1`,
		`agentd_http_requests_total{method="other",route="unmatched",status="4xx"} 1`,
		`agentd_http_request_duration_seconds_count{method="GET",route="/api/v1/toys/{toyId}"} 2`,
		`agentd_http_streams_open 1`,
		`agentd_http_requests_in_flight 2`,
	} {
		if !strings.Contains(got, line) {
			t.Errorf("lacks %s", line)
		}
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	w := start(t, func(c *Config) { c.Tracer = provider.Tracer("test") })
	const parent = "0af7651916cd43dd8448eb211c80319c"
	w.call(t, "GET", "/api/v1/broken", "", header("traceparent", "00-"+parent+"-b7ad6b7169203331-01"))
	w.waitForLog(t, `"trace_id":"`+parent+`"`)
	got := spans.GetSpans()
	if len(got) != 1 || got[0].Name != "GET /api/v1/broken" || got[0].SpanContext.TraceID().String() != parent ||
		got[0].Status.Description != "INTERNAL_ERROR" {
		t.Errorf("%+v", got)
	}
}
