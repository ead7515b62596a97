package openaiclient

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/wire/modelcall"
)

// What comes with an answer goes back with it, to the endpoint and model that it came
// from (rule D23-opaque).
func TestOpaqueDataGoesBack(t *testing.T) {
	t.Parallel()
	delta := func(d string) string { return `data: {"choices":[{"delta":` + d + `}]}` + "\n\n" }
	const call = `{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{}"},"extra_content":{"g":{"s":"1"}}}]}`
	tests := []struct {
		name, body string
		message    string // the members of the message, beside its own
		extra      string // of the call
	}{
		{"reasoning_content", delta(`{"reasoning_content":"Hm. "}`) + delta(`{"reasoning_content":"So."}`) + delta(call), `{"reasoning_content":"Hm. So."}`, `{"g":{"s":"1"}}`},
		{"reasoning", delta(`{"reasoning":"Hm."}`) + delta(call), `{"reasoning":"Hm."}`, `{"g":{"s":"1"}}`},
		{"reasoning without a call", delta(`{"reasoning_content":"Hm."}`) + delta(`{"content":"Hi"}`), ``, ""},
		{
			"details in pieces", delta(`{"reasoning":"Hm. So.","reasoning_details":[{"type":"reasoning.text","index":0,"text":"Hm. ","signature":null}]}`) +
				delta(`{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"So.","signature":"sig"},{"type":"reasoning.encrypted","index":1,"data":"zzz"}]}`) +
				delta(`{"content":"Hi"}`),
			`{"reasoning_details":[{"index":0,"signature":"sig","text":"Hm. So.","type":"reasoning.text"},{"data":"zzz","index":1,"type":"reasoning.encrypted"}]}`, "",
		},
		{"a message's signature", delta(`{"content":"Hi","extra_content":{"google":{"thought_signature":"s"}}}`), `{"extra_content":{"google":{"thought_signature":"s"}}}`, ""},
		{"other kinds of values", delta(`{"content":"Hi","extra_content":7,"reasoning_details":{"a":1}}`), "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resp, _, err := read(tt.body+end, whole)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.message, resp.Opaque); diff != "" {
				t.Errorf("of the message (-want +got):\n%s", diff)
			}
			to := model.Target{BaseURL: "https://a.example/v1", Model: "m"}
			m := model.Message{Role: model.Assistant, Text: resp.Text, ToolCalls: resp.ToolCalls, Opaque: model.Opaque{Source: to.Source(), Data: resp.Opaque}}
			sent := func(to model.Target) string {
				return string(encode(&model.Request{Target: to, Messages: []model.Message{m}}, false, dialect{}))
			}
			if got := sent(to); tt.message != "" && !strings.Contains(got, strings.Trim(tt.message, "{}")) || tt.extra != "" && !strings.Contains(got, `"extra_content":`+tt.extra) {
				t.Errorf("sent back: %s", got)
			} else if json.Unmarshal([]byte(got), new(any)) != nil {
				t.Errorf("no JSON: %s", got)
			}
			for _, other := range []model.Target{{BaseURL: to.BaseURL, Model: "n"}, {BaseURL: "https://b.example/v1", Model: "m"}} {
				for _, field := range []string{reasoningContentField, reasoningField, detailsField, extraField} {
					if got := sent(other); strings.Contains(got, field) {
						t.Errorf("%s %s gets %s", other.BaseURL, other.Model, got)
					}
				}
			}
		})
	}
}

// Data that a client kept, and changed, adds nothing to the request but the members
// that it may have.
func TestOpaqueDataIsReadAgain(t *testing.T) {
	t.Parallel()
	to := model.Target{BaseURL: "https://a.example/v1", Model: "m"}
	for _, data := range []string{`{"model":"n"}`, `{"reasoning":"x"}],"model":"n","a":[{`, `{"content":"other","role":"system"}`, `"`, `{"extra_content":`} {
		req := model.Request{Target: to, Messages: []model.Message{{
			Role: model.Assistant, Text: "Hi", ToolCalls: []model.ToolCall{{ID: "a", Name: "x", Arguments: "{}", Opaque: data}},
			Opaque: model.Opaque{Source: to.Source(), Data: data},
		}}}
		const want = `{"model":"m","messages":[{"role":"assistant","content":"Hi","tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}`
		got := string(encode(&req, false, dialect{}))
		if json.Unmarshal([]byte(got), new(any)) != nil || !strings.HasPrefix(got, want) || strings.Count(got, `"role"`) > 1 && !strings.Contains(got, `"extra_content":{"content":"other","role":"system"}`) {
			t.Errorf("%s becomes %s", data, got)
		}
		if strings.Contains(got, `"model":"n"`) && !strings.Contains(got, `"extra_content":{"model":"n"}`) {
			t.Errorf("%s becomes %s", data, got)
		}
	}
}

