// Package modeltest is a simulated OpenAI-compatible model over real HTTP, for
// tests and benchmarks. It answers by script: text, thinking and tool calls at
// a given pace, and every fault that real endpoints show.
//
//	sim := modeltest.New(t, modeltest.Script(modeltest.Answer{Status: 429}), modeltest.Default(modeltest.Answer{Text: "hello"}))
//	… BaseURL: sim.URL …
//	sim.Requests()
//
// An answer is turned into bytes once; sending it at once costs one write.
package modeltest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Server is a running simulated model. Safe for concurrent use.
type Server struct {
	URL string // base URL, ending in /v1

	script    []*reply
	usual     *reply
	decide    func(Request) Answer
	key       string
	unwatched bool
	others    map[string]http.Handler
	embed     func(call int, texts []string) (Answer, bool)

	embeds   atomic.Int64
	calls    atomic.Int64
	streams  atomic.Int64
	mu       sync.Mutex
	requests []Request

	pictures      []Picture
	imageRequests []ImageRequest

	sounds                []Sound
	speechRequests        []SpeechRequest
	transcripts           []Answer
	transcriptionRequests []TranscriptionRequest

	http    *http.Server
	running sync.WaitGroup
}

// Option sets up a server.
type Option func(*Server)

// Default is the answer once the script is over; without it a text of 20
// tokens.
func Default(a Answer) Option { return func(s *Server) { s.usual = a.compile() } }

// Script sets the answers to the first calls, in the order of the calls.
func Script(answers ...Answer) Option {
	return func(s *Server) {
		for _, a := range answers {
			s.script = append(s.script, a.compile())
		}
	}
}

// Respond decides every answer that the script does not.
func Respond(decide func(Request) Answer) Option { return func(s *Server) { s.decide = decide } }

// RequireKey refuses calls without this key with a 401.
func RequireKey(key string) Option { return func(s *Server) { s.key = key } }

// Unrecorded keeps no requests, for benchmarks.
func Unrecorded() Option { return func(s *Server) { s.unwatched = true } }

// Handle serves what else a pattern of http.ServeMux matches, such as other wires.
func Handle(pattern string, h http.Handler) Option {
	return func(s *Server) {
		if s.others == nil {
			s.others = map[string]http.Handler{}
		}
		s.others[pattern] = h
	}
}

// New starts a server on a free port that ends with the test.
func New(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s, err := Start("127.0.0.1:0", opts...)
	if err != nil {
		tb.Fatalf("start the simulated model: %v", err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Start starts a server on an address.
func Start(addr string, opts ...Option) (*Server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	s := &Server{URL: "http://" + listener.Addr().String() + "/v1"}
	for _, opt := range opts {
		opt(s)
	}
	if s.usual == nil {
		s.usual = Answer{Text: Tokens(20)}.compile()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.serveChat)
	mux.HandleFunc("POST /openai/deployments/{model}/chat/completions", s.serveChat) // as at Azure
	mux.HandleFunc("POST /v1/images/generations", s.serveImage)
	mux.HandleFunc("POST /v1/embeddings", s.serveEmbeddings)
	mux.HandleFunc("POST /v1/audio/speech", s.serveSpeech)
	mux.HandleFunc("POST /v1/audio/transcriptions", s.serveTranscription)
	mux.HandleFunc("GET /v1/models", s.serveModels)
	mux.HandleFunc("GET /stats", s.serveStats)
	for pattern, h := range s.others {
		mux.Handle(pattern, h)
	}
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	s.running.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	})
	return s, nil
}

// Close ends the server and every answer that it is giving.
func (s *Server) Close() {
	s.http.Close()
	s.running.Wait()
}

// Wait blocks until the server is closed.
func (s *Server) Wait() { s.running.Wait() }

// Calls is how many calls came in.
func (s *Server) Calls() int { return int(s.calls.Load()) }

// Requests returns the calls that were received, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Server) serveChat(w http.ResponseWriter, r *http.Request) {
	n := s.calls.Add(1)
	body := bodies.Get().(*[]byte)
	defer bodies.Put(body)
	var err error
	if *body, err = readBody((*body)[:0], r); err != nil {
		return
	}
	req := Request{Header: r.Header, Body: *body, Stream: asksForStream(*body)}
	if req.Stream {
		s.streams.Add(1)
	}
	if !s.unwatched {
		req.Body = slices.Clone(*body)
		s.mu.Lock()
		s.requests = append(s.requests, req)
		s.mu.Unlock()
	}
	if s.key != "" && r.Header.Get("Authorization") != "Bearer "+s.key {
		unauthorized.send(w, r, req.Stream)
		return
	}
	s.reply(n, req).send(w, r, req.Stream)
}

func (s *Server) reply(n int64, req Request) *reply {
	switch {
	case n <= int64(len(s.script)):
		return s.script[n-1]
	case s.decide != nil:
		return s.decide(req).compile()
	}
	return s.usual
}

var unauthorized = Answer{Status: http.StatusUnauthorized, Error: "Incorrect API key provided."}.compile()

func (s *Server) serveModels(w http.ResponseWriter, r *http.Request) {
	if s.key != "" && r.Header.Get("Authorization") != "Bearer "+s.key {
		writeError(w, http.StatusUnauthorized, "Incorrect API key provided.")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model","created":%d,"owned_by":"modeltest"}]}`, modelName, created)
}

func (s *Server) serveStats(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"calls":%d,"streams":%d}`, s.calls.Load(), s.streams.Load())
}

var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

func readBody(b []byte, r *http.Request) ([]byte, error) {
	for {
		b = slices.Grow(b, 512)
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}
