package modelproxy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// stage plays everything that a gateway needs. The models one and two are
// there, and refused is there too where said.
type stage struct {
	plan    error
	lookup  error
	answers map[string]said // by model
	asked   []string
	used    []quota.Use
	gateway Proxy
}

// said is what a model says: pieces, and how it ends.
type said struct {
	pieces []string
	usage  model.Usage
	err    error
	whole  *model.Response
}

var price = &model.Price{Rates: model.Rates{Input: 1, Output: 2}}

func newStage(fallback string, answers map[string]said) *stage {
	s := &stage{answers: answers}
	s.gateway = Proxy{Models: s, Client: s, Plans: s, Fallback: func() string { return fallback }, CheckAgent: s.check}
	return s
}

const agentID = "01990000-0000-7000-8000-00000000000a"

// check knows one agent of acme's.
func (s *stage) check(_ context.Context, tenant, id string) error {
	if tenant != "acme" || id != agentID {
		return fault.NewNotFound("agent")
	}
	return nil
}

// Resolve implements Models.
func (s *stage) Resolve(_ context.Context, tenant string, spec model.Spec) (model.Target, error) {
	if s.lookup != nil {
		return model.Target{}, s.lookup
	}
	if _, ok := s.answers[spec.ModelRef]; !ok || tenant != "acme" {
		return model.Target{}, &model.Error{Code: "provider_not_configured", Detail: "Nobody serves it."}
	}
	return model.Target{Provider: "default", Model: spec.ModelRef, Price: price}, nil
}

// AllowProxyCall implements quota.Proxy.
func (s *stage) AllowProxyCall(_ context.Context, tenant string, t *model.Target) error {
	name := "a model of the operator's"
	if t != nil {
		name = t.Model
	}
	s.asked = append(s.asked, "plan of "+tenant+" for "+name)
	return s.plan
}

// CountProxyCall implements quota.Proxy.
func (s *stage) CountProxyCall(tenant string, use quota.Use) {
	if tenant != "acme" {
		use.Model = "of another tenant"
	}
	s.used = append(s.used, use)
}

// Generate implements model.Client.
func (s *stage) Generate(_ context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	s.asked = append(s.asked, req.Target.Model)
	a := s.answers[req.Target.Model]
	for _, piece := range a.pieces {
		if sink != nil {
			sink(model.Delta{Text: piece})
		}
	}
	if a.err != nil {
		return model.Response{}, a.err
	}
	return model.Response{Text: fmt.Sprint(a.pieces), Usage: a.usage}, nil
}

// Forward implements model.Forwarder.
func (s *stage) Forward(_ context.Context, f model.Forward, sink func([]byte) error) (model.Forwarded, error) {
	s.asked = append(s.asked, f.Target.Model)
	a := s.answers[f.Target.Model]
	for _, piece := range a.pieces {
		if err := sink([]byte(piece)); err != nil {
			return model.Forwarded{Usage: a.usage}, err
		}
	}
	if a.err != nil && len(a.pieces) == 0 {
		return model.Forwarded{}, a.err
	}
	return model.Forwarded{Usage: a.usage, Response: a.whole}, a.err
}

var who = authz.Caller{TenantID: "acme", KeyID: "key-1"}

func (s *stage) open(t *testing.T) *Call {
	t.Helper()
	call, err := s.gateway.Open(t.Context(), who, CallParams{Model: "one", Source: quota.SourceLLM, AgentID: agentID})
	if err != nil {
		t.Fatal(err)
	}
	s.asked = nil
	return call
}

// counted is a call that was counted, of the agent and key of this test.
func counted(name string, in, out int64) quota.Use {
	return quota.Use{
		AgentID: agentID, KeyID: "key-1", Source: quota.SourceLLM, Model: "default/" + name, ModelCalls: 1,
		InputTokens: in, OutputTokens: out, CostNano: in*1000 + out*2000,
	}
}

