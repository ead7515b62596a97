package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/httpapi/httpapitest"
	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
	"agentd/internal/goldentest"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/event/eventtest"
	"agentd/internal/kernel/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenant  = "01990000-0000-7000-8000-0000000000ff"
	goodKey = "svc_good"
	readKey = "svc_readonly"
)

var keys = httpapitest.Keys{
	goodKey:  {TenantID: tenant, Role: authz.Developer, Scopes: []authz.Scope{"runs:create", "runs:read"}},
	readKey:  {TenantID: tenant, Role: authz.Developer, Scopes: []authz.Scope{"runs:read"}},
	proxyKey: {TenantID: tenant, Role: authz.Developer, Scopes: []authz.Scope{"runs:create", "agents:read"}},
}

// stage plays the platform behind the routes: a run is a script of events.
type stage struct {
	chat      *Chat
	hub       *event.Hub
	refuse    error         // of Create
	live      []event.Event // that a run publishes at once
	end       *run.Run      // that its last event has; nil: the run goes on
	distant   bool          // the run ends on another node
	agents    []ModelEntry
	onLeave   bool // cancel_on_disconnect
	made      run.Request
	responses responseStore
	canceled  chan string
	reads     atomic.Int64 // of runs

	api     *httpapi.Server
	url     string
	serving sync.WaitGroup // requests
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{
		hub: event.NewHub(), canceled: make(chan string, 1),
		agents: []ModelEntry{NewModelEntry(agentID, tenant, "helper", made.Unix())},
	}
	runner := &runstream.Runner{Runs: s, Agents: s, Names: s, Log: &eventtest.MemoryLog{}, Hub: s.hub, Complete: true}
	s.chat = &Chat{Runner: runner, Models: s}
	rows := append(s.chat.Routes(), (&Responses{Runner: runner, Chains: &s.responses}).Routes()...)
	for i := range rows {
		serve := rows[i].Serve
		rows[i].Serve = func(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
			s.serving.Add(1)
			defer s.serving.Done()
			return serve(w, r, who)
		}
	}
	s.url, s.api = httpapitest.Serve(t, keys, rows)
	t.Cleanup(client.CloseIdleConnections)
	return s
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// says adds an event to the script.
func (s *stage) says(name, data string) *stage {
	s.live = append(s.live, event.Event{Seq: int64(len(s.live) + 1), Name: name, At: made, Data: jsontext.Value(data)})
	return s
}

// ends closes the script.
func (s *stage) ends(r *run.Run) *stage {
	s.end = r
	return s.says(r.Status.EventName(), `{}`)
}

// Create implements runstream.Runs.
func (s *stage) Create(_ context.Context, who authz.Caller, req run.Request) (*run.Run, error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	if req.AgentID != agentID || who.TenantID != tenant {
		return nil, fault.NewNotFound("agent")
	}
	s.made = req
	for i, e := range s.live {
		if s.end != nil && i == len(s.live)-1 && !s.distant {
			r := *s.end
			r.RunID = req.RunID
			e.Result = &r
		}
		s.hub.Publish(event.Batch{Stream: req.RunID, Prev: e.Seq - 1, Events: []event.Event{e}})
	}
	return &run.Run{RunID: req.RunID, AgentID: agentID, Status: run.Queued, CreatedAt: made}, nil
}

// Get implements runstream.Runs.
func (s *stage) Get(_ context.Context, _, id string) (*run.Run, error) {
	s.reads.Add(1)
	if s.end == nil { // it has not ended
		return &run.Run{RunID: id, Status: run.Running}, nil
	}
	r := *s.end
	r.RunID = id
	return &r, nil
}

// Cancel implements runstream.Runs.
func (s *stage) Cancel(_ context.Context, _, id string) (run.CancelAnswer, error) {
	s.canceled <- id
	return run.CancelAnswer{Cancelled: true, RunID: id}, nil
}

// Spec implements run.Agents.
func (s *stage) Spec(context.Context, string, string, int64) (*run.AgentSpec, error) {
	return &run.AgentSpec{ID: agentID, CancelOnDisconnect: s.onLeave}, nil
}

// Patched implements run.Agents.
func (s *stage) Patched(context.Context, string, string, int64, jsontext.Value) (*run.AgentSpec, error) {
	return nil, fault.NewNotFound("agent")
}

// Models implements Models.
func (s *stage) Models(context.Context, string) ([]ModelEntry, error) { return s.agents, s.refuse }

// Named implements runstream.AgentNames: one agent has the name tester, and two
// have the name twin.
func (s *stage) Named(_ context.Context, _, name string, _ int) ([]string, error) {
	switch name {
	case "tester":
		return []string{agentID}, nil
	case "twin":
		return []string{agentID, "01990000-0000-7000-8000-0000000000ab"}, nil
	}
	return nil, nil
}

// Model implements Models.
func (s *stage) Model(_ context.Context, _, id string) (ModelEntry, error) {
	if i := slices.IndexFunc(s.agents, func(m ModelEntry) bool { return m.ID == id }); i >= 0 {
		return s.agents[i], s.refuse
	}
	return ModelEntry{}, fault.NewNotFound("agent")
}

func (s *stage) request(t *testing.T, method, path, body string, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+goodKey)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// shown are the headers that belong to the shape.
var shown = []string{"Content-Type", "Cache-Control", "Retry-After", "Www-Authenticate", "X-Run-Id", "X-Should-Retry"}

// exchange sends a request and gives the answer as a transcript.
func (s *stage) exchange(t *testing.T, method, path, body string, header ...string) []byte {
	t.Helper()
	resp, err := client.Do(s.request(t, method, path, body, header...))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	fmt.Fprintln(&out, resp.Status)
	for _, name := range shown {
		if v := resp.Header.Get(name); v != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, v)
		}
	}
	fmt.Fprintf(&out, "\n%s", bytes.TrimSuffix(text, []byte("\n")))
	if s.made.RunID == "" {
		return append(out.Bytes(), '\n')
	}
	return append(bytes.ReplaceAll(out.Bytes(), []byte(s.made.RunID), []byte("RUN")), '\n')
}

