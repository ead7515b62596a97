package run

import (
	"strings"
	"testing"
	"unicode/utf8"

	"agentd/internal/base/schema"
)

func TestPreview(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 300)
	for name, c := range map[string]struct{ object, want string }{
		"short":             {`{"message":"hi"}`, "hi"},
		"first_200":         {`{"message":"` + long + `"}`, long[:400]},
		"after_others":      {`{"a":[1,{"message":"no"}],"message":"yes"}`, "yes"},
		"cut_off":           {`{"message":"hello wor`, "hello wor"},
		"cut_in_an_escape":  {`{"message":"hello \u00`, "hello "},
		"cut_in_a_pair":     {`{"message":"hello \ud83d\u`, "hello "},
		"cut_before":        {`{"instructions":"hello wor`, ""},
		"cut_after_colon":   {`{"message":`, ""},
		"empty":             {`{"message":""}`, ""},
		"no_text":           {`{"message":{"a":1}}`, ""},
		"absent":            {`{}`, ""},
		"nothing":           {``, ""},
		"no_object":         {`[1]`, ""},
		"null":              {`null`, ""},
		"nested_and_cut":    {`{"parts":[{"text":"a`, ""},
		"quote_at_the_end":  {`{"message":"say \"`, `say "`},
		"slash_at_the_end":  {`{"message":"a\`, "a"},
		"invalid_in_string": {"{\"message\":\"a\x01b\"}", "a"},
	} {
		if got := preview([]byte(c.object), "message"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A preview never fails, however the object was cut.
func FuzzPreview(f *testing.F) {
	f.Add(`{"instructions":"x","message":"h\u00e9\ud83d\ude00 \"there\""}`, 30)
	f.Add(`{"message":"a"}`, 3)
	f.Fuzz(func(t *testing.T, object string, cut int) {
		if cut < 0 || cut > len(object) {
			return
		}
		if n := utf8.RuneCountInString(preview([]byte(object[:cut]), "message")); n > previewLength {
			t.Errorf("%d characters", n)
		}
	})
}

// A summary of a step has the name and the beginnings of what it says, whatever type
// it has.
func TestStepSummary(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 300)
	for _, c := range []struct {
		step                Step
		name, input, output string
	}{
		{
			Step{Type: StepTool, Input: schema.Nullable(`{"tool_call_id":"1","name":"add","arguments":"{\"a\":1}"}`), Output: schema.Nullable(`{"content":"` + long + `"}`)},
			"add", `{"a":1}`, long[:400],
		},
		{Step{Type: StepLLM, Output: schema.Nullable(`{"text":"Hello","tool_calls":[],"finish_reason":"stop","model":"m"}`)}, "m", "", "Hello"},
		{Step{Type: StepTool, Input: schema.Nullable(`{"tool_call_id":"1","name":"add"}`)}, "add", "", ""},
		{Step{Type: StepCompaction, Input: schema.Nullable(`{"messages":3}`), Output: schema.Nullable(`{"summary":"x"}`)}, "", "", ""},
	} {
		s := c.step
		s.Summarize()
		if s.Name != c.name || s.InputPreview != c.input || s.OutputPreview != c.output || s.Input != nil || s.Output != nil {
			t.Errorf("%s %s: %+v", c.step.Input, c.step.Output, s)
		}
	}
}