// Calls of another model get Gemini's marker in place of a signature, once it asks for one.
func TestSkippedSignatures(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{}, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if calls := r.Chat().Messages[1].ToolCalls; calls[0].Extra == nil || calls[1].Extra != nil {
			return modeltest.Answer{Status: http.StatusBadRequest, Error: "Function call is missing a thought_signature in functionCall parts."}
		}
		return modeltest.Answer{Text: "fine"}
	}))
	b.req.Messages = append(b.req.Messages, model.Message{
		Role: model.Assistant, ToolCalls: []model.ToolCall{{ID: "a", Name: "x", Arguments: "{}"}, {ID: "b", Name: "x", Arguments: "{}"}},
	})
	if resp, _, err := b.call(t); err != nil || resp.Text != "fine" {
		t.Fatalf("%+v, %v", resp, err)
	}
	b.call(t)
	if n := b.sim.Calls(); n != 3 {
		t.Errorf("the endpoint was called %d times for two calls, of which the first is refused once", n)
	}
}

// More than 1 MiB of it is a failure of the call, and is found before it is all read.
func TestOpaqueDataIsBounded(t *testing.T) {
	t.Parallel()
	piece := `data: {"choices":[{"delta":{"reasoning_details":[{"type":"a","data":"` + strings.Repeat("x", 64<<10) + `"}]}}]}` + "\n\n"
	if _, _, err := read(strings.Repeat(piece, 17)+end, whole); err != modelcall.ErrTooLong {
		t.Errorf("17 pieces of 64 KiB: %v", err)
	}
	if _, _, err := read(strings.Repeat(piece, 15)+end, whole); err == modelcall.ErrTooLong {
		t.Errorf("15 pieces of 64 KiB: %v", err)
	}
}

// An endpoint that refuses the data of its own answers gets none from then on, while
// its settings of thinking stay.
func TestOpaqueDataThatIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{}, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if strings.Contains(string(r.Body), "reasoning_content") {
			return modeltest.Answer{Status: http.StatusBadRequest, Error: "messages.1: reasoning_content is not allowed in input messages"}
		}
		return modeltest.Answer{Text: "fine"}
	}))
	b.req.Extra = map[string]jsontext.Value{"reasoning_effort": jsontext.Value(`"low"`)}
	b.req.Messages = append(b.req.Messages, model.Message{
		Role: model.Assistant, ToolCalls: []model.ToolCall{{ID: "a", Name: "x", Arguments: "{}"}},
		Opaque: model.Opaque{Source: b.req.Target.Source(), Data: `{"reasoning_content":"Hm."}`},
	}, model.Message{Role: model.Tool, ToolCallID: "a", Text: "1"})
	for i, calls := range []int{2, 3} {
		if resp, _, err := b.call(t); err != nil || resp.Text != "fine" {
			t.Fatalf("call %d: %+v, %v", i, resp, err)
		}
		if n := b.sim.Calls(); n != calls {
			t.Errorf("after call %d the endpoint was called %d times, not %d", i, n, calls)
		}
	}
	for _, r := range b.sim.Requests() {
		if !strings.Contains(string(r.Body), `"reasoning_effort":"low"`) {
			t.Errorf("without the effort: %s", r.Body)
		}
	}
}

// Only an endpoint that is known to take the key of a cache gets one.
func TestCacheKey(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{"https://api.openai.com/v1": true, "https://api.openai.com.evil.example/v1": false, "https://api.mistral.ai/v1": false} {
		req := model.Request{Target: model.Target{BaseURL: url, Model: "m"}, CacheKey: "k"}
		if got := strings.Contains(string(encode(&req, false, dialect{})), `"prompt_cache_key":"k"`); got != want {
			t.Errorf("%s: %v", url, got)
		}
		rejection := dialect{}
		rejection, adapted := rejection.adapt(&model.Error{Status: 400, Cause: &modelcall.EndpointError{Message: "Unknown parameter: 'prompt_cache_key'."}}, &req)
		if !adapted || strings.Contains(string(encode(&req, false, rejection)), "prompt_cache_key") {
			t.Errorf("%s: it was refused, and is sent again", url)
		}
	}
}
