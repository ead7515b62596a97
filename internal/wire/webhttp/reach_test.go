package webhttp

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/wire/outbound"
)

// restarting is a server whose address refuses connections for a moment.
func restarting(t *testing.T, handler http.HandlerFunc) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	up := make(chan *httptest.Server, 1)
	time.AfterFunc(600*time.Millisecond, func() {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			up <- nil
			return
		}
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}}
		server.Start()
		up <- server
	})
	t.Cleanup(func() {
		if server := <-up; server != nil {
			server.Close()
		}
	})
	return "http://" + address
}

// Pages and searches wait for a host that restarts; a request that was sent and not
// answered is not made again (rule D22-tools).
func TestWaitsForHost(t *testing.T) {
	t.Parallel()
	allow, err := outbound.ParseAllow("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	out := outbound.New(outbound.Config{Allow: allow})
	t.Cleanup(out.Close)
	f := NewFetcher(FetchConfig{Guarded: out})
	page, err := f.Fetch(t.Context(), "tenant", restarting(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "hello")
	}))
	if err != nil || page.Content != "hello" {
		t.Errorf("a page of a host that restarts: %+v, %v", page, err)
	}
	s := NewSearch(SearchConfig{Provider: SearXNG, URL: restarting(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"results":[{"title":"T","url":"https://example.com","content":"C"}]}`)
	})})
	t.Cleanup(s.Close)
	if hits, err := s.Search(t.Context(), "x", 5); err != nil || len(hits) != 1 {
		t.Errorf("a search of a provider that restarts: %v, %v", hits, err)
	}
	var calls atomic.Int64
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(cut.Close)
	if _, err := f.Fetch(t.Context(), "tenant", cut.URL); err == nil || calls.Load() != 1 {
		t.Errorf("a host that closes the connection: %v, %d calls", err, calls.Load())
	}
	for name, url := range map[string]string{"an unknown name": "http://unknown.invalid/", "a refused address": "http://169.254.169.254/"} {
		began := time.Now()
		if _, err := f.Fetch(t.Context(), "tenant", url); err == nil || time.Since(began) > 3*time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(began))
		}
	}
}
