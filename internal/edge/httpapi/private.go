package httpapi

import (
	"net/http"
	"net/http/pprof"
	"time"

	"agentd/internal/base/authz"
)

// Private returns the handler of the listener for the operator's own tools
// (AGENTD_METRICS_LISTEN): metrics, health with the details of the build, and profiles.
func (s *Server) Private() *http.Server {
	mux := probes(s)
	mux.Handle("GET /metrics", s.metrics.handler())
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		connected, _ := s.check(r.Context())
		h := s.healthOf(connected)
		h.describeBuild(s.build)
		_ = JSON(w, okOr503(connected), h) // the client left
	})
	// The command line is left out: flags may hold what is secret.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return aside(s, mux)
}

// Probes returns the handler of a node that serves no API: probes, and metrics where
// they have no listener of their own.
func (s *Server) Probes() *http.Server {
	mux := probes(s)
	if !s.hidesMetrics {
		mux.Handle("GET /metrics", s.metrics.handler())
	}
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) { _ = s.serveHealth(w, r, authz.Caller{}) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "This node carries runs and other work, and serves no API (AGENTD_ROLE=worker).", http.StatusNotFound)
	})
	return aside(s, mux)
}

// probes returns a mux with the probes of a process.
func probes(s *Server) *http.ServeMux {
	mux := http.NewServeMux()
	for path, serve := range map[string]func(http.ResponseWriter, *http.Request, authz.Caller) error{
		"GET /health/live":  func(w http.ResponseWriter, r *http.Request, who authz.Caller) error { return s.serveLive(w, r, who) },
		"GET /health/ready": s.serveReady,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { _ = serve(w, r, authz.Caller{}) })
	}
	return mux
}

// aside is a server of few requests.
func aside(s *Server, mux *http.ServeMux) *http.Server {
	return &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: s.http.ErrorLog,
	}
}
