package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

// shown fails unless the metrics have these lines.
func shown(t *testing.T, r *prometheus.Registry, lines ...string) {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	for _, line := range lines {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("the metrics have no line %s:\n%s", line, w.Body)
		}
	}
}

// A slow statement is counted by its route, and logged in one line with who sent it,
// and without values.
func TestSlowStatements(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := prometheus.NewRegistry()
	m := logSlow(slog.New(slog.NewTextHandler(&out, nil)), r, sqldb.Metrics{})
	m.Slow(&txn.Origin{Route: "GET /runs", Tenant: "t1"}, "SELECT 1\n\t\tFROM runs WHERE a = ?", 700*time.Millisecond)
	m.Slow(&txn.Origin{Route: "GET /runs", Tenant: "t2"}, "SELECT 2", time.Second)
	shown(t, r, `agentd_slow_statements_total{route="GET /runs"} 2`)
	for _, want := range []string{
		`level=WARN msg="a statement was slow" route="GET /runs" tenant=t1 duration_ms=700 statement="SELECT 1 FROM runs WHERE a = ?"`,
		"tenant=t2 duration_ms=1000",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("logged without %q:\n%s", want, out.String())
		}
	}
}

// The longest commit and the 99th percentile are shown.
func TestWriterHeld(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	m := observeWrites(r)
	for range 999 {
		m.Committed(3, time.Millisecond)
	}
	m.Committed(1, 2*time.Second)
	shown(t, r, `agentd_writer_held_seconds{quantile="0.99"} 0.001`, `agentd_writer_held_seconds{quantile="1"} 2`, `agentd_writes_total 2998`)
}
