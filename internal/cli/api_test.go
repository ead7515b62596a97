package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

const (
	agentID = "01990000-0000-7000-8000-00000000000a"
	runID   = "01990000-0000-7000-8000-00000000000b"
)

// api plays the server of a test, request by request.
type api struct {
	t     *testing.T
	shell shell

	mu      sync.Mutex
	answers map[string]http.HandlerFunc // by "METHOD path"
	asked   []string                    // "METHOD path body"
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{t: t, answers: map[string]http.HandlerFunc{}}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	a.shell = shell{env: map[string]string{"AGENTD_URL": srv.URL, "AGENTD_KEY": "svc_key"}}
	a.on("GET /api/v1/agents", `{"items":[
		{"agent_id":"`+agentID+`","name":"helper","status":"active","model":{"provider":"openai_compat","model_ref":"default/llama"},"created_at":"2026-09-10T11:57:00Z"},
		{"agent_id":"01990000-0000-7000-8000-0000000000a2","name":"twin","model":{"model_ref":"builtin/echo"},"created_at":"2026-09-10T11:59:58Z","status":"suspended"},
		{"agent_id":"01990000-0000-7000-8000-0000000000a3","name":"twin","model":{"model_ref":"builtin/echo"},"created_at":"2025-09-10T11:59:58Z","status":"active"}
	],"cursor":null,"has_more":false}`)
	a.on("GET /api/v1/agents/"+agentID, `{"agent_id":"`+agentID+`","name":"helper"}`)
	return a
}

// on answers a request with a JSON body.
func (a *api) on(request, body string) { a.handle(request, status(200, body)) }

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

func (a *api) handle(request string, h http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[request] = h
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	request := r.Method + " " + r.URL.Path
	a.mu.Lock()
	a.asked = append(a.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	answer := a.answers[request]
	a.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer svc_key" {
		a.t.Errorf("%s came without the key", request)
	}
	if answer == nil {
		status(404, `{"status":404,"detail":"There is no such thing.","code":"NOT_FOUND","correlation_id":"c-1"}`)(w, r)
		return
	}
	answer(w, r)
}

// count says how often a request was made.
func (a *api) count(request string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.asked {
		if strings.HasPrefix(r, request) {
			n++
		}
	}
	return n
}

// stream answers a run's event stream with frames, numbered from first.
func stream(first int, frames ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "retry: 1\n\n: hello\n\n")
		for i, f := range frames {
			name, data, _ := strings.Cut(f, " ")
			fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", first+i, name, data)
			if name == "done" {
				io.WriteString(w, "data: [DONE]\n\n")
			}
		}
		w.(http.Flusher).Flush()
	}
}

// run makes the server start a run whose events are these.
func (a *api) run(events http.HandlerFunc) {
	a.handle("POST /api/v1/runs", status(202, `{"run_id":"`+runID+`","agent_id":"`+agentID+`","status":"queued"}`))
	a.handle("GET /api/v1/runs/"+runID+"/events", events)
}

// interrupted sets a context of the shell that the test can cancel.
func (a *api) interrupted() context.CancelFunc {
	ctx, cancel := context.WithCancel(a.t.Context())
	a.shell.ctx = ctx
	return cancel
}
