package anthropic

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/httpapi/httpapitest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/quota"
	"agentd/internal/wire/modelcall"
	"agentd/internal/wire/openaiclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenant  = "01990000-0000-7000-8000-0000000000ff"
	agentID = "01990000-0000-7000-8000-0000000000aa"
	goodKey = "svc_good"
)

// stage is the platform behind the routes, with a simulated model.
type stage struct {
	messages Messages
	sim      *modeltest.Server
	url      string

	mu     sync.Mutex
	refuse error // of the plan
	used   []quota.Use
}

var keys = httpapitest.Keys{
	goodKey: {TenantID: tenant, KeyID: "k", Role: authz.Developer, Scopes: []authz.Scope{"runs:create", "agents:read"}},
}

// Resolve implements gateway.Models.
func (s *stage) Resolve(_ context.Context, _ string, spec model.Spec) (model.Target, error) {
	if spec.ModelRef == "nobody/x" {
		return model.Target{}, &model.Error{Code: "provider_not_configured", Detail: "The model belongs to nobody."}
	}
	return model.Target{Provider: "default", Model: spec.ModelRef, BaseURL: s.sim.URL}, nil
}

// AllowProxyCall implements quota.Proxy.
func (s *stage) AllowProxyCall(context.Context, string, *model.Target) error { return s.refuse }

// CountProxyCall implements quota.Proxy.
func (s *stage) CountProxyCall(_ string, use quota.Use) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = append(s.used, use)
}

// newStage starts a server; adjust changes it before.
func newStage(t testing.TB, answer modeltest.Answer, adjust ...func(*stage)) *stage {
	t.Helper()
	return stageWith(t, modeltest.New(t, modeltest.Default(answer)), adjust...)
}

