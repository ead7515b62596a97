package bedrockclient

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
	"agentd/internal/wire/wiretest"
	"agentd/internal/wire/wiretest/bedrocktest"
)

// The wire behaves as all wires do (rule D23-wires), with calls that are signed.
func TestWire(t *testing.T) {
	wiretest.Run(t, func(c modelcall.Config) model.Client { return New(c) }, bedrocktest.Converse{}, wiretest.Features{
		NoRefusal: true, NoThinking: true, Binary: true, StreamType: "application/vnd.amazon.eventstream",
	})
}

func refusing(word, why string) wiretest.Reply {
	return wiretest.Reply{
		Answer: wiretest.Answer{Blocks: []wiretest.Block{{Text: "So."}}, Usage: wiretest.Usage{Input: 1, Output: 1}},
		Refuses: func(a wiretest.Asked) string {
			if word != "" && strings.Contains(a.Body, word) {
				return why
			}
			return ""
		},
	}
}

var hi = []model.Message{{Role: model.User, Text: "Hi"}}

// Thinking is requested as each maker's models take it, and what a model does not take is
// learnt (rule D23-wire-bedrock).
func TestDialects(t *testing.T) {
	t.Parallel()
	effort := func(level string) map[string]jsontext.Value {
		return map[string]jsontext.Value{"reasoning_effort": jsontext.Value(`"` + level + `"`)}
	}
	history := []model.Message{hi[0], {Role: model.Assistant, ToolCalls: []model.ToolCall{{ID: "a", Name: "old", Arguments: "{}"}}}, {Role: model.Tool, ToolCallID: "a", Text: "1"}}
	form := map[string]jsontext.Value{"response_format": jsontext.Value(`{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}`)}
	for name, tt := range map[string]struct {
		req     model.Request
		id      string
		reply   wiretest.Reply
		has     string
		hasNot  string
		dropped []string
	}{
		"an effort":       {model.Request{Extra: effort("low")}, bedrocktest.Claude, refusing("", ""), `"thinking":{"budget_tokens":2048,"type":"enabled"}`, "", nil},
		"a budget":        {model.Request{MaxTokens: 9000, Extra: map[string]jsontext.Value{"thinking": jsontext.Value(`{"type":"enabled","budget_tokens":5000}`)}}, bedrocktest.Claude, refusing("", ""), `"budget_tokens":5000`, "", nil},
		"adaptive":        {model.Request{Temperature: new(.5), Extra: effort("high")}, bedrocktest.Claude, refusing("budget_tokens", "thinking.type: enabled is not supported, use adaptive"), `"output_config":{"effort":"high"}`, "temperature", []string{"temperature"}},
		"it does not":     {model.Request{Extra: effort("high")}, bedrocktest.Claude, refusing("thinking", "thinking is not supported by this model"), "", "thinking", []string{"reasoning_effort"}},
		"a forced call":   {model.Request{Extra: effort("low"), Tools: []model.ToolSpec{{Name: "t"}}, ToolChoice: jsontext.Value(`"required"`)}, bedrocktest.Claude, refusing("", ""), `"toolChoice":{"any":{}}`, "thinking", nil},
		"a foreign loop":  {model.Request{Messages: history, Extra: effort("low")}, bedrocktest.Claude, refusing("", ""), "", "thinking", nil},
		"nova":            {model.Request{Extra: effort("max")}, "amazon.nova-2-lite-v1:0", refusing("", ""), `"reasoningConfig":{"maxReasoningEffort":"high","type":"enabled"}`, "", nil},
		"gpt-oss":         {model.Request{Extra: effort("low")}, "openai.gpt-oss-120b-1:0", refusing("", ""), `"reasoning_effort":"low"`, "", nil},
		"another":         {model.Request{Extra: effort("low")}, "meta.llama4-v1:0", refusing("", ""), "", "additional", []string{"reasoning_effort"}},
		"a profile":       {model.Request{}, "arn:aws:bedrock:eu-central-1:1:inference-profile/eu.x:0", refusing("", ""), "", "", nil},
		"caches":          {model.Request{CacheKey: "k"}, bedrocktest.Claude, refusing("", ""), `"cachePoint":{"type":"default"}`, "", nil},
		"no caches":       {model.Request{CacheKey: "k"}, bedrocktest.Claude, refusing("cachePoint", "Your request did not allow prompt caching."), "", "cachePoint", nil},
		"a schema":        {model.Request{Extra: form}, bedrocktest.Claude, refusing("", ""), `"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"schema":"{\"type\":\"object\"}","name":"n"}}}`, "", nil},
		"no schema":       {model.Request{Extra: form}, bedrocktest.Claude, refusing("outputConfig", "extraneous key [outputConfig] is not permitted"), "JSON Schema", "outputConfig", nil},
		"no system":       {model.Request{Messages: append([]model.Message{{Role: model.System, Text: "Be brief."}}, hi...)}, "amazon.titan", refusing(`"system"`, "This model doesn't support system messages."), "Be brief.", `"system"`, nil},
		"no choice":       {model.Request{Tools: []model.ToolSpec{{Name: "t"}}, ToolChoice: jsontext.Value(`"auto"`)}, "x", refusing("toolChoice", "This model doesn't support the toolConfig.toolChoice field."), `"toolSpec"`, "toolChoice", nil},
		"no strict":       {model.Request{Tools: []model.ToolSpec{{Name: "t", Strict: true}}}, "x", refusing(`"strict"`, "strict is not supported"), `"toolSpec"`, "strict", nil},
		"calls, no tools": {model.Request{Messages: history}, bedrocktest.Claude, refusing("", ""), `"toolSpec":{"name":"old"`, "", nil},
		"lacking":         {model.Request{Extra: map[string]jsontext.Value{"seed": jsontext.Value("5")}}, bedrocktest.Claude, refusing("", ""), "", "seed", []string{"seed"}},
		"no top_p":        {model.Request{TopP: new(.5)}, bedrocktest.Claude, refusing("topP", "topP is not supported"), "", "topP", []string{"top_p"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := wiretest.NewEndpoint(t, bedrocktest.Converse{}, wiretest.Features{}, tt.reply)
			tt.req.Target = bedrocktest.Converse{}.Target(e.URL)
			tt.req.Target.Model = tt.id
			if tt.req.Messages == nil {
				tt.req.Messages = hi
			}
			resp, err := New(wiretest.Config()).Generate(t.Context(), tt.req, nil)
			if err != nil {
				t.Fatal(err)
			}
			body := e.Asked()[0].Body
			if !strings.Contains(body, tt.has) || tt.hasNot != "" && strings.Contains(body, tt.hasNot) {
				t.Errorf("sent %s", body)
			}
			if diff := cmp.Diff(tt.dropped, resp.Dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
		})
	}
}

// A key of Bedrock's own is a bearer token; without a region nothing is signed; Amazon's
// list of models is elsewhere (rule D23-wire-bedrock).
func TestAccess(t *testing.T) {
	t.Parallel()
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Authorization"))
		if r.URL.Path == "/foundation-models" {
			_, _ = io.WriteString(w, `{"modelSummaries":[{"modelId":"a.b-v1:0","modelName":"B"},{"modelName":"no id"}]}`)
			return
		}
		_, _ = w.Write(bedrocktest.Converse{}.Whole(wiretest.Answer{Blocks: []wiretest.Block{{Text: "So."}}}))
	}))
	defer s.Close()
	client := New(wiretest.Config())
	to := model.Target{Model: "m", BaseURL: s.URL, APIKey: secret.New("bedrock-api-key"), Wire: model.WireBedrock}
	if _, err := client.Generate(t.Context(), model.Request{Target: to, Messages: hi}, nil); err != nil {
		t.Fatal(err)
	}
	listed, err := client.ListModels(t.Context(), to)
	if err != nil || len(listed) != 1 || listed[0].ID != "a.b-v1:0" || listed[0].Name != "B" {
		t.Errorf("listed %+v, %v", listed, err)
	}
	if want := []string{"/model/m/converse Bearer bedrock-api-key", "/foundation-models Bearer bedrock-api-key"}; !cmp.Equal(want, asked) {
		t.Errorf("asked %q", asked)
	}
	to = bedrocktest.Converse{}.Target(s.URL)
	to.Access.Region = ""
	_, err = client.Generate(t.Context(), model.Request{Target: to, Messages: hi}, nil)
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Code != "provider_not_configured" || !strings.Contains(e.Detail, "region") || len(asked) != 2 {
		t.Errorf("without a region: %v", err)
	}
	for from, want := range map[string]string{
		"https://bedrock-runtime.us-east-1.amazonaws.com":         "https://bedrock.us-east-1.amazonaws.com",
		"https://bedrock-runtime-fips.us-gov-1.amazonaws.com":     "https://bedrock-fips.us-gov-1.amazonaws.com",
		"https://bedrock-runtime.us-east-1.amazonaws.com.example": "https://bedrock-runtime.us-east-1.amazonaws.com.example",
		"https://gateway.example/bedrock":                         "https://gateway.example/bedrock",
	} {
		if got := lists(from); got != want {
			t.Errorf("the models of %s are listed at %s", from, got)
		}
	}
}

