package model

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/secret"
)

// A provider's wire is the one that it names, else that of its public name or address
// (rule D23-wire-of-a-key).
func TestWires(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, url string
		want      Wire
	}{
		{"anthropic", "https://api.anthropic.com/v1", WireAnthropic},
		{"claude", "https://api.anthropic.com", WireAnthropic},
		{"gemini", "https://generativelanguage.googleapis.com/v1beta/openai", WireGemini},
		{"google", "https://generativelanguage.googleapis.com/v1beta/openai", ""},
		{"google", "https://generativelanguage.googleapis.com", WireGemini},
		{"ours", "https://ours.openai.azure.com/", WireAzure},
		{"ours", "https://ours.openai.azure.com/openai/v1", ""},
		{"anthropic", "https://gateway.example/v1", ""},
		{"evil", "https://api.anthropic.com.evil.example/v1", ""},
		{"openai", "https://api.openai.com/v1", ""},
		{"aws", "https://bedrock-runtime.eu-west-1.amazonaws.com", WireBedrock},
		{"aws", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn", WireBedrock},
		{"aws", "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1", ""},
		{"aws", "https://bedrock-runtime.eu-west-1.amazonaws.com.evil.example", ""},
	} {
		if got := WireAt(tt.name, tt.url); got != tt.want {
			t.Errorf("%s at %s: %q, want %q", tt.name, tt.url, got, tt.want)
		}
		c, err := NewCatalogue([]Provider{{Name: tt.name, BaseURL: tt.url, Wire: WireAnthropic}}, "")
		if to, _ := c.Endpoint(tt.name); err != nil || to.Wire != WireAnthropic {
			t.Errorf("%s: a wire that is named: %q, %v", tt.name, to.Wire, err)
		}
	}
	file := `{"providers": [{"name": "azure", "base_url": "https://ours.openai.azure.com", "api_version": "2024-10-21"},
		{"name": "aws", "base_url": "https://bedrock-runtime.eu-west-1.amazonaws.com", "aws": {"access_key_id": "a", "secret_access_key": "b"}}]}`
	if _, err := ParseProviders([]byte(file)); err != nil {
		t.Errorf("access to the wire of an address: %v", err)
	}
	key := secret.New("s")
	for _, a := range []struct {
		wire   Wire
		access Access
		says   string
	}{
		{"smoke", Access{}, "one of openai_chat"}, {"", Access{APIVersion: "1"}, "azure_openai"},
		{WireAzure, Access{APIVersion: "1/2"}, "letters, digits"}, {WireAzure, Access{Entra: &Entra{TenantID: "a", ClientSecret: key}}, "needs tenant_id"},
		{WireAzure, Access{Entra: &Entra{"t", "c", key}}, ""},
		{WireAzure, Access{Region: "eu-west-1"}, "bedrock"}, {WireBedrock, Access{Region: "eu/west"}, "letters, digits"},
		{WireBedrock, Access{AWS: &AWS{AccessKeyID: "a"}}, "needs access_key_id"}, {WireBedrock, Access{AWS: &AWS{AccessKeyID: "a", SecretAccessKey: key}}, ""},
		{WireBedrock, Access{AWS: &AWS{From: FromMachine}}, ""}, {WireBedrock, Access{AWS: &AWS{From: "elsewhere"}}, "no from but"},
		{WireBedrock, Access{AWS: &AWS{From: FromMachine, AccessKeyID: "a"}}, "not both"},
		{WireBedrock, Access{AWS: &AWS{From: FromMachine, RoleARN: "arn:aws:iam::123456789012:role/a/b"}}, ""},
		{WireBedrock, Access{AWS: &AWS{From: FromMachine, RoleARN: "arn:aws:s3:::a"}}, "role_arn"},
		{WireBedrock, Access{AWS: &AWS{From: FromMachine, ExternalID: "ours"}}, "external_id"},
	} {
		if err := a.access.Check(a.wire); (err == nil) != (a.says == "") || err != nil && !strings.Contains(err.Error(), a.says) {
			t.Errorf("%s %+v: %v", a.wire, a.access, err)
		}
	}
}

// other is an adapter of another wire.
type other struct {
	asked Request
	err   error
}