func stageWith(t testing.TB, sim *modeltest.Server, adjust ...func(*stage)) *stage {
	t.Helper()
	transport := modelcall.NewTransport()
	wire := openaiclient.New(openaiclient.Config{Operator: transport, Backoff: time.Millisecond, MaxBackoff: time.Millisecond})
	s := &stage{sim: sim}
	s.messages = Messages{
		Proxy: &modelproxy.Proxy{
			Models: s, Client: model.Router{Wire: wire, Forwards: wire}, Plans: s,
			CheckAgent: func(_ context.Context, _, id string) error {
				if id != agentID {
					return fault.NewNotFound("agent")
				}
				return nil
			},
		},
		Reserved: func() string { return "default/big" },
	}
	for _, f := range adjust {
		f(s)
	}
	t.Cleanup(transport.CloseIdleConnections)
	s.url, _ = httpapitest.Serve(t, keys, s.messages.Routes())
	t.Cleanup(client.CloseIdleConnections)
	return s
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

func (s *stage) request(ctx context.Context, t testing.TB, body string, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", goodKey)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

func (s *stage) ask(t testing.TB, body string, header ...string) (*http.Response, []byte) {
	t.Helper()
	resp, err := client.Do(s.request(t.Context(), t, body, header...))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, b
}

const (
	hello       = `{"model":"claude-x","max_tokens":64,"messages":[{"role":"user","content":"Hello?"}]}`
	helloStream = `{"model":"claude-x","max_tokens":64,"messages":[{"role":"user","content":"Hello?"}],"stream":true}`
)

// answer is what the tests read of an answer in one piece.
type answer struct {
	Content []struct {
		Type  string         `json:"type"`
		Text  string         `json:"text"`
		ID    string         `json:"id"`
		Name  string         `json:"name"`
		Input map[string]any `json:"input"`
	} `json:"content"`
	StopReason string `json:"stop_reason"`
	Error      struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// Endpoints that misbehave give well-formed answers or refusals, streamed and not.
func TestUnusualRequests(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for _, odd := range modeltest.Oddities(stream) {
			t.Run(map[bool]string{false: "plain/", true: "streamed/"}[stream]+odd.Name, func(t *testing.T) {
				t.Parallel()
				s := newStage(t, odd.Answer)
				body := hello
				if stream {
					body = helloStream
				}
				resp, raw := s.ask(t, body)
				streamed := resp.Header.Get("Content-Type") == "text/event-stream"
				if wanted := stream && (!odd.Fails || odd.Text != "" || strings.HasPrefix(odd.Name, "garbage")); streamed != wanted {
					t.Fatalf("streamed: %t, want %t: %d %s", streamed, wanted, resp.StatusCode, raw)
				}
				reason := "end_turn"
				switch {
				case odd.Cut:
					reason = "max_tokens"
				case len(odd.Calls) > 0:
					reason = "tool_use"
				}
				if streamed {
					h := checkGrammar(t, raw, !odd.Fails)
					if odd.Fails {
						if h.failed != "api_error" || !strings.HasPrefix(h.text, odd.Text) {
							t.Errorf("%+v", h)
						}
						return
					}
					if h.text != odd.Text || len(h.inputs) != len(odd.Calls) || h.stop != reason {
						t.Errorf("%+v, want %q and %v", h, odd.Text, odd.Calls)
					}
					return
				}
				var got answer
				if err := json.Unmarshal(raw, &got); err != nil {
					t.Fatalf("%v: %s", err, raw)
				}
				if odd.Fails {
					if resp.StatusCode < 500 || got.Error.Type != "api_error" {
						t.Errorf("%d %s", resp.StatusCode, raw)
					}
					return
				}
				text, calls := "", 0
				for _, b := range got.Content {
					text += b.Text
					if b.Type == "tool_use" {
						if calls++; b.ID == "" || b.Name == "" || b.Input == nil {
							t.Errorf("a call: %+v", b)
						}
					}
				}
				if resp.StatusCode != 200 || text != odd.Text || calls != len(odd.Calls) || got.StopReason != reason {
					t.Errorf("%d %s", resp.StatusCode, raw)
				}
			})
		}
	}
}

// The status waits for the model, but not for ever; then pings come.
func TestPatience(t *testing.T) {
	t.Parallel()
	hasty := func(s *stage) { s.messages.StatusWait, s.messages.Ping = 20*time.Millisecond, 15*time.Millisecond }
	t.Run("answer", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, modeltest.Answer{Text: "a b", TTFT: 150 * time.Millisecond}, hasty)
		resp, raw := s.ask(t, helloStream)
		h := checkGrammar(t, raw, true)
		before, _, _ := bytes.Cut(raw, []byte("content_block_start"))
		if pings := bytes.Count(before, []byte("event: ping")); resp.StatusCode != 200 || h.text != "a b" || pings < 3 || pings > 12 {
			t.Errorf("%d pings: %s", pings, raw)
		}
	})
	t.Run("late refusal", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, modeltest.Answer{Status: 400, Error: "that is odd", TTFT: 100 * time.Millisecond}, hasty)
		resp, raw := s.ask(t, helloStream)
		if h := checkGrammar(t, raw, false); resp.StatusCode != 200 || h.failed != "invalid_request_error" || !strings.Contains(string(raw), "that is odd") {
			t.Errorf("%d %s", resp.StatusCode, raw)
		}
	})
	t.Run("early refusal", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, modeltest.Answer{Status: 400, Error: "that is odd", TTFT: 50 * time.Millisecond})
		resp, raw := s.ask(t, helloStream)
		if resp.StatusCode != 400 || !strings.Contains(string(raw), `"type":"invalid_request_error"`) {
			t.Errorf("%d %s", resp.StatusCode, raw)
		}
	})
}

// What a model says is there at once, however slowly it goes on, and a caller who
// leaves ends its call.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		gone := make(chan struct{})
		sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "a b c", HangAfter: 2, HangFirst: !stream}))
		s := stageWith(t, sim, func(s *stage) {
			next := s.messages.Proxy.Client
			s.messages.Proxy.Client = watching{next, gone}
		})
		ctx, cancel := context.WithCancel(t.Context())
		body := hello
		if stream {
			body = helloStream
		} else {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		resp, err := client.Do(s.request(ctx, t, body))
		if stream {
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() && !strings.Contains(lines.Text(), `"text":"a "`) {
				continue
			}
			cancel()
			resp.Body.Close()
		} else if err == nil {
			resp.Body.Close()
			t.Error("there is an answer")
		}
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			t.Errorf("stream %t: the call goes on", stream)
		}
		cancel()
	}
}

