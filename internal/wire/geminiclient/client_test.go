package geminiclient

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
	"agentd/internal/wire/wiretest"
	"agentd/internal/wire/wiretest/geminitest"
)

// The wire behaves as all wires do (rule D23-wires).
func TestWire(t *testing.T) {
	wiretest.Run(t, func(c modelcall.Config) model.Client { return New(c) }, geminitest.Generate{}, wiretest.Features{NoRefusal: true, NoWritten: true, NoBroken: true, Audio: true})
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

// Thinking is requested as the model takes it, and what it does not take is learnt (rule
// D23-wire-gemini).
func TestDialects(t *testing.T) {
	t.Parallel()
	effort := func(level string) map[string]jsontext.Value {
		return map[string]jsontext.Value{"reasoning_effort": jsontext.Value(`"` + level + `"`)}
	}
	for name, tt := range map[string]struct {
		model   string
		extra   map[string]jsontext.Value
		reply   wiretest.Reply
		has     string
		hasNot  string
		dropped []string
	}{
		"a level":          {"gemini-3-pro", effort("max"), refusing("", ""), `"thinkingConfig":{"thinkingLevel":"high","includeThoughts":true}`, "thinkingBudget", nil},
		"an earlier model": {"gemini-2.5-pro", effort("low"), refusing("", ""), `"thinkingConfig":{"thinkingBudget":2048,"includeThoughts":true}`, "thinkingLevel", nil},
		"no effort":        {"gemini-2.5-flash", effort("none"), refusing("", ""), `"thinkingConfig":{"thinkingBudget":0}`, "", nil},
		"a budget":         {"gemini-3-pro", map[string]jsontext.Value{"thinking_budget": jsontext.Value("512")}, refusing("", ""), `"thinkingBudget":512`, "", nil},
		"no level":         {"gemini-4", effort("low"), refusing("thinkingLevel", "Thinking level is not supported for this model."), `"thinkingBudget":2048`, "thinkingLevel", nil},
		"no thinking":      {"gemini-1", effort("low"), refusing("thinkingConfig", "Thinking is not enabled for this model."), "", "thinkingConfig", []string{"reasoning_effort"}},
		"no schema":        {"gemini-1", map[string]jsontext.Value{"response_format": jsontext.Value(`{"type":"json_schema","json_schema":{"schema":{"type":"object"}}}`)}, refusing("responseJsonSchema", `Unknown name "responseJsonSchema"`), "JSON Schema", "responseJsonSchema", nil},
		"an object":        {"gemini-3-pro", map[string]jsontext.Value{"response_format": jsontext.Value(`{"type":"json_object"}`)}, refusing("", ""), `"responseMimeType":"application/json"`, "Schema", nil},
		"no penalty":       {"gemini-3-pro", map[string]jsontext.Value{"presence_penalty": jsontext.Value("1"), "parallel_tool_calls": jsontext.Value("false")}, refusing("presencePenalty", "presencePenalty is not supported"), "", "presence", []string{"presence_penalty", "parallel_tool_calls"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := wiretest.NewEndpoint(t, geminitest.Generate{}, wiretest.Features{}, tt.reply)
			to := geminitest.Generate{}.Target(e.URL)
			to.Model = tt.model
			resp, err := New(wiretest.Config()).Generate(t.Context(), model.Request{Target: to, Messages: hi, Extra: tt.extra}, nil)
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

// Signatures of calls go back with them; calls of another model get the marker once the
// endpoint misses signatures (rule D23-wire-gemini).
func TestSignaturesOfCalls(t *testing.T) {
	t.Parallel()
	call := func(place string) *model.ToolCall {
		return &model.ToolCall{Name: "weather", Arguments: `{"place":"` + place + `"}`}
	}
	for _, stream := range []bool{false, true} {
		e := wiretest.NewEndpoint(t, geminitest.Generate{}, wiretest.Features{}, wiretest.Reply{Answer: wiretest.Answer{Blocks: []wiretest.Block{
			{Thinking: "Hm.", Signature: "c2ln"}, {Call: call("Oslo")}, {Call: call("Rome")},
		}}}, refusing("", ""), wiretest.Reply{Answer: wiretest.Answer{Blocks: []wiretest.Block{{Text: "So."}}}, Refuses: func(a wiretest.Asked) string {
			if !strings.Contains(a.Body, "thoughtSignature") {
				return "Function call is missing a thought_signature in functionCall parts."
			}
			return ""
		}})
		client := New(wiretest.Config())
		resp, _, err := e.Call(t, client, model.Request{Messages: hi}, stream)
		if err != nil || len(resp.ToolCalls) != 2 || resp.ToolCalls[0].ID == "" {
			t.Fatalf("%+v, %v", resp, err)
		}
		target := geminitest.Generate{}.Target(e.URL)
		said := model.Message{Role: model.Assistant, ToolCalls: resp.ToolCalls, Opaque: model.Opaque{Source: target.Source(), Data: resp.Opaque}}
		req := model.Request{Messages: append(hi[:1:1], said)}
		for _, c := range resp.ToolCalls {
			req.Messages = append(req.Messages, model.Message{Role: model.Tool, ToolCallID: c.ID, Text: "fine"})
		}
		if _, _, err := e.Call(t, client, req, stream); err != nil {
			t.Fatal(err)
		}
		want := []string{"user: Hi", "thinking: c2ln", `call: weather {"place":"Oslo"}`, `call: weather {"place":"Rome"}`, "result: fine", "result: fine"}
		if diff := cmp.Diff(want, e.Asked()[1].Lines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		req.Messages[1].Opaque.Source = "another"
		if _, _, err := e.Call(t, client, req, stream); err != nil {
			t.Fatal(err)
		}
		if want[1] = "thinking: " + skippedSignature; !cmp.Equal(want, e.Asked()[2].Lines) {
			t.Errorf("calls of another model: %q", e.Asked()[2].Lines)
		}
	}
}

// A prompt that a safety filter blocks has no answer, and is no failure of the endpoint; a
// call that the model got wrong is one that passes.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	ask := func(raw string) (model.Response, error) {
		e := wiretest.NewEndpoint(t, geminitest.Generate{}, wiretest.Features{}, wiretest.Reply{Raw: raw})
		return New(wiretest.Config()).Generate(t.Context(), model.Request{Target: geminitest.Generate{}.Target(e.URL), Messages: hi}, func(model.Delta) {})
	}
	blocked := `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":4}}`
	for _, raw := range []string{blocked, "[" + blocked + "]", "data: " + blocked + "\n\n"} {
		if resp, err := ask(raw); err != nil || resp.FinishReason != model.FinishFilter || resp.Text != "" {
			t.Errorf("%s: %+v, %v", raw, resp, err)
		}
	}
	_, err := ask(`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`)
	if e, ok := errors.AsType[*model.Error](err); !ok || !e.Passing {
		t.Errorf("a malformed call: %v", err)
	}
	_, err = ask(`[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`)
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Code != "provider_auth_failed" {
		t.Errorf("a wrong key: %v", err)
	}
}

// Addresses work with and without their version, and as OpenAI-compatible ones.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/v1beta", "/v1beta/openai"} {
		e := wiretest.NewEndpoint(t, geminitest.Generate{}, wiretest.Features{}, refusing("", ""))
		if _, err := New(wiretest.Config()).Generate(t.Context(), model.Request{Target: geminitest.Generate{}.Target(e.URL + path), Messages: hi}, nil); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range (geminitest.Generate{}).Stream(wiretest.Answer{Blocks: []wiretest.Block{{Thinking: "a b", Signature: "c"}, {Text: "d"}, {Call: &model.ToolCall{Name: "n", Arguments: `{"a":1}`}}}}) {
		f.Add([]byte(strings.TrimPrefix(string(seed), "data: ")))
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
	})
}