// What breaks inside a stream has the meaning that its exception has outside of one.
func TestStreamsThatBreak(t *testing.T) {
	t.Parallel()
	text := bedrocktest.Frame("event", "contentBlockDelta", map[string]any{"contentBlockIndex": 0, "delta": map[string]any{"text": "So."}})
	stop := bedrocktest.Frame("event", "messageStop", map[string]any{"stopReason": "end_turn"})
	broken := bytes.Clone(text)
	broken[len(broken)-6] ^= 1
	for name, tt := range map[string]struct {
		body    []byte
		code    string
		passing bool
	}{
		"no metadata": {append(bytes.Clone(text), stop...), "", false},
		"throttled":   {bedrocktest.Frame("exception", "throttlingException", map[string]any{"message": "Too many tokens"}), "model_rate_limited", true},
		"refused":     {bedrocktest.Frame("exception", "validationException", map[string]any{"message": "Input is too long for requested model."}), model.CodeContextLength, false},
		"unavailable": {bedrocktest.Frame("exception", "serviceUnavailableException", map[string]any{"message": "later"}), "model_error", true},
		"denied":      {bedrocktest.Frame("exception", "accessDeniedException", map[string]any{"message": "no"}), "provider_auth_failed", false},
		"a sum":       {broken, "model_error", false},
		"cut":         {text[:len(text)-3], "model_error", true},
		"no end":      {text, "model_error", true},
		"a kind":      {bedrocktest.Frame("shout", "x", map[string]any{}), "model_error", false},
		"an index":    {bedrocktest.Frame("event", "contentBlockDelta", map[string]any{"contentBlockIndex": -1, "delta": map[string]any{"text": "So."}}), "model_error", false},
		"malformed":   {bedrocktest.Frame("event", "messageStop", map[string]any{"stopReason": "malformed_tool_use"}), "model_error", true},
		"a length":    {[]byte{0, 255, 255, 255, 0, 0, 0, 0, 1, 2, 3, 4}, "model_error", false},
	} {
		e := wiretest.NewEndpoint(t, bedrocktest.Converse{}, wiretest.Features{}, wiretest.Reply{Raw: string(tt.body)})
		resp, err := New(wiretest.Config()).Generate(t.Context(), model.Request{Target: bedrocktest.Converse{}.Target(e.URL), Messages: hi}, func(model.Delta) {})
		if tt.code == "" {
			if err != nil || resp.Text != "So." {
				t.Errorf("%s: %+v, %v", name, resp, err)
			}
			continue
		}
		if failed, ok := errors.AsType[*model.Error](err); !ok || failed.Code != tt.code || failed.Passing != tt.passing {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Documents have names that the API takes, and other media than it takes are refused.
func TestMedia(t *testing.T) {
	t.Parallel()
	e := wiretest.NewEndpoint(t, bedrocktest.Converse{}, wiretest.Features{}, refusing("", ""))
	ask := func(parts ...string) error {
		m := model.Message{Role: model.User}
		for _, p := range parts {
			m.Parts = append(m.Parts, jsontext.Value(p))
		}
		_, _, err := e.Call(t, New(wiretest.Config()), model.Request{Messages: []model.Message{m}}, false)
		return err
	}
	file := func(name, kind string) string {
		return `{"type":"file","file":{"filename":"` + name + `","file_data":"data:` + kind + `;base64,JVBERi0="}}`
	}
	if err := ask(file("Quarter  1_(a).pdf", "application/pdf"), file("Quarter 1 (a).pdf", "application/pdf"), file("ü.csv", "text/csv"), file("x.py", "text/x-python")); err != nil {
		t.Fatal(err)
	}
	if body := e.Asked()[0].Body; !strings.Contains(body, `"Quarter 1 (a) 2"`) || !strings.Contains(body, `"document 3"`) || !strings.Contains(body, `"format":"csv"`) {
		t.Errorf("sent %s", body)
	}
	for _, part := range []string{`{"type":"image_url","image_url":{"url":"https://a.example/b.png"}}`, `{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`} {
		if failed, ok := errors.AsType[*model.Error](ask(part)); !ok || !strings.Contains(failed.Detail, "it takes images") {
			t.Errorf("%s: %v", part, failed)
		}
	}
}

func FuzzFrames(f *testing.F) {
	stream := bedrocktest.Converse{}.Stream(wiretest.Answer{Blocks: []wiretest.Block{{Thinking: "a b", Signature: "c"}, {Text: "d"}, {Call: &model.ToolCall{ID: "i", Name: "n", Arguments: `{"a":1}`}}}})
	f.Add(bytes.Join(stream, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &model.Request{}
		d := &decoder{Answer: modelcall.NewAnswer(req, func(model.Delta) {}, time.Now(), 1<<20)}
		in := modelcall.NewReader(bytes.NewReader(data), modelcall.NewWatchdog(func(error) {}, 0), time.Hour)
		known, wrong := eventstream.NewDecoder().Decode(bytes.NewReader(data), nil)
		own := frames{src: bufio.NewReader(bytes.NewReader(data)), left: 1 << 20}
		if m, err := own.next(); wrong == nil && (err != nil || !bytes.Equal(m.payload, known.Payload)) {
			t.Errorf("%v: %q, want the frame %q", err, m.payload, known.Payload)
		} else if kind, ok := known.Headers.Get(":event-type").(eventstream.StringValue); wrong == nil && ok && string(kind) != string(m.event) {
			t.Errorf("an event %q, want %q", m.event, kind)
		}
		if err := read(in, 1<<20, d); err != nil {
			return
		}
		r := d.Result(req)
		if r.Usage.InputTokens < 0 || r.Usage.OutputTokens < 0 || !utf8.ValidString(r.Opaque) {
			t.Errorf("%+v", r)
		}
	})
}
