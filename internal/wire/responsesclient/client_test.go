package responsesclient

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
	"agentd/internal/wire/wiretest"
	"agentd/internal/wire/wiretest/responsestest"
)

// The wire behaves as all wires do (rule D23-wires).
func TestWire(t *testing.T) {
	wiretest.Run(t, func(c modelcall.Config) model.Client { return New(c) }, responsestest.Responses{}, wiretest.Features{NoWritten: true, NoStop: true})
}

// without is an endpoint that takes requests without include too.
type without struct{ responsestest.Responses }

// Check implements wiretest.Protocol.
func (w without) Check(r *http.Request, body []byte) string {
	if wrong := w.Responses.Check(r, body); wrong != responsestest.NothingBack {
		return wrong
	}
	return ""
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

// What a model does not take is learnt, and the settings are sent in the API's own form
// (rule D23-wire-responses).
func TestDialects(t *testing.T) {
	t.Parallel()
	extra := func(name, value string) map[string]jsontext.Value {
		return map[string]jsontext.Value{name: jsontext.Value(value)}
	}
	for name, tt := range map[string]struct {
		req     model.Request
		reply   wiretest.Reply
		has     string
		hasNot  string
		dropped []string
	}{
		"an effort":       {model.Request{Extra: extra("reasoning_effort", `"max"`)}, refusing("", ""), `"reasoning":{"effort":"xhigh","summary":"auto"}`, "", nil},
		"no effort":       {model.Request{Extra: extra("reasoning_effort", `"none"`)}, refusing("", ""), `"reasoning":{"effort":"none"}`, "summary", nil},
		"no summary":      {model.Request{Extra: extra("reasoning_effort", `"low"`)}, refusing(`"summary"`, "Your organization must be verified to generate reasoning summaries."), `"reasoning":{"effort":"low"}`, "summary", nil},
		"no reasoning":    {model.Request{Extra: extra("reasoning_effort", `"low"`)}, refusing(`"reasoning":`, "Unsupported parameter: 'reasoning.effort' is not supported with this model."), "", `"reasoning":`, []string{"reasoning_effort"}},
		"no cache key":    {model.Request{CacheKey: "k"}, refusing("prompt_cache_key", "Unknown parameter: 'prompt_cache_key'."), "", "prompt_cache_key", nil},
		"a cache key":     {model.Request{CacheKey: "k"}, refusing("", ""), `"prompt_cache_key":"k"`, "", nil},
		"no schema":       {model.Request{Extra: extra("response_format", `{"type":"json_schema","json_schema":{"schema":{"type":"object"}}}`)}, refusing("json_schema", "Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model."), "JSON Schema", "json_schema", nil},
		"an object":       {model.Request{Extra: extra("response_format", `{"type":"json_object"}`)}, refusing("", ""), `"text":{"format":{"type":"json_object"}}`, "", nil},
		"lacking":         {model.Request{Stop: []string{"x"}, Extra: extra("seed", "5")}, refusing("", ""), "", "seed", []string{"stop", "seed"}},
		"a small cap":     {model.Request{MaxTokens: 3}, refusing("", ""), `"max_output_tokens":16`, "", nil},
		"one call":        {model.Request{Extra: extra("parallel_tool_calls", "false"), Tools: []model.ToolSpec{{Name: "t"}}}, refusing("", ""), `"parallel_tool_calls":false`, "", nil},
		"verbosity":       {model.Request{Extra: extra("verbosity", `"low"`)}, refusing("", ""), `"text":{"verbosity":"low"}`, "", nil},
		"wrong effort":    {model.Request{Extra: extra("reasoning_effort", `"low"`)}, wiretest.Reply{Status: 400, Message: "Unsupported value: 'low' is not supported with the 'gpt-5' model. Supported values are: 'high'."}, "", "", []string{"an error"}},
		"no encrypted":    {model.Request{}, refusing("include", "Encrypted content is not supported with this model."), "", "include", nil},
		"not its own 403": {model.Request{Extra: extra("reasoning_effort", `"low"`)}, wiretest.Reply{Status: 403, Message: "reasoning.summary"}, "", "", []string{"an error"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := wiretest.NewEndpoint(t, without{}, wiretest.Features{}, tt.reply)
			tt.req.Target, tt.req.Messages = responsestest.Responses{}.Target(e.URL), hi
			resp, err := New(wiretest.Config()).Generate(t.Context(), tt.req, nil)
			if cmp.Equal(tt.dropped, []string{"an error"}) {
				if err == nil || len(e.Asked()) != 1 {
					t.Errorf("%v after %d calls", err, len(e.Asked()))
				}
				return
			}
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

// Reasoning, texts with their phase and calls go back in their order; reasoning that
// nothing follows, or that the endpoint cannot read, does not (rule D23-wire-responses).
func TestOrderOfItems(t *testing.T) {
	t.Parallel()
	raw := `{"object":"response","status":"completed","model":"m","output":[
		{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAA"},
		{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"Let me see."}]},
		{"type":"reasoning","id":"rs_2","summary":[{"type":"summary_text","text":"Hm."},{"type":"summary_text","text":"So."}],"encrypted_content":"BBB"},
		{"type":"function_call","id":"fc_1","call_id":"c1","name":"t","arguments":"{}"},
		{"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":"CCC"}]}`
	e := wiretest.NewEndpoint(t, responsestest.Responses{}, wiretest.Features{}, wiretest.Reply{Raw: raw}, refusing("", ""), refusing("", ""),
		refusing("BBB", "The encrypted content for item rs_2 could not be verified."))
	client := New(wiretest.Config())
	resp, _, err := e.Call(t, client, model.Request{Messages: hi}, false)
	if err != nil || resp.Thinking != "Hm.\n\nSo." || resp.Text != "Let me see." || len(resp.ToolCalls) != 1 {
		t.Fatalf("%+v, %v", resp, err)
	}
	target := responsestest.Responses{}.Target(e.URL)
	said := model.Message{Role: model.Assistant, Text: resp.Text, ToolCalls: resp.ToolCalls, Opaque: model.Opaque{Source: target.Source(), Data: resp.Opaque}}
	req := model.Request{Messages: append(hi[:1:1], said, model.Message{Role: model.Tool, ToolCallID: "c1", Text: "fine"})}
	ask := func(want ...string) {
		t.Helper()
		if _, _, err := e.Call(t, client, req, false); err != nil {
			t.Fatal(err)
		}
		all := e.Asked()
		if diff := cmp.Diff(want, all[len(all)-1].Lines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	ask("user: Hi", "thinking: AAA", "model: Let me see.", "thinking: BBB", "call: t {}", "result: fine")
	if body := e.Asked()[1].Body; !strings.Contains(body, `"phase":"commentary"`) {
		t.Errorf("sent %s", body)
	}
	req.Messages[1].Text = "Redacted."
	ask("user: Hi", "thinking: AAA", "thinking: BBB", "thinking: CCC", "model: Redacted.", "call: t {}", "result: fine")
	ask("user: Hi", "model: Redacted.", "call: t {}", "result: fine")
}

// Endpoints that are compatible send less: no pieces, no indexes, no whole answer.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	ask := func(raw string) (model.Response, error) {
		e := wiretest.NewEndpoint(t, responsestest.Responses{}, wiretest.Features{}, wiretest.Reply{Raw: raw})
		return New(wiretest.Config()).Generate(t.Context(), model.Request{Target: responsestest.Responses{}.Target(e.URL), Messages: hi}, func(model.Delta) {})
	}
	const item = `{"type":"message","content":[{"type":"output_text","text":"So."}]}`
	for name, raw := range map[string]string{
		"only the end":   `data: {"type":"response.completed","response":{"status":"completed","output":[` + item + `]}}` + "\n\n",
		"only items":     `data: {"type":"response.output_item.done","output_index":0,"item":` + item + "}\n\ndata: " + `{"type":"response.completed","response":{"status":"completed","output":[]}}` + "\n\ndata: [DONE]\n\n",
		"whole":          `{"status":"completed","output":[` + item + `]}`,
		"all of it":      `data: {"type":"response.output_text.delta","delta":"So."}` + "\n\ndata: " + `{"type":"response.output_item.done","item":` + item + "}\n\ndata: " + `{"type":"response.completed","response":{"status":"completed","output":[` + item + `]}}`,
		"a piece of one": `data: {"type":"response.output_text.delta","delta":"So."}` + "\n\ndata: " + `{"type":"response.completed","response":{"output":[` + item + `]}}`,
	} {
		if resp, err := ask(raw); err != nil || resp.Text != "So." || resp.FinishReason != model.FinishStop {
			t.Errorf("%s: %+v, %v", name, resp, err)
		}
	}
	for name, tt := range map[string]struct {
		raw, code string
		passing   bool
	}{
		"nothing":   {`{"object":"response","status":"completed","output":[]}`, "model_error", true},
		"failed":    {`{"object":"response","status":"failed","error":{"code":"server_error","message":"oops"},"output":[]}`, "model_error", true},
		"limited":   {`data: {"type":"error","code":"rate_limit_exceeded","message":"Slow down"}` + "\n\n", "model_rate_limited", true},
		"too long":  {`data: {"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"Too long"}}}` + "\n\n", model.CodeContextLength, false},
		"a gateway": {`data: {"error":{"message":"No"}}` + "\n\n", "model_error", false},
		"an index":  {`data: {"type":"response.output_text.delta","output_index":-1,"delta":"So."}` + "\n\n", "model_error", false},
	} {
		_, err := ask(tt.raw)
		if e, ok := errors.AsType[*model.Error](err); !ok || e.Code != tt.code || e.Passing != tt.passing {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Media are sent in the API's form; audio, which it does not take, is refused.
func TestMedia(t *testing.T) {
	t.Parallel()
	e := wiretest.NewEndpoint(t, responsestest.Responses{}, wiretest.Features{}, refusing("", ""))
	ask := func(parts ...string) error {
		m := model.Message{Role: model.User}
		for _, p := range parts {
			m.Parts = append(m.Parts, jsontext.Value(p))
		}
		_, _, err := e.Call(t, New(wiretest.Config()), model.Request{Messages: []model.Message{m}}, false)
		return err
	}
	err := ask(`{"type":"image_url","image_url":{"url":"https://a.example/b.png"}}`, `{"type":"file","file":{"file_url":"https://a.example/b.pdf"}}`,
		`{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,SGk="}}`, `{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0="}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"image: https://a.example/b.png ", "document: https://a.example/b.pdf", "user: a.txt\n\nHi", "document: application/pdf JVBERi0="}
	if diff := cmp.Diff(want, e.Asked()[0].Lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	err = ask(`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`)
	if failed, ok := errors.AsType[*model.Error](err); !ok || !strings.Contains(failed.Detail, "takes no audio/wav") {
		t.Errorf("audio: %v", err)
	}
}

// An address without a path has the API below /v1.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/v1"} {
		e := wiretest.NewEndpoint(t, responsestest.Responses{}, wiretest.Features{}, refusing("", ""))
		if _, err := New(wiretest.Config()).Generate(t.Context(), model.Request{Target: responsestest.Responses{}.Target(e.URL + path), Messages: hi}, nil); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range (responsestest.Responses{}).Stream(wiretest.Answer{Blocks: []wiretest.Block{{Thinking: "a b", Signature: "c"}, {Text: "d"}, {Call: &model.ToolCall{ID: "i", Name: "n", Arguments: `{"a":1}`}}}}) {
		_, data, _ := strings.Cut(string(seed), "data: ")
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &model.Request{}
		d := decoder{Answer: modelcall.NewAnswer(req, func(model.Delta) {}, time.Now(), 1<<20)}
		for range 2 {
			if _, err := d.Event(data); err != nil {
				return
			}
		}
		r := d.Result(req)
		if r.Usage.InputTokens < 0 || r.Usage.OutputTokens < 0 || !utf8.ValidString(r.Opaque) {
			t.Errorf("%+v", r)
		}
		said := model.Message{Role: model.Assistant, Text: r.Text, ToolCalls: r.ToolCalls, Opaque: model.Opaque{Source: req.Target.Source(), Data: r.Opaque}}
		e := encoder{req: req}
		e.ids.Max = 64
		e.said(&said)
	})
}
