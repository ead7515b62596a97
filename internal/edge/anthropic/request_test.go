package anthropic

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/goldentest"
	"agentd/internal/kernel/model"
)

// shown is a model call for people.
type shown struct {
	Messages    []model.Message           `json:"messages"`
	Tools       []model.ToolSpec          `json:"tools,omitempty"`
	ToolChoice  jsontext.Value            `json:"tool_choice,omitempty"`
	MaxTokens   int                       `json:"max_tokens"`
	Temperature *float64                  `json:"temperature,omitempty"`
	TopP        *float64                  `json:"top_p,omitempty"`
	Stop        []string                  `json:"stop,omitempty"`
	Extra       map[string]jsontext.Value `json:"extra,omitempty"`
}

// Each request of testdata/requests becomes the model call that stands beside it.
func TestRequests(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/requests/*.request.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("%v: %v", names, err)
	}
	for _, path := range names {
		name := strings.TrimSuffix(filepath.Base(path), ".request.json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			req, err := schema.Decode[Request](body)
			if err != nil {
				t.Fatal(err)
			}
			ask, err := req.ToRequest()
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(shown{
				ask.Messages, ask.Tools, ask.ToolChoice, ask.MaxTokens, ask.Temperature, ask.TopP, ask.Stop, ask.Extra,
			}, json.Deterministic(true), jsontext.WithIndent("  "))
			if err != nil {
				t.Fatal(err)
			}
			goldentest.Check(t, "testdata/requests/"+name+".call.json", append(got, '\n'))
		})
	}
}

func decoded(t *testing.T, body string) *Request {
	t.Helper()
	req, err := schema.Decode[Request]([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// All invalid fields are reported, by path.
func TestWrongRequests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		want       []string
	}{
		{"empty", `{}`, []string{"max_tokens", "messages", "model"}},
		{
			"types", `{"model":1,"max_tokens":0,"messages":[{"role":"king"}],"stream":"yes","temperature":9,"stop_sequences":"x","tools":{},"tool_choice":"auto","thinking":[],"metadata":1}`,
			[]string{
				"max_tokens", "messages[0].content", "messages[0].role", "metadata", "model", "stop_sequences", "stream", "temperature", "thinking", "tool_choice", "tools",
			},
		},
		{
			"blocks", `{"model":"m","max_tokens":1,"system":[{"type":"text"}],"messages":[
				{"role":"user","content":[1,{},{"type":"text","text":1},{"type":"image"},{"type":"image","source":{"type":"base64","media_type":"text/html","data":"x"}},
					{"type":"image","source":{"type":"base64","media_type":"image/png","data":1}},{"type":"image","source":{"type":"url","url":"file:///x"}},{"type":"image","source":{"type":"file","file_id":"x"}},
					{"type":"tool_result","content":"x"},{"type":"tool_result","tool_use_id":"x","content":[{"type":"text"}],"is_error":"no"},{"type":"tool_result","tool_use_id":"x","content":3}]},
				{"role":"assistant","content":[{"type":"tool_use","id":1,"input":"x"}]},
				{"role":"user","content":7}]}`,
			[]string{
				"messages[0].content[0]", "messages[0].content[10]", "messages[0].content[1].type", "messages[0].content[2].text", "messages[0].content[3].source",
				"messages[0].content[4].source.media_type", "messages[0].content[5].source.data", "messages[0].content[6].source.url", "messages[0].content[7].source.type",
				"messages[0].content[8].tool_use_id", "messages[0].content[9].content[0].text", "messages[0].content[9].is_error",
				"messages[1].content[0].id", "messages[1].content[0].input", "messages[1].content[0].name", "messages[2].content", "system[0].text",
			},
		},
		{
			"settings", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"input_schema":1}],"tool_choice":{"type":"tool","name":"x"},
				"stop_sequences":["a",""],"metadata":{"user_id":7}}`,
			[]string{"metadata.user_id", "stop_sequences[1]", "tool_choice.name", "tools[0].input_schema", "tools[0].name"},
		},
		{
			"documents", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"document"},{"type":"document","source":{"type":"file","file_id":"x"}},
				{"type":"document","source":{"type":"base64","media_type":"application/zip","data":"x"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf"}},
				{"type":"document","source":{"type":"text","media_type":"text/html","data":"x"}},{"type":"document","source":{"type":"url","url":"file:///x"}},
				{"type":"document","source":{"type":"content","content":[{"type":"text"},{"type":"image"}]}},{"type":"document","source":{"type":"content"}}]}]}`,
			[]string{
				"messages[0].content[0].source", "messages[0].content[1].source.type", "messages[0].content[2].source.media_type", "messages[0].content[3].source.data",
				"messages[0].content[4].source.media_type", "messages[0].content[5].source.url", "messages[0].content[6].source.content[0].text",
				"messages[0].content[6].source.content[1].source", "messages[0].content[7]",
			},
		},
		{"nothing said", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":""},{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"y"}]}]}`, []string{"messages"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req, err := schema.Decode[Request]([]byte(tt.body))
			if err == nil {
				_, err = req.ToRequest()
			}
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("got %v", err)
			}
			var got []string
			for _, f := range fault.From(err).Fields {
				got = append(got, f.Field)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			said := message(fault.From(err))
			for _, field := range tt.want {
				if !strings.Contains(said, dotted(field)+": ") {
					t.Errorf("%s is not in %q", field, said)
				}
			}
		})
	}
}

func TestThink(t *testing.T) {
	t.Parallel()
	no := false
	for _, tt := range []struct {
		name, thinking string
		takes          model.Capabilities
		want           string
	}{
		{"unknown model", `{"type":"enabled","budget_tokens":2048}`, model.Capabilities{}, ""},
		{"reasoning", `{"type":"enabled","budget_tokens":2048}`, model.Capabilities{Budget: model.BudgetReasoning}, `{"reasoning":{"max_tokens":2048}}`},
		{"thinking", `{"type":"enabled","budget_tokens":2048}`, model.Capabilities{Budget: model.BudgetThinking}, `{"thinking":{"budget_tokens":2048,"type":"enabled"}}`},
		{"plain", `{"type":"enabled","budget_tokens":2048}`, model.Capabilities{Budget: model.BudgetPlain}, `{"thinking_budget":2048}`},
		{"does not think", `{"type":"enabled","budget_tokens":2048}`, model.Capabilities{Budget: model.BudgetPlain, Thinking: &no}, ""},
		{"disabled", `{"type":"disabled"}`, model.Capabilities{Budget: model.BudgetPlain}, ""},
		{"adaptive", `{"type":"adaptive"}`, model.Capabilities{Budget: model.BudgetPlain}, ""},
		{"absent", `null`, model.Capabilities{Budget: model.BudgetPlain}, ""},
	} {
		req := decoded(t, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"thinking":`+tt.thinking+`}`)
		ask, err := req.ToRequest()
		if err != nil {
			t.Fatal(err)
		}
		req.applyThinkingBudget(&ask, tt.takes)
		got := ""
		if ask.Extra != nil {
			b, err := json.Marshal(ask.Extra)
			if err != nil {
				t.Fatal(err)
			}
			got = string(b)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		want       int
	}{
		{"one character", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, 1 + 3},
		{"not ASCII", `{"model":"m","messages":[{"role":"user","content":"éééé"}]}`, 1 + 3},
		{"three messages", `{"model":"m","system":"12345678","messages":[{"role":"user","content":"1234"},{"role":"assistant","content":"1234"},{"role":"user","content":"1234"}]}`, 5 + 9},
		{"tools", `{"model":"m","messages":[{"role":"user","content":"1234"}],"tools":[{"name":"abcd","description":"efgh","input_schema":{"type":"object"}}]}`, 1 + 2 + 4 + 4},
		{"calls", `{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"abcd","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"12345"}]}]}`, 4 + 6},
		{"image", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"1234"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}`, 1 + 3 + 1000},
		{"max_tokens is not looked at", `{"model":"m","max_tokens":-1,"temperature":"x","messages":[{"role":"user","content":"x"}]}`, 1 + 3},
	} {
		req, err := schema.Decode[CountRequest]([]byte(tt.body))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got, err := req.Count(); err != nil || got != tt.want {
			t.Errorf("%s: %d, %v; want %d", tt.name, got, err, tt.want)
		}
	}
}

// Whatever comes is refused or becomes a call in which the results of tools stand
// right behind their calls.
func FuzzRequest(f *testing.F) {
	goldentest.Seed(f, "testdata/requests/*.request.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := schema.Decode[Request](body)
		if err != nil {
			return
		}
		ask, err := req.ToRequest()
		if err != nil {
			if !fault.Is(err, fault.Invalid) || len(fault.From(err).Fields) == 0 {
				t.Fatalf("%s: %v", body, err)
			}
			return
		}
		if n, err := req.Count(); err != nil || n <= 0 {
			t.Fatalf("%s counts %d, %v", body, n, err)
		}
		var open []string
		for i, m := range ask.Messages {
			if m.Role == model.Tool {
				at := slices.Index(open, m.ToolCallID)
				if at < 0 {
					t.Fatalf("%s: message %d answers %q, which was not asked", body, i, m.ToolCallID)
				}
				open = slices.Delete(open, at, at+1)
				continue
			}
			open = nil
			for _, c := range m.ToolCalls {
				open = append(open, c.ID)
				if !jsontext.Value(c.Arguments).IsValid() {
					t.Fatalf("%s: arguments %s", body, c.Arguments)
				}
			}
			for _, part := range m.Parts {
				if !part.IsValid() {
					t.Fatalf("%s: part %s", body, part)
				}
			}
			if m.Text == "" && m.Parts == nil && m.ToolCalls == nil {
				t.Fatalf("%s: message %d is empty", body, i)
			}
		}
	})
}
