package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// nodeMetrics serves metrics that grow with each reading: 10 requests, of which one
// failed, and 4 runs.
func nodeMetrics(t *testing.T, status int) string {
	var readings atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" || status != http.StatusOK {
			w.WriteHeader(max(status, http.StatusNotFound))
			return
		}
		n := readings.Add(1)
		fmt.Fprintf(w, `# TYPE agentd_http_requests_total counter
agentd_http_requests_total{route="/a",status="2xx"} %d
agentd_http_requests_total{route="/a",status="5xx"} %d
# TYPE agentd_http_request_duration_seconds histogram
agentd_http_request_duration_seconds_bucket{le="0.002"} %d
agentd_http_request_duration_seconds_bucket{le="+Inf"} %d
agentd_http_request_duration_seconds_sum 1
agentd_http_request_duration_seconds_count %d
# TYPE agentd_runs_active gauge
agentd_runs_active 3
# TYPE agentd_queue_depth gauge
agentd_queue_depth{kind="run"} 7
agentd_queue_depth{kind="webhook"} 0
# TYPE agentd_queue_oldest_seconds gauge
agentd_queue_oldest_seconds{kind="run"} 0.25
# TYPE agentd_disk_free_bytes gauge
agentd_disk_free_bytes 5368709120
`, 9*n, n, 10*n, 10*n, 10*n)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestTop(t *testing.T) {
	t.Parallel()
	one, two, gone := nodeMetrics(t, http.StatusOK), nodeMetrics(t, http.StatusOK), nodeMetrics(t, http.StatusServiceUnavailable)
	r := shell{}.run("admin", "top", "--once", "--every", "100ms", "--node", one, "--node", strings.TrimPrefix(two, "http://"), "--node", gone)
	r.want(t, exitOK, "2 nodes", gone+"/metrics: ")
	for what, want := range map[string]string{
		"requests": "p50 1.0 ms, p99 2.0 ms, 10.0 % failed, 0 under way, 0 streams", "runs that ended": "6 under way",
		"queue": "7 due  run 7 (oldest 250 ms)", "disk": "5.0 GiB", "search": "behind by -",
	} {
		var line string
		for l := range strings.Lines(r.stdout) {
			if strings.HasPrefix(l, what+" ") {
				line = strings.Join(strings.Fields(l), " ")
			}
		}
		if !strings.Contains(line, strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%s: %q has no %q", what, line, want)
		}
	}
	shell{env: map[string]string{"AGENTD_URL": one}}.run("admin", "top", "--once", "--every", "100ms").want(t, exitOK, "1 node,")
}

func TestTopRefuses(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	for want, args := range map[string][]string{
		"--every is 1ms":                        {"--every", "1ms"},
		`"ftp://x" is no address of a node`:     {"--node", "ftp://x"},
		"where AGENTD_METRICS_LISTEN is set":    {"--node", elsewhere.URL},
		"127.0.0.1:1":                           {"--node", "127.0.0.1:1"},
		"no metrics in Prometheus' text format": {"--node", htmlPage(t)},
	} {
		r := shell{}.run(append([]string{"admin", "top", "--once"}, args...)...)
		if r.code == exitOK || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: %d %s", args, r.code, r.stderr)
		}
	}
}

func htmlPage(t *testing.T) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	t.Cleanup(srv.Close)
	return srv.URL
}