const (
	ask       = `{"model":"` + agentID + `","messages":[{"role":"user","content":"Hello?"}]}`
	askStream = `{"model":"agent/` + agentID + `","messages":[{"role":"user","content":"Hello?"}],"stream":true}`
	askUsage  = `{"model":"` + agentID + `","messages":[{"role":"user","content":"Hello?"}],"stream":true,"stream_options":{"include_usage":true}}`
)

// answered is a script of a run that says "Hi you." and ends.
func answered(s *stage) *stage {
	return s.says("run.queued", `{"status":"queued"}`).says("run.started", `{}`).says("step.started", `{"step_seq":1,"type":"llm"}`).
		says("llm.chunk", `{"text":"Hi "}`).says("llm.chunk", `{"text":"you."}`).says("llm.completed", `{}`).says("step.completed", `{}`).
		ends(endings["completed"])
}

func flooded(s *stage, name string) *stage {
	for range 2000 {
		s.says(name, `{"text":"x"}`)
	}
	return s.ends(endings["completed"])
}

// Every exchange is kept as a transcript in testdata/exchanges.
func TestExchanges(t *testing.T) {
	t.Parallel()
	const chat = "/v1/chat/completions"
	for _, tt := range []struct {
		name   string
		method string // empty: POST
		path   string // empty: chat completions
		body   string
		header []string
		play   func(*stage) *stage
	}{
		{name: "plain", body: ask, play: answered},
		{name: "plain-elsewhere", body: ask, play: func(s *stage) *stage { s.distant = true; return answered(s) }},
		{name: "plain-failed", body: ask, play: func(s *stage) *stage { return s.ends(endings["failed"]) }},
		{name: "plain-tool-calls", body: ask, play: func(s *stage) *stage { return s.ends(endings["tool-calls"]) }},
		{name: "plain-of-many-events", body: ask, play: func(s *stage) *stage { return flooded(s, "llm.chunk") }},
		{name: "stream", body: askStream, play: answered},
		{name: "stream-usage", body: askUsage, play: answered},
		{name: "stream-elsewhere", body: askStream, play: func(s *stage) *stage { s.distant = true; return answered(s) }},
		{name: "stream-thinking", body: askStream, play: func(s *stage) *stage {
			return s.says("llm.thinking", `{"text":"Hm. "}`).says("llm.chunk", `{"text":"42"}`).ends(endings["completed-thinking"])
		}},
		{name: "stream-steps", body: askStream, play: func(s *stage) *stage {
			return s.says("step.started", `{}`).says("llm.chunk", `{"text":"Let me see."}`).says("tool.call", `{}`).says("step.started", `{}`).
				says("tool.result", `{}`).says("step.started", `{}`).says("llm.chunk", `{"text":"It is "}`).says("llm.chunk", `{"text":"42."}`).
				ends(endings["completed"])
		}},
		{name: "stream-tool-calls", body: askUsage, play: func(s *stage) *stage { return s.ends(endings["tool-calls"]) }},
		{name: "stream-failed", body: askUsage, play: func(s *stage) *stage { return s.ends(endings["failed"]) }},
		{name: "stream-failed-late", body: askStream, play: func(s *stage) *stage {
			return s.says("llm.chunk", `{"text":"It is"}`).ends(endings["failed-late"])
		}},
		{name: "stream-draft-void", body: askStream, play: func(s *stage) *stage {
			s.says("step.started", `{"step_seq":1}`).says("llm.thinking", `{"text":"Hm."}`).says("llm.chunk", `{"text":"It \n"}`).says("llm.chunk", `{"text":"is"}`)
			s.says("step.draft_void", `{"step_seq":1}`).says("step.retrying", `{"after_ms":5}`).says("llm.thinking", `{"text":"Hm. So"}`)
			s.says("llm.chunk", `{"text":"It","step_seq":1}`).says("llm.chunk", `{"text":" \nis 42.","step_seq":1}`)
			return s.says("llm.completed", `{"step_seq":1}`).ends(endings["completed"])
		}},
		{name: "stream-voided", body: askStream, play: func(s *stage) *stage {
			s.says("step.started", `{"step_seq":1}`).says("llm.chunk", `{"text":"It is"}`).says("step.draft_void", `{"step_seq":1}`)
			return s.says("llm.chunk", `{"text":"I think"}`).ends(endings["completed"])
		}},
		{name: "stream-voided-shorter", body: askStream, play: func(s *stage) *stage {
			s.says("step.started", `{"step_seq":1}`).says("llm.chunk", `{"text":"It is"}`).says("step.draft_void", `{"step_seq":1}`)
			return s.says("llm.chunk", `{"text":"It"}`).says("llm.completed", `{"step_seq":1}`).ends(endings["completed"])
		}},
		{name: "plain-model-down", body: ask, play: func(s *stage) *stage {
			s.chat.Runner.MaxModelWait = time.Millisecond
			return s.says("step.retrying", `{"step_seq":1,"attempt":1,"after_ms":60000}`)
		}},
		{name: "stream-without-log", body: askStream, play: func(s *stage) *stage {
			s.chat.Runner.Log = brokenLog{}
			s.says("llm.chunk", `{"text":"It "}`)
			s.live = append(s.live, event.Event{Seq: 5, Name: "llm.chunk", Data: jsontext.Value(`{"text":"5"}`)})
			return s
		}},
		{name: "stream-too-slow", body: askStream, play: func(s *stage) *stage { return flooded(s, "tool.call") }},
		{name: "refused-key", body: ask, header: []string{"Authorization", "Bearer svc_bad"}},
		{name: "refused-scope", body: ask, header: []string{"Authorization", "Bearer " + readKey}},
		{name: "refused-json", body: `{"model":`},
		{name: "refused-fields", body: `{"model":5,"messages":[]}`},
		{name: "refused-content-type", body: ask, header: []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{name: "refused-agent", body: strings.Replace(ask, "00a", "00c", 1)},
		{name: "refused-agent-name", body: strings.Replace(ask, agentID, "gpt-5", 1)},
		{name: "refused-tenant", body: ask, header: []string{"X-Active-Tenant", "01990000-0000-7000-8000-0000000000fe"}},
		{name: "refused-suspended", body: ask, play: func(s *stage) *stage {
			s.refuse = fault.WrongState("agent", "suspended", "starting a run")
			return s
		}},
		{name: "refused-stream-suspended", body: askStream, play: func(s *stage) *stage {
			s.refuse = fault.WrongState("agent", "suspended", "starting a run")
			return s
		}},
		{name: "refused-busy", body: ask, play: func(s *stage) *stage {
			busy := fault.New(fault.Unavailable, "", "The database is locked; retry.")
			busy.RetryAfter = time.Second
			s.refuse = busy
			return s
		}},
		{name: "refused-limit", body: ask, play: func(s *stage) *stage {
			s.refuse = fault.New(fault.Limited, "", "Too many requests.")
			return s
		}},
		{name: "refused-internal", body: ask, play: func(s *stage) *stage { s.refuse = errors.New("pq: secret"); return s }},
		{name: "own-tenant", body: ask, header: []string{"X-Active-Tenant", tenant}, play: answered},
		{name: "models", method: "GET", path: "/v1/models"},
		{name: "models-none", method: "GET", path: "/v1/models", play: func(s *stage) *stage { s.agents = nil; return s }},
		{name: "model", method: "GET", path: "/v1/models/" + agentID},
		{name: "model-with-prefix", method: "GET", path: "/v1/models/agent/" + agentID},
		{name: "model-escaped", method: "GET", path: "/v1/models/agent%2F" + agentID},
		{name: "model-unknown", method: "GET", path: "/v1/models/01990000-0000-7000-8000-00000000000c"},
		{name: "model-team", method: "GET", path: "/v1/models/team%2F" + agentID},
		{name: "refused-team", body: strings.Replace(ask, agentID, "team/"+agentID, 1)},
		{name: "model-no-id", method: "GET", path: "/v1/models/gpt-5"},
		{name: "model-internal", method: "GET", path: "/v1/models/" + agentID, play: func(s *stage) *stage { s.refuse = errors.New("pq: secret"); return s }},
		{name: "models-no-key", method: "GET", path: "/v1/models", header: []string{"Authorization", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			if tt.play != nil {
				tt.play(s)
			}
			if tt.method == "" {
				tt.method, tt.path = "POST", chat
			}
			goldentest.Check(t, "testdata/exchanges/"+tt.name+".txt", s.exchange(t, tt.method, tt.path, tt.body, tt.header...))
			patient := s.chat.Runner.MaxModelWait == 0 // otherwise the run is read to see what it waits for
			if s.reads.Load() > 0 && !s.distant && patient {
				t.Error("the run's end was at hand and was read all the same")
			}
			if n := s.hub.Readers(); n != 0 {
				t.Errorf("%d readers are left", n)
			}
		})
	}
}

type brokenLog struct{ event.Log }

func (brokenLog) Read(context.Context, string, string, int64, int) ([]event.Event, error) {
	return nil, errors.New("the disk is gone")
}

// Text that the reader of a stream was too slow for is read from the log: an
// answer with a hole is a wrong answer.
func TestAStreamHasNoHoles(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.chat.Runner.Log = scriptLog{script: s}
	flooded(s, "llm.chunk")
	got := string(s.exchange(t, "POST", "/v1/chat/completions", askStream))
	if n := strings.Count(got, `"delta":{"content":"x"}`); n != 2000 || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("%d of 2000 pieces came, and then %s", n, got[max(0, len(got)-300):])
	}
}

