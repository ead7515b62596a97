package openaiclient

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"

	"agentd/internal/wire/modelcall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a client of a simulated model, with waits that tests can afford.
type bench struct {
	*Client
	sim *modeltest.Server
	req model.Request
}

func newBench(t *testing.T, config Config, opts ...modeltest.Option) bench {
	t.Helper()
	sim := modeltest.New(t, opts...)
	transport := modelcall.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	config.Operator = transport
	if config.Backoff == 0 {
		config.Backoff = time.Millisecond
	}
	return bench{New(config), sim, model.Request{
		Target:   model.Target{Provider: "default", Model: "m", BaseURL: sim.URL},
		Messages: []model.Message{{Role: model.User, Text: "hello"}},
	}}
}

// call generates, streamed, and gives what the sink saw too.
func (b bench) call(t *testing.T) (resp model.Response, pieces []model.Delta, err error) {
	t.Helper()
	resp, err = b.Generate(t.Context(), b.req, func(d model.Delta) { pieces = append(pieces, d) })
	return resp, pieces, err
}

var ignoreTime = cmpopts.IgnoreFields(model.Response{}, "FirstToken")

func TestGenerate(t *testing.T) {
	t.Parallel()
	usage := model.Usage{InputTokens: 7, OutputTokens: 9, ThinkingTokens: 4, CachedTokens: 2}
	tests := map[string]struct {
		answer modeltest.Answer
		want   model.Response
		pieces []model.Delta
	}{
		"text": {
			modeltest.Answer{Text: "one two three", Usage: &usage},
			model.Response{Text: "one two three", FinishReason: "stop", Model: "sim-model", Usage: usage},
			[]model.Delta{{Text: "one "}, {Text: "two "}, {Text: "three"}},
		},
		"text-that-needs-escapes": {
			modeltest.Answer{Pieces: []string{"a\"b", "\\", "ä€😀", "\n", "\u0001", "plain", "</script>"}, Usage: &usage},
			model.Response{Text: "a\"b\\ä€😀\n\u0001plain</script>", FinishReason: "stop", Model: "sim-model", Usage: usage},
			[]model.Delta{{Text: "a\"b"}, {Text: "\\"}, {Text: "ä€😀"}, {Text: "\n"}, {Text: "\u0001"}, {Text: "plain"}, {Text: "</script>"}},
		},
		"thinking": {
			modeltest.Answer{Thinking: "let me see", Text: "42", Usage: &usage},
			model.Response{Text: "42", Thinking: "let me see", FinishReason: "stop", Model: "sim-model", Usage: usage},
			[]model.Delta{{Thinking: "let "}, {Thinking: "me "}, {Thinking: "see"}, {Text: "42"}},
		},
		"tool-calls": {
			modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "1", Name: "a", Arguments: `{"x":1}`}, {ID: "2", Name: "b", Arguments: `{}`}}, Usage: &usage},
			model.Response{
				ToolCalls:    []model.ToolCall{{ID: "1", Name: "a", Arguments: `{"x":1}`}, {ID: "2", Name: "b", Arguments: `{}`}},
				FinishReason: "tool_calls", Model: "sim-model", Usage: usage,
			},
			nil,
		},
		"cut-off": {
			modeltest.Answer{Text: "one", Finish: "length", Usage: &usage},
			model.Response{Text: "one", FinishReason: "length", Model: "sim-model", Usage: usage},
			[]model.Delta{{Text: "one"}},
		},
		"no-usage": {
			modeltest.Answer{Text: "nine char", NoUsage: true},
			model.Response{Text: "nine char", FinishReason: "stop", Model: "sim-model", Usage: model.Usage{InputTokens: 6, OutputTokens: 3, Estimated: true}},
			[]model.Delta{{Text: "nine "}, {Text: "char"}},
		},
		"nothing-to-say": {
			modeltest.Answer{Usage: &usage},
			model.Response{FinishReason: "stop", Model: "sim-model", Usage: usage},
			nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{}, modeltest.Default(test.answer))
			streamed, pieces, err := b.call(t)
			if err != nil {
				t.Fatalf("streamed: %v", err)
			}
			if diff := cmp.Diff(test.want, streamed, ignoreTime); diff != "" {
				t.Errorf("streamed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.pieces, pieces); diff != "" {
				t.Errorf("pieces (-want +got):\n%s", diff)
			}
			plain, err := b.Generate(t.Context(), b.req, nil)
			if err != nil {
				t.Fatalf("plain: %v", err)
			}
			if diff := cmp.Diff(test.want, plain); diff != "" {
				t.Errorf("plain (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFirstTokenIsMeasured(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{}, modeltest.Default(modeltest.Answer{Text: "a b c", TTFT: 30 * time.Millisecond, Delay: time.Millisecond}))
	resp, _, err := b.call(t)
	if err != nil || resp.FirstToken < 30*time.Millisecond || resp.FirstToken > 10*time.Second {
		t.Errorf("FirstToken = %v, %v; want at least 30ms", resp.FirstToken, err)
	}
}

// Faults before the first piece are repeated; what cannot get better is not.
func TestRetries(t *testing.T) {
	t.Parallel()
	ok := modeltest.Default(modeltest.Answer{Text: "fine"})
	tests := map[string]struct {
		script []modeltest.Answer
		code   string // of the error; "": none
		calls  int
	}{
		"rate-limit-once":       {[]modeltest.Answer{{Status: 429}}, "", 2},
		"retry-after-honoured":  {[]modeltest.Answer{{Status: 429, RetryAfter: "0.01"}}, "", 2},
		"rate-limit-for-ever":   {[]modeltest.Answer{{Status: 429}, {Status: 429}, {Status: 429}}, "model_rate_limited", 3},
		"retry-after-too-long":  {[]modeltest.Answer{{Status: 429, RetryAfter: "3600"}}, "model_rate_limited", 1},
		"server-error-twice":    {[]modeltest.Answer{{Status: 500}, {Status: 503}}, "", 3},
		"server-error-for-ever": {[]modeltest.Answer{{Status: 500}, {Status: 502}, {Status: 504}}, "model_error", 3},
		"error-in-stream":       {[]modeltest.Answer{{Error: "overloaded"}}, "", 2},
		"bad-request":           {[]modeltest.Answer{{Status: 400, Error: "no such field"}}, "model_error", 1},
		"wrong-key":             {[]modeltest.Answer{{Status: 401}}, "provider_auth_failed", 1},
		"forbidden":             {[]modeltest.Answer{{Status: 403}}, "provider_auth_failed", 1},
		"unknown-model":         {[]modeltest.Answer{{Status: 404}}, "model_error", 1},
		"redirect":              {[]modeltest.Answer{{Status: 307}}, "model_error", 1},
		"too-long":              {[]modeltest.Answer{{Status: 400, Error: "This model's maximum context length is 8192 tokens."}}, "CONTEXT_LENGTH_EXCEEDED", 1},
		"garbage":               {[]modeltest.Answer{{Raw: []byte("<html>hello</html>")}}, "model_error", 1},
		"garbage-in-event":      {[]modeltest.Answer{{Raw: []byte("data: {\"choices\":[}\n\n")}}, "model_error", 1},
		"nothing":               {[]modeltest.Answer{{Raw: []byte{}}}, "model_error", 1},
		"half-at-once":          {[]modeltest.Answer{{Raw: []byte(": comment\n\n")}}, "", 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{}, modeltest.Script(test.script...), ok)
			resp, _, err := b.call(t)
			checkCode(t, err, test.code)
			if test.code == "" && resp.Text != "fine" {
				t.Errorf("Text = %q", resp.Text)
			}
			if b.sim.Calls() != test.calls {
				t.Errorf("%d calls of the endpoint, want %d", b.sim.Calls(), test.calls)
			}
		})
	}
}