func (o *other) Generate(ctx context.Context, req Request, sink func(Delta)) (Response, error) {
	o.asked = req
	r := Response{
		Text: "So \"it\" is.", Thinking: "Hm.", FinishReason: FinishToolCalls, Usage: Usage{InputTokens: 7, OutputTokens: 3, CachedTokens: 2},
		ToolCalls: []ToolCall{{ID: "c1", Name: "t", Arguments: `{"a":1}`}},
	}
	if sink != nil {
		for _, d := range []Delta{{Thinking: "Hm."}, {Text: "So "}, {}, {Text: `"it" is.`}, {Call: CallDelta{ID: "c1", Name: "t", Arguments: `{"a"`}}, {Call: CallDelta{Arguments: ":1}"}}} {
			sink(d)
			if ctx.Err() != nil {
				return Response{}, ctx.Err()
			}
		}
	}
	return r, o.err
}

func (*other) ListModels(context.Context, Target) ([]Listed, error) { return nil, nil }

// A chat completion for another wire is converted, and so is its answer (rule
// D23-forward-wires).
func TestForwardConverts(t *testing.T) {
	t.Parallel()
	const body = `{"model":"x","messages":[{"role":"developer","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"a"},
		{"type":"image_url","image_url":{"url":"https://i.example/a.png"}}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c0","type":"function",
		"function":{"name":"t","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c0","content":"r"}],"tools":[{"type":"function","function":{"name":"t",
		"description":"d","parameters":{"type":"object"},"strict":true}}],"tool_choice":"required","max_completion_tokens":9,"temperature":0.5,"top_p":0.25,
		"stop":"END","seed":5,"n":1,"reasoning_effort":"low","logprobs":null,"prompt_cache_key":"k"}`
	adapter := &other{}
	w := &Wires{Others: map[Wire]Adapter{WireAnthropic: adapter}}
	f := Forward{Target: Target{Provider: "p", Model: "m", Wire: WireAnthropic}, Body: []byte(body)}
	out, err := w.Forward(t.Context(), f, nil)
	if err != nil || out.Response == nil || out.Response.Text != `So "it" is.` || out.Usage.InputTokens != 7 {
		t.Fatalf("%+v, %v", out, err)
	}
	want := Request{
		Target: f.Target, MaxTokens: 9, Temperature: new(.5), TopP: new(.25), Stop: []string{"END"}, CacheKey: "k", ToolChoice: jsontext.Value(`"required"`),
		Extra: map[string]jsontext.Value{"seed": jsontext.Value("5"), "reasoning_effort": jsontext.Value(`"low"`)},
		Tools: []ToolSpec{{"t", "d", jsontext.Value(`{"type":"object"}`), true}},
		Messages: []Message{
			{Role: System, Text: "Be brief."},
			{Role: User, Parts: []jsontext.Value{jsontext.Value(`{"type":"text","text":"a"}`), jsontext.Value(`{"type":"image_url","image_url":{"url":"https://i.example/a.png"}}`)}},
			{Role: Assistant, ToolCalls: []ToolCall{{ID: "c0", Name: "t", Arguments: "{}"}}}, {Role: Tool, ToolCallID: "c0", Text: "r"},
		},
	}
	if diff := cmp.Diff(want, adapter.asked, cmp.AllowUnexported(secret.String{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.Stream, f.Usage = true, true
	streamed := ""
	if out, err = w.Forward(t.Context(), f, func(piece []byte) error { streamed += string(piece); return nil }); err != nil || out.Response != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, part := range []string{
		`{"role":"assistant","reasoning_content":"Hm."}`, `{"content":"So "}`, `{"content":"\"it\" is."}`,
		`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"t","arguments":"{\"a\""}}]}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`, `"finish_reason":"tool_calls"`,
		`"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":2}`, "data: [DONE]\n\n",
	} {
		if !strings.Contains(streamed, part) {
			t.Errorf("%s is not in %s", part, streamed)
		}
	}
	for line := range strings.SplitSeq(streamed, "\n\n") {
		if data := strings.TrimPrefix(line, "data: "); data != "" && data != "[DONE]" && !jsontext.Value(data).IsValid() {
			t.Errorf("not JSON: %s", data)
		}
	}
	gone := errors.New("gone")
	if _, err := w.Forward(t.Context(), f, func([]byte) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("the sink's error is lost: %v", err)
	}
	if _, err := w.Image(t.Context(), ImageRequest{Target: f.Target}); err == nil || !strings.Contains(err.Error(), "no images") {
		t.Errorf("an image: %v", err)
	}
	f.Target.Wire = WireAzure
	if _, err := w.Forward(t.Context(), f, nil); err == nil || !strings.Contains(err.Error(), "provider_not_configured") {
		t.Errorf("a wire without an adapter: %v", err)
	}
}