// scriptLog has stored what the stage says.
type scriptLog struct {
	event.Log
	script *stage
}

func (l scriptLog) Read(_ context.Context, _, _ string, after int64, limit int) ([]event.Event, error) {
	all := l.script.live
	return all[after:min(after+int64(limit), int64(len(all)))], nil
}

// A run goes on without its client, unless it was to be streamed and the
// agent's policy says otherwise; what is in the background goes on anyway. A
// server that stops is no client that leaves.
func TestAClientThatGoesAway(t *testing.T) {
	t.Parallel()
	const chat = "/v1/chat/completions"
	for _, tt := range []struct {
		name, path, body       string
		policy, stops, cancels bool
	}{
		{name: "chat-stream", path: chat, body: askStream},
		{name: "chat-stream-with-policy", path: chat, body: askStream, policy: true, cancels: true},
		{name: "chat-plain-with-policy", path: chat, body: ask, policy: true},
		{name: "chat-server-stops", path: chat, body: askStream, policy: true, stops: true},
		{name: "response-stream", path: responses, body: respondStream},
		{name: "response-stream-with-policy", path: responses, body: respondStream, policy: true, cancels: true},
		{name: "response-plain-with-policy", path: responses, body: respond, policy: true},
		{name: "response-in-the-background", path: responses, body: strings.Replace(respondStream, "{", `{"background":true,`, 1), policy: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.onLeave = tt.policy
			s.says("llm.chunk", `{"text":"Well"}`)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			req := s.request(t, "POST", tt.path, tt.body).WithContext(ctx)
			var asking sync.WaitGroup
			asking.Go(func() {
				resp, err := client.Do(req)
				if err != nil {
					return // it left before there was an answer
				}
				defer resp.Body.Close()
				_, _ = io.Copy(io.Discard, resp.Body)
			})
			for s.hub.Readers() == 0 {
				time.Sleep(time.Millisecond)
			}
			if tt.stops {
				now, cancel := context.WithCancel(t.Context())
				cancel()
				_ = s.api.Shutdown(now) // cuts off what is left
			} else {
				leave()
			}
			asking.Wait()
			s.serving.Wait()
			if cancelled := len(s.canceled) > 0; cancelled != tt.cancels {
				t.Errorf("the run was cancelled: %t", cancelled)
			}
		})
	}
}

// What a run gets is what the request says.
func TestTheRunThatIsMade(t *testing.T) {
	t.Parallel()
	s := answered(newStage(t))
	s.exchange(t, "POST", "/v1/chat/completions", askStream)
	if s.made.AgentID != agentID || s.made.Options.Plain || string(s.made.Metadata) != `{"source":"chat_completions"}` ||
		string(s.made.Input) != `{"message":"Hello?"}` || s.made.RunID == "" {
		t.Errorf("made %+v", s.made)
	}
	if len(toolCalls([]model.ToolCall{})) != 0 || toolCalls(nil) != nil {
		t.Error("no calls are a list")
	}
}