var (
	dead    = &model.Error{Code: "model_error", Detail: "It does not answer.", Retryable: true}
	broke   = &model.Error{Code: "model_error", Detail: "It broke off.", Retryable: true}
	refused = &model.Error{Code: "model_error", Detail: "It does not take that.", Status: 400}
)

func TestOpen(t *testing.T) {
	t.Parallel()
	s := newStage("", map[string]said{"one": {}})
	call, err := s.gateway.Open(t.Context(), who, CallParams{Model: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"plan of acme for one"}, s.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	s.asked = nil
	if got := call.Target(); got.Provider != "default" || got.Model != "one" {
		t.Errorf("it goes to %+v", got)
	}

	_, err = s.gateway.Open(t.Context(), who, CallParams{Model: "none"})
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Kind != fault.Malformed || e.Code != "model_not_found" || e.Detail != `Unknown model "none". Nobody serves it.` {
		t.Errorf("a model that is none: %v", err)
	}
	if len(s.asked) != 0 {
		t.Errorf("the plan was asked about a model that is none: %v", s.asked)
	}
	if _, err := s.gateway.Open(t.Context(), authz.Caller{TenantID: "other"}, CallParams{Model: "one"}); err == nil {
		t.Error("another tenant's model was found")
	}

	for _, agent := range []string{"agent", "01990000-0000-7000-8000-00000000000b"} {
		if _, err := s.gateway.Open(t.Context(), who, CallParams{Model: "one", AgentID: agent}); !fault.Is(err, fault.NotFound) || len(s.asked) != 0 {
			t.Errorf("for the agent %q: %v, asked were %v", agent, err, s.asked)
		}
	}

	s.plan = fault.New(fault.Limited, "", "Enough for today.")
	for name, open := range map[string]func() (*Call, error){
		"by name":   func() (*Call, error) { return s.gateway.Open(t.Context(), who, CallParams{Model: "one"}) },
		"by target": func() (*Call, error) { return s.gateway.OpenTarget(t.Context(), who, call.Target(), quota.SourceLLM) },
	} {
		if got, err := open(); err != s.plan || got != nil {
			t.Errorf("%s: the plan refused, and the answer is %v", name, err)
		}
	}

	s.lookup = errors.New("the database is gone")
	if _, err := s.gateway.Open(t.Context(), who, CallParams{Model: "one"}); !errors.Is(err, s.lookup) {
		t.Errorf("a lookup that failed: %v", err)
	}
	if len(s.used) != 0 {
		t.Errorf("nothing was asked, and counted is %+v", s.used)
	}
}

// What is asked, what the caller sees, and what is counted, of both kinds of
// calls.
func TestCalls(t *testing.T) {
	t.Parallel()
	fine := said{pieces: []string{"12345678", "9"}, usage: model.Usage{InputTokens: 10, OutputTokens: 5}}
	tests := []struct {
		name     string
		one, two said
		alone    bool // there is no fallback
		asked    []string
		shown    string // with the target at each piece
		code     string // of the refusal; "": there is none
		kind     fault.Kind
		used     []quota.Use
		target   string
	}{
		{name: "fine", one: fine, two: fine, asked: []string{"one"}, shown: "one:12345678 one:9 ", used: []quota.Use{counted("one", 10, 5)}, target: "one"},
		{
			name: "the fallback", one: said{err: dead}, two: fine, asked: []string{"one", "two"}, shown: "two:12345678 two:9 ",
			used: []quota.Use{counted("two", 10, 5)}, target: "two",
		},
		{name: "no fallback", alone: true, one: said{err: dead}, two: fine, asked: []string{"one"}, code: "model_error", kind: fault.Unavailable, target: "one"},
		{name: "what is asked is refused", one: said{err: refused}, two: fine, asked: []string{"one"}, code: "model_error", kind: fault.Malformed, target: "one"},
		{
			name: "a model that the endpoint does not have", one: said{err: &model.Error{Code: "model_error", Status: 404, Detail: "No."}}, two: fine,
			asked: []string{"one", "two"}, shown: "two:12345678 two:9 ", used: []quota.Use{counted("two", 10, 5)}, target: "two",
		},
		{
			name: "too long", one: said{err: &model.Error{Code: model.CodeContextLength, Detail: "Too long."}}, two: fine, asked: []string{"one"},
			code: model.CodeContextLength, kind: fault.Malformed, target: "one",
		},
		{
			name: "broken off", one: said{pieces: []string{"1234567"}, usage: model.Usage{InputTokens: 5, OutputTokens: 2}, err: broke}, two: fine,
			asked: []string{"one"}, shown: "one:1234567 ", code: "model_error", kind: fault.Unavailable, used: []quota.Use{counted("one", 5, 2)}, target: "one",
		},
		{
			name: "the fallback broken off", one: said{err: dead}, two: said{pieces: []string{"1234567"}, usage: model.Usage{InputTokens: 5, OutputTokens: 2}, err: broke},
			asked: []string{"one", "two"}, shown: "two:1234567 ", code: "model_error", kind: fault.Unavailable, used: []quota.Use{counted("two", 5, 2)}, target: "two",
		},
		{
			name: "both dead", one: said{err: dead}, two: said{err: &model.Error{Code: "provider_auth_failed", Detail: "Another key."}},
			asked: []string{"one", "two"}, code: "model_error", kind: fault.Unavailable, target: "one",
		},
		{
			name: "the fallback does not take it", one: said{err: dead}, two: said{err: refused},
			asked: []string{"one", "two"}, code: "model_error", kind: fault.Unavailable, target: "one",
		},
	}
	for _, tt := range tests {
		for _, kind := range []string{"generate", "forward"} {
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				fallback := "two"
				if tt.alone {
					fallback = ""
				}
				s := newStage(fallback, map[string]said{"one": tt.one, "two": tt.two})
				call := s.open(t)
				shown := ""
				show := func(piece string) { shown += call.Target().Model + ":" + piece + " " }
				var err error
				if kind == "generate" {
					// A message of four characters is estimated at five tokens.
					req := model.Request{Messages: []model.Message{{Role: model.User, Text: "Hi !"}}}
					_, err = call.Generate(t.Context(), req, func(d model.Delta) { show(d.Text) })
				} else {
					_, err = call.Forward(t.Context(), model.Forward{Body: []byte(`{}`)}, func(piece []byte) error {
						show(string(piece))
						return nil
					})
				}
				if e, _ := errors.AsType[*fault.Error](err); tt.code == "" && err != nil || tt.code != "" && (e == nil || e.Code != tt.code || e.Kind != tt.kind) {
					t.Errorf("the refusal is %v", err)
				}
				if diff := cmp.Diff(tt.asked, s.asked); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
				if shown != tt.shown {
					t.Errorf("shown was %q, want %q", shown, tt.shown)
				}
				if diff := cmp.Diff(tt.used, s.used); diff != "" {
					t.Errorf("counted (-want +got):\n%s", diff)
				}
				if got := call.Target().Model; got != tt.target {
					t.Errorf("the call is said to have gone to %s, want %s", got, tt.target)
				}
			})
		}
	}
}

