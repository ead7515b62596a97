package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/fault"
	"agentd/internal/edge/httpapi/httpapitest"
	"agentd/internal/goldentest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// forwardRead is what readForward makes of a body, with the values that its spans
// show.
type forwardRead struct {
	Name, Model, Options string
	Stream, Usage        bool
}

func readAll(body []byte) (forwardRead, error) {
	var ask modelproxy.CallParams
	f, err := readForward(body, &ask)
	return forwardRead{ask.Model, string(body[f.Model.From:f.Model.To]), string(body[f.Options.From:f.Options.To]), f.Stream, f.Usage}, err
}

func TestReadForward(t *testing.T) {
	t.Parallel()
	const messages = `"messages":[{"role":"user","content":"the \"model\": \"x\", \"stream\": true"}]`
	for name, tt := range map[string]struct {
		body string
		want forwardRead
	}{
		"plain":           {`{"model":"a/b",` + messages + `}`, forwardRead{Name: "a/b", Model: `"a/b"`}},
		"last":            {`{` + messages + `,"model":"a/b"}`, forwardRead{Name: "a/b", Model: `"a/b"`}},
		"streamed":        {`{"model":"m",` + messages + `,"stream":true}`, forwardRead{Name: "m", Model: `"m"`, Stream: true}},
		"not streamed":    {`{"model":"m",` + messages + `,"stream":false}`, forwardRead{Name: "m", Model: `"m"`}},
		"a stream null":   {`{"stream":null,"model":"m",` + messages + `}`, forwardRead{Name: "m", Model: `"m"`}},
		"options":         {`{"stream_options":{"include_usage":true},"stream":true,"model":"m",` + messages + `}`, forwardRead{"m", `"m"`, `{"include_usage":true}`, true, true}},
		"other options":   {`{"stream_options":{"x":[{}]},"stream":true,"model":"m",` + messages + `}`, forwardRead{"m", `"m"`, `{"x":[{}]}`, true, false}},
		"odd options":     {`{"stream_options":{"include_usage":"yes"},"model":"m",` + messages + `}`, forwardRead{"m", `"m"`, `{"include_usage":"yes"}`, false, false}},
		"options null":    {`{"stream_options":null,"stream":true,"model":"m",` + messages + `}`, forwardRead{"m", `"m"`, `null`, true, false}},
		"white space":     {" \n{ \"model\"\t:\r\n \"m\" , \"stream\" : true , \"stream_options\" : { } ," + messages + " }\n", forwardRead{"m", `"m"`, `{ }`, true, false}},
		"escaped names":   {`{"m\u006fdel":"m","\u0073tream":true,"stream\u005foptions":{"include\u005fusage":true},` + messages + `}`, forwardRead{"m", `"m"`, `{"include\u005fusage":true}`, true, true}},
		"an escaped name": {`{"model":"\u0061\/b",` + messages + `}`, forwardRead{Name: "a/b", Model: `"\u0061\/b"`}},
		"elsewhere": {
			`{"metadata":{"model":"x","stream":true},"tools":[{"model":"y","stream_options":{}}],"model":"m",` + messages + `,"x":{"model":1}}`,
			forwardRead{Name: "m", Model: `"m"`},
		},
		"beyond ASCII": {`{"ключ":"…","model":"м/é",` + messages + `}`, forwardRead{Name: "м/é", Model: `"м/é"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := readAll([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, body := range []string{
		``, `null`, `[]`, `{}`, `{"model":"m"}`, `{"messages":[{}]}`, `{"model":"","messages":[{}]}`, `{"model":7,"messages":[{}]}`, `{"model":"m","messages":[]}`,
		`{"model":"m","messages":{}}`, `{"model":"m","messages":[{}],"stream":"true"}`, `{"model":"m","messages":[{}],"stream":1}`,
		`{"model":"m","model":"n","messages":[{}]}`, `{"model":"m","m\u006fdel":"n","messages":[{}]}`, `{"model":"m","messages":[{}]}x`, `{"model":"` + strings.Repeat("m", 301) + `","messages":[{}]}`,
	} {
		_, err := readAll([]byte(body))
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.Malformed && e.Kind != fault.Invalid {
			t.Errorf("%s is answered with %v", body, err)
		}
	}
}

// Whatever is accepted, what is changed on the way are the values of those
// members, and a request whose model was replaced in place is the same but for
// its model.
func FuzzReadForward(f *testing.F) {
	for _, seed := range []string{
		`{"model":"a/b","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`,
		`{"m\u006fdel":"\u0061","messages":[{}],"x":{"model":"y"},"stream":null}`, " {\n\"stream_options\" : null,\"messages\":[1],\"model\":\"m\"}\t", `{"model":"m"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var ask modelproxy.CallParams
		got, err := readForward(body, &ask)
		if err != nil {
			return
		}
		var want struct {
			Model    string         `json:"model"`
			Stream   *bool          `json:"stream"`
			Options  jsontext.Value `json:"stream_options"`
			Messages jsontext.Value `json:"messages"`
			Rest     jsontext.Value `json:",unknown"`
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("%s was accepted: %v", body, err)
		}
		if ask.Model != want.Model || got.Stream != (want.Stream != nil && *want.Stream) {
			t.Errorf("%s: the model %q, stream %t", body, ask.Model, got.Stream)
		}
		if span := string(body[got.Model.From:got.Model.To]); unquote(jsontext.Value(span)) != want.Model {
			t.Errorf("%s: the model's value is %s", body, span)
		}
		if span := string(body[got.Options.From:got.Options.To]); span != string(want.Options) || (got.Options == model.Span{}) != (want.Options == nil) {
			t.Errorf("%s: the options are %q, want %q", body, span, want.Options)
		}
		changed := want
		other := string(body[:got.Model.From]) + `"other"` + string(body[got.Model.To:])
		changed.Rest = nil
		if err := json.Unmarshal([]byte(other), &changed); err != nil || changed.Model != "other" {
			t.Fatalf("%s became %s: %v", body, other, err)
		}
		changed.Model = want.Model
		if diff := cmp.Diff(want, changed); diff != "" {
			t.Errorf("%s: more than the model changed (-want +got):\n%s", body, diff)
		}
	})
}

const proxyKey = "svc_proxy"

// endpoint plays a model's endpoint behind the gateway, and the plans before it.
type endpoint struct {
	pieces []string
	err    error
	whole  *model.Response
	asked  []string
	used   []quota.Use
}

// Resolve implements gateway.Models.
func (e *endpoint) Resolve(_ context.Context, _ string, spec model.Spec) (model.Target, error) {
	provider, name, found := strings.Cut(spec.ModelRef, "/")
	if !found {
		return model.Target{}, &model.Error{Code: "provider_not_configured", Detail: "There is no default provider."}
	}
	return model.Target{Provider: provider, Model: name}, nil
}

// AllowProxyCall implements quota.Proxy.
func (e *endpoint) AllowProxyCall(_ context.Context, _ string, t *model.Target) error {
	if t.Model == "too-good" {
		return fault.New(fault.Forbidden, "", "Your plan does not have this model.")
	}
	return nil
}

// CountProxyCall implements quota.Proxy.
func (e *endpoint) CountProxyCall(_ string, use quota.Use) { e.used = append(e.used, use) }

// Forward implements model.Forwarder.
func (e *endpoint) Forward(_ context.Context, f model.Forward, sink func([]byte) error) (model.Forwarded, error) {
	e.asked = append(e.asked, string(f.Body))
	for _, piece := range e.pieces {
		if err := sink([]byte(piece)); err != nil {
			return model.Forwarded{}, err
		}
	}
	if e.err != nil && len(e.pieces) == 0 {
		return model.Forwarded{}, e.err
	}
	return model.Forwarded{Usage: model.Usage{InputTokens: 1, OutputTokens: 1}, Response: e.whole}, e.err
}

// serve runs the route and gives its address.
func (e *endpoint) serve(t *testing.T) string {
	t.Helper()
	p := &ChatProxy{
		Proxy: &modelproxy.Proxy{
			Models: e, Client: model.Router{Forwards: e}, Plans: e,
			CheckAgent: func(_ context.Context, of, id string) error {
				if of != tenant || id != agentID {
					return fault.NewNotFound("agent")
				}
				return nil
			},
		},
	}
	url, _ := httpapitest.Serve(t, keys, p.Routes())
	return url + "/api/v1/llm/chat/completions"
}

var ours = []*regexp.Regexp{ // what differs from answer to answer
	regexp.MustCompile(`"created":(\d+)`), regexp.MustCompile(`"chatcmpl-([0-9a-f-]+)"`),
	regexp.MustCompile(`"correlation_?[iI]d":"([^"]+)"`),
}

// Every exchange is kept as a transcript in testdata/proxy.
func TestProxyExchanges(t *testing.T) {
	t.Parallel()
	const (
		hi      = `,"messages":[{"role":"user","content":"Hello?"}]`
		plain   = `{"model":"default/m"` + hi + `}`
		stream  = `{"model":"default/m"` + hi + `,"stream":true}`
		usage   = `{"model":"default/m"` + hi + `,"stream":true,"stream_options":{"include_usage":true}}`
		first   = `data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi "}}]}` + "\n\n"
		second  = `data: {"id":"1","choices":[{"index":0,"delta":{"content":"you."},"finish_reason":"stop"}]}` + "\n\n"
		counted = `data: {"id":"1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}` + "\n\n"
		done    = "data: [DONE]\n\n"
	)
	calls := []model.ToolCall{{ID: "call_1", Name: "weather", Arguments: `{"city":"Bern"}`}}
	whole := &model.Response{Text: "Hi.", Thinking: "Hm.", ToolCalls: calls, FinishReason: model.FinishToolCalls, Usage: model.Usage{InputTokens: 3, OutputTokens: 4, ThinkingTokens: 1}}
	busy := &model.Error{Code: "model_rate_limited", Detail: "The model endpoint has enough to do.", Status: 429, Retryable: true, RetryAfter: 3 * time.Second}
	broken := &model.Error{Code: "model_error", Detail: "The model endpoint broke off its answer.", Retryable: true}
	for _, tt := range []struct {
		name   string
		body   string
		at     endpoint
		header []string
		uses   int
	}{
		{name: "plain", body: plain, at: endpoint{pieces: []string{`{"id":"1","choices":[{"message":{"content":"Hi you."}}],"vendor":[1]}`}}, uses: 1},
		{name: "plain-of-an-agent", body: plain, at: endpoint{pieces: []string{`{"choices":[]}`}}, header: []string{"X-Agent-Id", agentID}, uses: 1},
		{name: "plain-in-another-form", body: plain, at: endpoint{whole: whole}, uses: 1},
		{name: "stream", body: stream, at: endpoint{pieces: []string{first, second + done}}, uses: 1},
		{name: "stream-usage", body: usage, at: endpoint{pieces: []string{first + second, counted, done}}, uses: 1},
		{name: "stream-in-another-form", body: stream, at: endpoint{whole: whole}, uses: 1},
		{name: "stream-usage-in-another-form", body: usage, at: endpoint{whole: whole}, uses: 1},
		{name: "stream-broken-off", body: stream, at: endpoint{pieces: []string{first}, err: broken}, uses: 1},
		{name: "stream-failed-inside", body: stream, at: endpoint{pieces: []string{first}, err: errors.New("pq: secret")}, uses: 1},
		{name: "echo", body: `{"model":"builtin/echo"` + hi + `}`, uses: 1},
		{name: "echo-stream", body: `{"stream":true,"model":"builtin/echo"` + hi + `}`, uses: 1},
		{name: "echo-stream-usage", body: `{"stream":true,"stream_options":{"include_usage":true},"model":"builtin/echo"` + hi + `}`, uses: 1},
		{name: "refused-echo", body: `{"model":"builtin/echo","messages":["hello"]}`},
		{name: "refused-busy", body: stream, at: endpoint{err: busy}},
		{name: "refused-upstream", body: plain, at: endpoint{err: &model.Error{Code: "provider_auth_failed", Detail: "The key is not taken.", Status: 401}}},
		{name: "refused-no-key", body: plain, at: endpoint{err: &model.Error{Code: "provider_not_configured", Detail: "There is no key."}}},
		{name: "refused-internal", body: plain, at: endpoint{err: errors.New("pq: secret")}},
		{name: "refused-model", body: `{"model":"m"` + hi + `}`},
		{name: "refused-plan", body: `{"model":"default/too-good"` + hi + `}`},
		{name: "refused-fields", body: `{"model":7,"messages":[],"stream":"yes"}`},
		{name: "refused-json", body: `{"model":`},
		{name: "refused-agent", body: plain, header: []string{"X-Agent-Id", "01990000-0000-7000-8000-00000000000c"}},
		{name: "refused-agent-id", body: plain, header: []string{"X-Agent-Id", "me"}},
		{name: "refused-key", body: plain, header: []string{"Authorization", "Bearer svc_bad"}},
		{name: "refused-scope", body: plain, header: []string{"Authorization", "Bearer " + goodKey}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resp, raw := embed(t, tt.at.serve(t), tt.body, append([]string{"Authorization", "Bearer " + proxyKey}, tt.header...)...)
			var out bytes.Buffer
			fmt.Fprintln(&out, resp.Status)
			for _, name := range append([]string{"X-Model"}, shown...) {
				if v := resp.Header.Get(name); v != "" {
					fmt.Fprintf(&out, "%s: %s\n", name, v)
				}
			}
			fmt.Fprintf(&out, "\n%s", raw)
			text := out.Bytes()
			for _, differs := range ours {
				text = differs.ReplaceAllFunc(text, func(m []byte) []byte { return bytes.Replace(m, differs.FindSubmatch(m)[1], []byte("0"), 1) })
			}
			if bytes.Contains(text, []byte("secret")) {
				t.Errorf("what is wrong inside is told: %s", text)
			}
			goldentest.Check(t, "testdata/proxy/"+tt.name+".txt", append(bytes.TrimRight(text, "\n"), '\n'))
			if len(tt.at.asked) > 0 && tt.at.asked[0] != tt.body {
				t.Errorf("passed on was %s", tt.at.asked[0])
			}
			if len(tt.at.used) != tt.uses {
				t.Errorf("counted was %+v", tt.at.used)
			}
			for _, use := range tt.at.used {
				if want := resp.Request.Header.Get("X-Agent-Id"); use.AgentID != want || use.Source != quota.SourceLLM {
					t.Errorf("counted was %+v", use)
				}
			}
		})
	}
}
