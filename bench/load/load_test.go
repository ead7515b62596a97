package load

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func measure(t *testing.T, handler http.HandlerFunc, p Plan) Result {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	p.Addr = strings.TrimPrefix(server.URL, "http://")
	p.Clients, p.Warm, p.Measure = 3, 20*time.Millisecond, 150*time.Millisecond
	r, err := Run(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPlainAnswersAreCounted(t *testing.T) {
	t.Parallel()
	var repeats atomic.Int64
	var last atomic.Value
	r := measure(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if last.Swap(string(body)) == string(body) {
			repeats.Add(1)
		}
		if r.Header.Get("Authorization") != "Bearer k" || r.Header.Get("Idempotency-Key") == "" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprintf(w, "got %s", body)
	}, Plan{Request: Request{Method: "POST", Path: "/x", Key: "k", Body: `{"n":{{n}}}`, Once: true}, Want: `got {"n":`, PID: os.Getpid()})
	if r.OK == 0 || r.Failed != 0 {
		t.Errorf("%d answers, %d failures: %s", r.OK, r.Failed, r.FirstError)
	}
	if r.P50 <= 0 || r.P99 < r.P50 || r.PerSecond <= 0 {
		t.Errorf("p50 %v, p99 %v, %.0f per second", r.P50, r.P99, r.PerSecond)
	}
	if repeats.Load() > 0 {
		t.Error("a numbered body came twice")
	}
}

func TestStreamsAreReadAsTheyArrive(t *testing.T) {
	t.Parallel()
	const pause = 20 * time.Millisecond
	r := measure(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: first\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
		}
		io.WriteString(w, "data: [DONE]\n\n")
	}, Plan{Request: Request{Method: "GET", Path: "/"}, Want: "[DONE]", Mark: "first"})
	if r.OK == 0 || r.Failed != 0 {
		t.Fatalf("%d answers, %d failures: %s", r.OK, r.Failed, r.FirstError)
	}
	if r.MarkedP50 == 0 || r.P50-r.MarkedP50 < pause/2 {
		t.Errorf("first token after %v, end after %v; the server pauses %v between them", r.MarkedP50, r.P50, pause)
	}
}

func TestFailuresAreNotCountedAsAnswers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "status 418"},
		"body":   {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "other") }, "not what was wanted: other"},
		"cut":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := measure(t, tt.handler, Plan{Request: Request{Method: "GET", Path: "/"}, Want: "this"})
			if r.OK != 0 || r.Failed == 0 || !strings.Contains(r.FirstError, tt.want) {
				t.Errorf("%d answers, %d failures, the first %q; want %q", r.OK, r.Failed, r.FirstError, tt.want)
			}
		})
	}
}
