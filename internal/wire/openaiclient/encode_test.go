package openaiclient

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

func TestEncode(t *testing.T) {
	t.Parallel()
	half, one := 0.5, 1.0
	tests := map[string]struct {
		req    model.Request
		stream bool
		want   string
	}{
		"least": {
			req:  model.Request{Target: model.Target{Model: "m"}, Messages: []model.Message{{Role: model.User, Text: "hi \"you\"\n"}}},
			want: `{"model":"m","messages":[{"role":"user","content":"hi \"you\"\n"}]}`,
		},
		"streamed": {
			req:    model.Request{Target: model.Target{Model: "m"}},
			stream: true,
			want:   `{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true}}`,
		},
		"bad-utf8": {
			req:  model.Request{Target: model.Target{Model: "m"}, Messages: []model.Message{{Role: model.User, Text: "a\xffb"}}},
			want: `{"model":"m","messages":[{"role":"user","content":"a` + "\uFFFD" + `b"}]}`,
		},
		"all": {
			req: model.Request{
				Target: model.Target{Model: "meta/llama-3"},
				Messages: []model.Message{
					{Role: model.System, Text: "be good"},
					{Role: model.User, Name: "ann", Parts: []jsontext.Value{jsontext.Value(`{"type":"text","text":"x"}`), jsontext.Value(`{"type":"image_url"}`)}},
					{Role: model.Assistant, ToolCalls: []model.ToolCall{{ID: "1", Name: "f", Arguments: `{"a":1}`}, {ID: "2", Name: "g", Arguments: "{"}}},
					{Role: model.Tool, ToolCallID: "1", Name: "f", Text: "one"},
					{Role: model.Tool, ToolCallID: "2", Name: "g"},
				},
				Tools:       []model.ToolSpec{{Name: "f", Description: "does f", Parameters: jsontext.Value(`{"type":"object"}`)}, {Name: "g"}},
				ToolChoice:  jsontext.Value(`"auto"`),
				MaxTokens:   100,
				Temperature: &half, TopP: &one,
				Stop:  []string{"a", "b"},
				Extra: map[string]jsontext.Value{"seed": jsontext.Value("7"), "response_format": jsontext.Value(`{"type":"json_object"}`)},
			},
			want: `{"model":"meta/llama-3","messages":[{"role":"system","content":"be good"},` +
				`{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url"}],"name":"ann"},` +
				`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"2","type":"function","function":{"name":"g","arguments":"{"}}]},` +
				`{"role":"tool","content":"one","tool_call_id":"1"},{"role":"tool","content":"","tool_call_id":"2"}],` +
				`"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g"}}],` +
				`"tool_choice":"auto","max_tokens":100,"temperature":0.5,"top_p":1,"stop":["a","b"],` +
				`"response_format":{"type":"json_object"},"seed":7}`,
		},
		"extra-replaces-settings-but-not-the-call": {
			req: model.Request{
				Target: model.Target{Model: "m"}, MaxTokens: 5, Temperature: &half,
				Extra: map[string]jsontext.Value{
					"max_completion_tokens": jsontext.Value("9"), "temperature": jsontext.Value("0"),
					"stream": jsontext.Value("true"), "model": jsontext.Value(`"other"`), "messages": jsontext.Value("[]"),
				},
			},
			want: `{"model":"m","messages":[],"max_completion_tokens":9,"temperature":0}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(encode(&test.req, test.stream, dialect{})); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// Whatever strings a request holds, what is sent is one JSON value that holds
// them.
func FuzzEncode(f *testing.F) {
	f.Add("m", "hello", `{"a":1}`)
	f.Add("\x00\xff", "\u2028\"\\", "")
	f.Fuzz(func(t *testing.T, name, text, arguments string) {
		req := model.Request{
			Target:   model.Target{Model: name},
			Messages: []model.Message{{Role: model.User, Text: text}, {Role: model.Assistant, ToolCalls: []model.ToolCall{{Name: name, Arguments: arguments}}}},
			Stop:     []string{text},
		}
		body := encode(&req, true, dialect{})
		var back struct {
			Model    string `json:"model"`
			Messages []struct {
				Content   *string `json:"content"`
				ToolCalls []struct {
					Function model.ToolCall `json:"function"`
				} `json:"tool_calls"`
			} `json:"messages"`
		}
		if err := json.Unmarshal(body, &back); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		valid := func(s string) string { return string([]rune(s)) } // as many U+FFFD as bad bytes
		if back.Model != valid(name) || *back.Messages[0].Content != valid(text) || back.Messages[1].ToolCalls[0].Function.Arguments != valid(arguments) {
			t.Errorf("%s does not hold %q, %q, %q", body, name, text, arguments)
		}
	})
}
