package anthropic

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
)

// What the model's endpoint wants back goes to the client and comes back in a block that
// clients do not touch (rule D23-opaque-messages).
func TestOpaqueDataGoesThroughTheClient(t *testing.T) {
	t.Parallel()
	from := model.Target{BaseURL: "https://a.example/v1", Model: "m"}
	resp := model.Response{
		Text: "Hi", Opaque: `{"reasoning_content":"Hm."}`,
		ToolCalls: []model.ToolCall{{ID: "a", Name: "x", Arguments: "{}", Opaque: `{"k":1}`}, {ID: "b", Name: "x", Arguments: "{}"}},
	}
	want := []model.Message{{Role: model.User, Text: "go"}, {
		Role: model.Assistant, Text: "Hi", ToolCalls: resp.ToolCalls, Opaque: model.Opaque{Source: from.Source(), Data: resp.Opaque},
	}}
	f := frames{}
	f.end(&resp, sealOpaque(&resp, &from))
	whole := appendAnswer(nil, "msg_1", "m", &resp, false, sealOpaque(&resp, &from))
	var answer struct {
		Content []map[string]any `json:"content"`
	}
	if err := json.Unmarshal(whole, &answer); err != nil {
		t.Fatal(err)
	}
	block, err := json.Marshal(answer.Content[len(answer.Content)-1], json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	data := strings.TrimSuffix(strings.TrimPrefix(string(block), `{"data":`), `,"type":"redacted_thinking"}`)
	if !strings.Contains(string(f.buf), `"content_block":{"type":"redacted_thinking","data":`+data+`}`) {
		t.Errorf("the stream has another block than %s:\n%s", block, f.buf)
	}
	back := func(block string) []model.Message {
		var p Prompt
		err := json.Unmarshal([]byte(`{"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"text","text":"Hi"},
			{"type":"tool_use","id":"a","name":"x","input":{}},{"type":"tool_use","id":"b","name":"x","input":{}},`+block+`]}]}`), &p)
		if err != nil {
			t.Fatal(err)
		}
		read, _ := p.read()
		return read.out
	}
	if diff := cmp.Diff(want, back(string(block))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want[1].Opaque = model.Opaque{}
	want[1].ToolCalls = []model.ToolCall{{ID: "a", Name: "x", Arguments: "{}"}, {ID: "b", Name: "x", Arguments: "{}"}}
	for _, other := range []string{`"zzz"`, `7`, `"agentd1."`, `"agentd1.!!"`, `"agentd1.e30"`, `null`} {
		if diff := cmp.Diff(want, back(`{"type":"redacted_thinking","data":`+other+`}`)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", other, diff)
		}
	}
	if sealOpaque(&model.Response{Text: "Hi"}, &from) != "" {
		t.Error("an answer without opaque data has a block")
	}
}