// watching tells when a call is over.
type watching struct {
	modelproxy.Client
	over chan struct{}
}

// Generate implements model.Client.
func (w watching) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	defer close(w.over)
	return w.Client.Generate(ctx, req, sink)
}

// Refusals of plans and of the chain, and what use is counted.
func TestRefusals(t *testing.T) {
	t.Parallel()
	limited := func(kind fault.Kind, code string) error {
		e := fault.New(kind, code, "The plan does not allow it.")
		e.RetryAfter, e.Extra = time.Hour, map[string]any{"quota": map[string]any{"kind": "tokens"}}
		return e
	}
	for _, tt := range []struct {
		name   string
		refuse error
		body   string
		header []string
		status int
		says   string
	}{
		{"limit", limited(fault.Forbidden, "limit_reached"), hello, nil, 403, `"billing_error"`},
		{"quota", limited(fault.Limited, "quota_exceeded"), hello, nil, 429, `"rate_limit_error"`},
		{"budget", fault.New(fault.Limited, "BUDGET_EXCEEDED", "All is spent."), hello, nil, 429, `"billing_error"`},
		{"tier", fault.New(fault.Forbidden, "model_not_in_plan", "Not on this plan."), hello, nil, 403, `"permission_error"`},
		{"unknown model", nil, strings.Replace(hello, "claude-x", "nobody/x", 1), nil, 400, `"invalid_request_error"`},
		{"no JSON", nil, "{", nil, 400, `"invalid_request_error"`},
		{"twice", nil, `{"model":"a","model":"b"}`, nil, 400, `"invalid_request_error"`},
		{"fields", nil, `{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, nil, 422, `max_tokens: `},
		{"wrong key", nil, hello, []string{"X-Api-Key", "no"}, 401, `"authentication_error"`},
		{"other company", nil, hello, []string{"X-Active-Tenant", "other"}, 400, `"invalid_request_error"`},
		{"no agent", nil, hello, []string{"X-Agent-Id", "x"}, 404, `"invalid_request_error"`},
		{"no such agent", nil, hello, []string{"X-Agent-Id", tenant}, 404, `"invalid_request_error"`},
		{"too large", nil, strings.Repeat(" ", httpapi.MaxBody+1), nil, 413, `"PAYLOAD_TOO_LARGE"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, modeltest.Answer{Text: "x"}, func(s *stage) { s.refuse = tt.refuse })
			resp, raw := s.ask(t, tt.body, tt.header...)
			if resp.StatusCode != tt.status || !strings.Contains(string(raw), tt.says) {
				t.Errorf("%d %s", resp.StatusCode, raw)
			}
			if want := tt.status == 413; (resp.Header.Get("Content-Type") == "application/problem+json") != want {
				t.Errorf("Content-Type %s", resp.Header.Get("Content-Type"))
			}
			if s.sim.Calls() != 0 || len(s.used) != 0 {
				t.Error("the model was asked")
			}
		})
	}
	s := newStage(t, modeltest.Answer{Text: "x", Usage: &model.Usage{InputTokens: 7, OutputTokens: 3}})
	for _, body := range []string{hello, helloStream} {
		if resp, raw := s.ask(t, body, "X-Agent-Id", agentID); resp.StatusCode != 200 || resp.Header.Get("Request-Id") != resp.Header.Get("X-Request-Id") {
			t.Errorf("%d %s", resp.StatusCode, raw)
		}
	}
	if len(s.used) != 2 || s.used[0] != s.used[1] || s.used[0].AgentID != agentID || s.used[0].Source != "messages" || s.used[0].KeyID != "k" {
		t.Errorf("used %+v", s.used)
	}
	if diff := cmp.Diff("default/big", s.sim.Requests()[0].Chat().Model); diff != "" {
		t.Error(diff)
	}
}