// A fallback that is the model itself, or none at all, is not asked.
func TestFallbackThatIsNone(t *testing.T) {
	t.Parallel()
	for _, fallback := range []string{"one", "nobody"} {
		s := newStage(fallback, map[string]said{"one": {err: dead}})
		if _, err := s.open(t).Generate(t.Context(), model.Request{}, nil); err == nil || len(s.asked) != 1 {
			t.Errorf("%s: asked were %v, the answer is %v", fallback, s.asked, err)
		}
	}
}

// An answer in another form than asked for is given back.
func TestForwardInAnotherForm(t *testing.T) {
	t.Parallel()
	whole := &model.Response{Text: "hello"}
	s := newStage("", map[string]said{"one": {whole: whole}})
	got, err := s.open(t).Forward(t.Context(), model.Forward{}, nil)
	if got != whole || err != nil || len(s.used) != 1 {
		t.Errorf("%v, %v, counted %+v", got, err, s.used)
	}
}

// The errors of the sink and of the context pass as they are, and no fallback is
// asked.
func TestOthersErrors(t *testing.T) {
	t.Parallel()
	gone := errors.New("the reader is gone")
	s := newStage("two", map[string]said{"one": {pieces: []string{"a", "b"}, usage: model.Usage{InputTokens: 1}}, "two": {}})
	_, err := s.open(t).Forward(t.Context(), model.Forward{}, func([]byte) error { return gone })
	if err != gone || len(s.asked) != 1 || len(s.used) != 1 {
		t.Errorf("%v after %v, counted %+v", err, s.asked, s.used)
	}

	ctx, cancel := context.WithCancel(t.Context())
	s = newStage("two", map[string]said{"one": {err: context.Canceled}, "two": {}})
	call := s.open(t)
	cancel()
	if _, err := call.Generate(ctx, model.Request{}, nil); !errors.Is(err, context.Canceled) || len(s.asked) != 1 || len(s.used) != 0 {
		t.Errorf("%v after %v, counted %+v", err, s.asked, s.used)
	}
	s = newStage("two", map[string]said{"one": {err: dead}, "two": {}})
	call = s.open(t)
	if _, err := call.Forward(ctx, model.Forward{}, nil); err == nil || len(s.asked) != 1 {
		t.Errorf("a fallback was asked for nobody: %v, %v", s.asked, err)
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  model.Error
		kind fault.Kind
		code string
	}{
		{model.Error{Code: "model_rate_limited", Status: 429, Retryable: true, RetryAfter: 7 * time.Second}, fault.Limited, "model_rate_limited"},
		{model.Error{Code: model.CodeContextLength, Status: 400}, fault.Malformed, model.CodeContextLength},
		{model.Error{Code: "provider_not_configured"}, fault.Unsupported, "provider_not_configured"},
		{model.Error{Code: "provider_auth_failed", Status: 401}, fault.Upstream, "provider_auth_failed"},
		{model.Error{Code: "model_error", Status: 400}, fault.Malformed, "model_error"},
		{model.Error{Code: "model_error", Status: 413}, fault.Malformed, "model_error"},
		{model.Error{Code: "model_error", Status: 422}, fault.Malformed, "model_error"},
		{model.Error{Code: "model_error", Status: 404}, fault.Malformed, "model_not_found"},
		{model.Error{Code: "model_error", Status: 405}, fault.Upstream, "model_error"},
		{model.Error{Code: "model_error", Status: 500, Retryable: true}, fault.Unavailable, "model_error"},
		{model.Error{Status: 503, Retryable: true, RetryAfter: time.Minute}, fault.Unavailable, "model_error"},
		{model.Error{Retryable: true}, fault.Unavailable, "model_error"},
		{model.Error{}, fault.Upstream, "model_error"},
	} {
		tt.err.Detail = "100% of it failed."
		for _, err := range []error{&tt.err, fmt.Errorf("asked: %w", &tt.err)} {
			got, ok := errors.AsType[*fault.Error](AsFault(err))
			if !ok || got.Kind != tt.kind || got.Code != tt.code || got.Detail != tt.err.Detail || got.RetryAfter != tt.err.RetryAfter {
				t.Errorf("%+v becomes %+v", tt.err, got)
			}
			if !errors.Is(got, &tt.err) {
				t.Errorf("%+v is not the cause", tt.err)
			}
		}
	}
	if err := AsFault(nil); err != nil {
		t.Errorf("nothing is refused with %v", err)
	}
	if err := AsFault(context.Canceled); err != context.Canceled {
		t.Errorf("a context's end becomes %v", err)
	}
}