func checkCode(t *testing.T, err error, code string) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Errorf("error: %v", err)
		}
		return
	}
	e, ok := errors.AsType[*model.Error](err)
	if !ok || e.Code != code || !strings.HasSuffix(strings.TrimSpace(e.Detail), ".") && !strings.Contains(e.Detail, ": ") {
		t.Errorf("error = %v, want code %s and a sentence", err, code)
	}
}

// Once a piece was shown a fault is the end: no second answer follows the
// first half of another.
func TestBrokenAfterFirstPiece(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer modeltest.Answer
		detail string
	}{
		"connection-cut":   {modeltest.Answer{Text: "one two three", BreakAfter: 2}, "broke"},
		"stream-ends":      {modeltest.Answer{Text: "one two three", EndAfter: 2}, "broke"},
		"hangs":            {modeltest.Answer{Text: "one two three", HangAfter: 2}, "stopped sending"},
		"error-in-stream":  {modeltest.Answer{Text: "one two", Error: "boom"}, "failed"},
		"neither-end-mark": {modeltest.Answer{Text: "one two", NoFinish: true, NoDone: true}, "broke"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{IdleTimeout: 150 * time.Millisecond}, modeltest.Default(test.answer))
			resp, pieces, err := b.call(t)
			checkCode(t, err, "model_error")
			if err != nil && !strings.Contains(err.Error(), test.detail) {
				t.Errorf("error = %v, want %q in it", err, test.detail)
			}
			if len(pieces) != 2 || b.sim.Calls() != 1 || !cmp.Equal(resp, model.Response{}) {
				t.Errorf("%d pieces, %d calls, response %+v; want 2, 1 and an empty one", len(pieces), b.sim.Calls(), resp)
			}
		})
	}
}

func TestSilentEndpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{HeaderTimeout: 50 * time.Millisecond, PlainTimeout: 50 * time.Millisecond}, modeltest.Default(modeltest.Answer{HangFirst: true}))
	_, _, err := b.call(t)
	checkCode(t, err, "model_error")
	_, err = b.Generate(t.Context(), b.req, nil)
	checkCode(t, err, "model_error")
	if b.sim.Calls() > 2 { // a call that was cut off early may not have come
		t.Errorf("%d calls: an endpoint that hangs must not be asked again", b.sim.Calls())
	}
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]modeltest.Answer{
		"before-answer": {HangFirst: true},
		"in-answer":     {Text: "one two three", HangAfter: 1},
		"in-backoff":    {Status: 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{Backoff: time.Hour, MaxBackoff: time.Hour}, modeltest.Default(answer))
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			_, err := b.Generate(ctx, b.req, func(model.Delta) {})
			if err != context.Canceled {
				t.Errorf("error = %v, want %v", err, context.Canceled)
			}
		})
	}
}

// A deadline that comes before the next attempt ends the attempts at once,
// with the endpoint's error.
func TestDeadlineBeforeRetry(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{}, modeltest.Default(modeltest.Answer{Status: 429, RetryAfter: "20"}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := b.Generate(ctx, b.req, nil)
	checkCode(t, err, "model_rate_limited")
	if ctx.Err() != nil {
		t.Error("waited for the deadline")
	}
}

func TestHugeAnswers(t *testing.T) {
	t.Parallel()
	const hundredMB = 100 << 20
	line := []byte(`data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 2<<20) + `"}}]}`)
	for name, answer := range map[string]modeltest.Answer{
		"many-pieces": {Text: "start", Filler: hundredMB},
		"one-line":    {Raw: line},
		"whole":       {Raw: []byte(`{"choices":[{"message":{"content":"` + strings.Repeat("x", 2<<20) + `"}}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{MaxAnswer: 1 << 20}, modeltest.Default(answer))
			_, _, err := b.call(t)
			checkCode(t, err, "model_error")
			if err != nil && !strings.Contains(err.Error(), "longer than") {
				t.Errorf("error = %v", err)
			}
			_, err = b.Generate(t.Context(), b.req, nil)
			checkCode(t, err, "model_error")
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	for _, base := range []string{"http://127.0.0.1:1/v1", "http://no-such-host.invalid/v1"} {
		b.req.Target.BaseURL = base
		_, _, err := b.call(t)
		checkCode(t, err, "model_error")
		if e, ok := errors.AsType[*model.Error](err); !ok || strings.Contains(e.Detail, "127.0.0.1") || !e.Retryable {
			t.Errorf("%s: %v", base, err)
		}
	}
	b.req.Target.BaseURL = "::not a url::"
	_, _, err := b.call(t)
	checkCode(t, err, "provider_not_configured")
}

// The operator's transport never serves a target that a tenant chose.
func TestGuardedTargets(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	b.req.Target.Guarded = true
	_, _, err := b.call(t)
	checkCode(t, err, "provider_not_configured")
	guarded := modelcall.NewTransport()
	t.Cleanup(guarded.CloseIdleConnections)
	b.Client.Guarded = guarded
	b.Client.Operator = nil
	if _, _, err := b.call(t); err != nil || b.sim.Calls() != 1 {
		t.Errorf("%d calls, %v", b.sim.Calls(), err)
	}
}

// A guarded transport's refusal keeps its own message and is not retried.
func TestDeniedAddress(t *testing.T) {
	t.Parallel()
	dials := 0
	b := newBench(t, Config{Guarded: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		dials++
		return nil, &net.OpError{Op: "dial", Err: fault.New(fault.Forbidden, "EGRESS_DENIED", "The address is not a public one.")}
	}}})
	b.req.Target.Guarded = true
	_, _, err := b.call(t)
	checkCode(t, err, "model_error")
	if e, _ := errors.AsType[*model.Error](err); dials != 1 || e == nil || e.Detail != "The address is not a public one." {
		t.Errorf("%d dials, %v", dials, err)
	}
}

func TestKeysAreSentAndNeverShown(t *testing.T) {
	t.Parallel()
	const key = "secret-key-1234"
	b := newBench(t, Config{}, modeltest.RequireKey(key), modeltest.Default(modeltest.Answer{
		Status: 400, Error: "Bad key " + key + " at http://10.0.0.7:8000/x and 10.1.2.3:80, see sk-abc123; model too small",
	}))
	b.req.Target.APIKey = secret.New(key)
	_, _, err := b.call(t)
	checkCode(t, err, "model_error")
	e, _ := errors.AsType[*model.Error](err)
	for _, hidden := range []string{key, "10.0.0.7", "10.1.2.3", "sk-abc123"} {
		if strings.Contains(e.Detail, hidden) {
			t.Errorf("%q shows %q", e.Detail, hidden)
		}
	}
	if strings.Contains(e.Cause.Error(), key) {
		t.Errorf("the log would show the key: %v", e.Cause)
	}
	if !strings.Contains(e.Detail, "model too small") {
		t.Errorf("%q hides what would help", e.Detail)
	}
	if got := b.sim.Requests()[0].Header.Get("Authorization"); got != "Bearer "+key {
		t.Errorf("Authorization = %q", got)
	}
}

// Connections are used again, also after streams.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{})
	dials := 0
	transport := modelcall.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return dial(ctx, network, address)
	}
	b.Client.Operator = transport
	for i := range 10 {
		var sink func(model.Delta)
		if i%2 == 0 {
			sink = func(model.Delta) {}
		}
		if _, err := b.Generate(t.Context(), b.req, sink); err != nil {
			t.Fatal(err)
		}
	}
	if dials != 1 {
		t.Errorf("%d connections for 10 calls", dials)
	}
}

func TestDialects(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{MaxAttempts: 1}, modeltest.Script(
		modeltest.Answer{Status: 400, Error: "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."},
		modeltest.Answer{Status: 422, Error: "stream_options: extra inputs are not permitted"},
	))
	b.req.MaxTokens = 5
	if _, _, err := b.call(t); err != nil {
		t.Fatal(err)
	}
	last := string(b.sim.Requests()[2].Body)
	if !strings.Contains(last, `"max_completion_tokens":5`) || strings.Contains(last, `"max_tokens"`) || strings.Contains(last, "stream_options") {
		t.Errorf("the third request is %s", last)
	}
	if _, _, err := b.call(t); err != nil || b.sim.Calls() != 4 {
		t.Errorf("%v after %d calls, of which the last should have known the dialect", err, b.sim.Calls())
	}
}

// An endpoint that does not take what says how to think is asked without it,
// once, and not told again for a while.
func TestThinkingThatIsRefused(t *testing.T) {
	t.Parallel()
	refusing := func(script ...modeltest.Answer) bench {
		b := newBench(t, Config{MaxAttempts: 1}, modeltest.Script(script...))
		b.req.Extra = map[string]jsontext.Value{"reasoning_effort": jsontext.Value(`"high"`), "seed": jsontext.Value("1")}
		return b
	}
	refusal := modeltest.Answer{Status: 400, Error: "Unrecognized request argument supplied: reasoning_effort"}
	b := refusing(refusal)
	for range 2 {
		if _, _, err := b.call(t); err != nil {
			t.Fatal(err)
		}
	}
	var sent []bool
	for _, r := range b.sim.Requests() {
		sent = append(sent, strings.Contains(string(r.Body), `"reasoning_effort":"high"`))
		if !strings.Contains(string(r.Body), `"seed":1`) {
			t.Errorf("another field is gone: %s", r.Body)
		}
	}
	if diff := cmp.Diff([]bool{true, false, false}, sent); diff != "" {
		t.Errorf("sent with the first, second and third call:\n%s", diff)
	}

	b = refusing(refusal, refusal)
	if _, _, err := b.call(t); err == nil || b.sim.Calls() != 2 {
		t.Errorf("%v after %d calls", err, b.sim.Calls())
	}
	if _, _, err := b.call(t); err != nil || !strings.Contains(string(b.sim.Requests()[2].Body), "reasoning_effort") {
		t.Errorf("a call that failed taught something: %v", err)
	}
	b = refusing(modeltest.Answer{Status: 400, Error: "no such tool"})
	if _, _, err := b.call(t); err == nil || b.sim.Calls() != 1 {
		t.Errorf("a refusal for another reason: %v after %d calls", err, b.sim.Calls())
	}
}

// Which failures pass by themselves (rules D22-passing, D22-lasting).
func TestPassingFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  modeltest.Answer
		passing bool
	}{
		"408":                   {modeltest.Answer{Status: 408}, true},
		"409-with-retry-after":  {modeltest.Answer{Status: 409, RetryAfter: "1"}, true},
		"409":                   {modeltest.Answer{Status: 409}, false},
		"425":                   {modeltest.Answer{Status: 425}, true},
		"429":                   {modeltest.Answer{Status: 429}, true},
		"500":                   {modeltest.Answer{Status: 500}, true},
		"503":                   {modeltest.Answer{Status: 503}, true},
		"529":                   {modeltest.Answer{Status: 529}, true},
		"breaks-off":            {modeltest.Answer{Text: "one two three", BreakAfter: 2}, true},
		"ends-in-the-middle":    {modeltest.Answer{Text: "one two three", EndAfter: 2}, true},
		"silent":                {modeltest.Answer{HangFirst: true}, true},
		"silent-in-the-middle":  {modeltest.Answer{Text: "one two three", HangAfter: 2}, true},
		"drips":                 {modeltest.Answer{Text: modeltest.Tokens(100), Delay: 20 * time.Millisecond}, true},
		"error-in-a-200":        {modeltest.Answer{Text: "one", Error: "overloaded"}, true},
		"refused-in-a-200":      {modeltest.Answer{Raw: []byte(`{"error":{"message":"no","code":400}}`)}, false},
		"no-choice":             {modeltest.Answer{Raw: []byte(`{"choices":[]}`)}, true},
		"nothing":               {modeltest.Answer{Raw: []byte{}}, true},
		"400":                   {modeltest.Answer{Status: 400}, false},
		"401":                   {modeltest.Answer{Status: 401}, false},
		"403":                   {modeltest.Answer{Status: 403}, false},
		"404":                   {modeltest.Answer{Status: 404}, false},
		"422":                   {modeltest.Answer{Status: 422}, false},
		"501":                   {modeltest.Answer{Status: 501}, false},
		"context-length":        {modeltest.Answer{Status: 400, Error: "maximum context length is 8"}, false},
		"context-length-of-500": {modeltest.Answer{Status: 500, Error: "maximum context length is 8"}, false},
		"no-json":               {modeltest.Answer{Raw: []byte(`<html>`)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{
				MaxAttempts: 1, HeaderTimeout: 300 * time.Millisecond, IdleTimeout: 300 * time.Millisecond, AnswerTimeout: time.Second,
			}, modeltest.Default(c.answer))
			_, _, err := b.call(t)
			e, ok := errors.AsType[*model.Error](err)
			if !ok || e.Passing != c.passing {
				t.Errorf("%v: passing is %v, want %v", err, ok && e.Passing, c.passing)
			}
		})
	}
	b := newBench(t, Config{MaxAttempts: 1})
	b.req.Target.BaseURL = "http://127.0.0.1:1/v1"
	_, _, err := b.call(t)
	if e, ok := errors.AsType[*model.Error](err); !ok || !e.Passing {
		t.Errorf("an endpoint that cannot be reached: %v", err)
	}
}
