package openai

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
)

// Functions that tool_choice does not allow are not offered to the model.
func TestAllowedTools(t *testing.T) {
	t.Parallel()
	names := func(tools []run.CallerTool) string {
		var all []string
		for _, tool := range tools {
			all = append(all, tool.Name)
		}
		return strings.Join(all, " ")
	}
	for choice, want := range map[string]struct{ tools, choice string }{
		`"auto"`: {"a b", `"auto"`},
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"b"}]}`:     {"b", `"auto"`},
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"a"}]}`: {"a", `"required"`},
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"file_search"}]}`:         {"", ""},
		`{"type":"allowed_tools","mode":"auto"}`:                                              {"a b", `"auto"`},
	} {
		body := `{"model":"m","input":"x","tools":[{"type":"function","name":"a"},{"type":"function","name":"b"}],"tool_choice":` + choice + `}`
		req, err := schema.Decode[ResponseRequest]([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		start, err := req.runStart(nil, func(string) (OutputItem, bool) { return OutputItem{}, false })
		if err != nil {
			t.Fatalf("%s: %v", choice, err)
		}
		if diff := cmp.Diff(want.tools+"|"+want.choice, names(start.Options.Tools)+"|"+string(start.Options.ToolChoice)); diff != "" {
			t.Errorf("%s: %s", choice, diff)
		}
	}
	req, err := schema.Decode[ResponseRequest]([]byte(`{"model":"m","input":"x","tools":[{"type":"function","name":"a"}],` +
		`"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"c"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := req.runStart(nil, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("a function that is not there: %v", err)
	}
	chat, err := schema.Decode[ChatRequest]([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[` +
		`{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}],` +
		`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"b"}}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := chat.RunRequest(); err != nil || names(got.Options.Tools) != "b" {
		t.Errorf("%v, %v", got.Options.Tools, err)
	}
}
