package agentfile

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       []string // the fields of each document as JSON
	}{
		{"YAML", "name: a\nbuilt_in_tools: [calculator]\nprompts:\n  system: |\n    Be brief.\n    And kind.\n", []string{
			`{"built_in_tools":["calculator"],"name":"a","prompts":{"system":"Be brief.\nAnd kind.\n"}}`,
		}},
		{"several documents", "---\nname: a\n---\n# nothing\n---\nname: b\n", []string{`{"name":"a"}`, `{"name":"b"}`}},
		{"JSON", `{"name": "a", "resource_limits": {"max_steps": 12345678901234567890}}`, []string{
			`{"name":"a","resource_limits":{"max_steps":12345678901234567890}}`,
		}},
		{"JSON objects behind each other", "{\"name\": \"a\"}\n{\"name\": \"b\"}", []string{`{"name":"a"}`, `{"name":"b"}`}},
		{"a JSON array", `[{"name": "a"}, {"name": "b"}]`, []string{`{"name":"a"}`, `{"name":"b"}`}},
		{"texts that look like something else", "name: '1'\ndescription: 2026-01-01\nmetadata: {a: yes, b: 0x10, c: ~, d: 1.50, e: 'null'}", []string{
			`{"description":"2026-01-01","metadata":{"a":"yes","b":16,"c":null,"d":1.50,"e":"null"},"name":"1"}`,
		}},
		{"anchors", "name: a\nmetadata:\n  x: &x {k: 1}\n  y: *x\n", []string{`{"metadata":{"x":{"k":1},"y":{"k":1}},"name":"a"}`}},
		{"a byte order mark", "\xef\xbb\xbfname: a\n", []string{`{"name":"a"}`}},
		{"a model by its name", "name: a\nmodel: builtin/echo\nfallback_model: gpt-5\n", []string{
			`{"fallback_model":{"capabilities":{},"model_ref":"gpt-5","provider":"openai_compat"},` +
				`"model":{"capabilities":{},"model_ref":"builtin/echo","provider":"custom"},"name":"a"}`,
		}},
		{"an id instead of a name", "agent_id: x\ndescription: d\n", []string{`{"description":"d"}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files, err := Parse([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range files {
				text, err := json.Marshal(f.Fields, json.Deterministic(true))
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(text))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "# only a comment", "it holds no agent"},
		{"a blank model", "name: a\nmodel: ' '", "model is blank; write the name of a model, such as builtin/echo"},
		{"an unknown field", "name: a\ntools: [calculator]", `unknown field "tools"; did you mean built_in_tools?`},
		{"an unknown member", "name: a\nprompts: {systm: x}", `unknown field "prompts.systm"; did you mean system?`},
		{"the second document", "name: a\n---\nnme: b", `document 2: unknown field "nme"; did you mean name?`},
		{"no name", "description: d", "it needs name"},
		{"a blank name", "name: ' '", "name is blank"},
		{"a name that is none", "name: [a]", `name must be a string, not ["a"]`},
		{"one name twice", "name: a\n---\nname: a", `document 2: name "a" is that of document 1 too`},
		{"a list", "- name: a", "it must be an object"},
		{"a text", "hello", "it must be an object"},
		{"a field twice", "name: a\nname: b", "line 2: name stands here twice"},
		{"no YAML", "name: [", "it is not YAML: line 1"},
		{"no JSON", "{\"name\": \"a\",\n \"x\" 1}", "it is not JSON: line 2: "},
		{"a merge", "name: a\nmetadata:\n  x: &x {k: 1}\n  y: {<<: *x}", "line 4: << is not supported"},
		{"no number", "name: a\nmetadata: {x: .nan}", "line 2: .nan is a value that JSON does not have"},
		{"a tag", "name: a\nmetadata: {x: !!binary aGk=}", "that JSON does not have"},
		{"a name that is a list", "name: a\nmetadata: {[x]: 1}", "line 2: the name of a field must be a text"},
		{"aliases without end", bomb(), "too deep or too large"},
		{"a deep one", "name: a\nmetadata: " + strings.Repeat("{x: ", 100) + "1" + strings.Repeat("}", 100), "too deep or too large"},
		{"too many", strings.Repeat("---\nname: a\n", MaxAgents+1), "a file may hold 1000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if files, err := Parse([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v; want %q", files, err, tt.want)
			}
		})
	}
}

// bomb is a document of a few lines that has ten million values.
func bomb() string {
	var b strings.Builder
	b.WriteString("name: a\nmetadata:\n  x0: &x0 1\n")
	for i := 1; i <= 7; i++ {
		before := strings.Repeat(", *x"+string(rune('0'+i-1)), 10)
		b.WriteString("  x" + string(rune('0'+i)) + ": &x" + string(rune('0'+i)) + " [" + before[2:] + "]\n")
	}
	return b.String()
}

const shown = `{"agent_id":"x","name":"helper","description":"","model":{"provider":"custom","model_ref":"builtin/echo","capabilities":{}},
	"prompts":{"system":"Line one.\nLine two.\n"},"built_in_tools":["calculator","current_time"],"approval_required_tools":[],
	"execution_mode":"async","context_window_size":20,"memory":{"enabled":true,"max_entries":10000},"thinking":null,
	"metadata":{"owner":"yes","count":1.0,"since":"2026-01-01"},"model_provider":"default","status":"active","version":"3"}`

func TestExport(t *testing.T) {
	t.Parallel()
	fields, err := Export([]byte(shown))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Render(fields)
	if err != nil {
		t.Fatal(err)
	}
	want := `name: helper
model:
  provider: custom
  model_ref: builtin/echo
  capabilities: {}
prompts:
  system: |
    Line one.
    Line two.
memory:
  enabled: true
  max_entries: 10000
built_in_tools: [calculator, current_time]
metadata:
  owner: "yes"
  count: 1.0
  since: "2026-01-01"
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	files, err := Parse(got)
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := files[0].Changes([]byte(shown)); err != nil || len(changes) != 0 {
		t.Errorf("what was exported changes %v, %v", changes, err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"name: helper\n":                                           `{}`,
		"name: helper\ndescription: new\n":                         `{"description":"new"}`,
		"name: helper\ndescription: ''\n":                          `{}`,
		"name: helper\nthinking: null\n":                           `{}`,
		"name: helper\nguardrails: {}\n":                           `{}`,
		"name: helper\nmemory: {enabled: true}\n":                  `{}`, // the server added max_entries
		"name: helper\nmemory: {enabled: false}\n":                 `{"memory":{"enabled":false}}`,
		"name: helper\nmetadata: {count: 1}\n":                     `{}`,
		"name: helper\nbuilt_in_tools: [calculator]\n":             `{"built_in_tools":["calculator"]}`,
		"name: helper\nbuilt_in_tools: [current_time, calculator]": `{"built_in_tools":["current_time","calculator"]}`,
		"name: helper\napproval_required_tools: []\n":              `{}`,
		"name: other\n":                                            `{"name":"other"}`,
	} {
		files, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		changes, err := files[0].Changes([]byte(shown))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(changes); string(got) != want {
			t.Errorf("%s changes %s, want %s", text, got, want)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	before := map[string]jsontext.Value{"name": jsontext.Value(`"a"`), "description": jsontext.Value(`"old"`)}
	after := Merged(before, map[string]jsontext.Value{"description": jsontext.Value(`"new"`)})
	got, err := Diff(before, after, "server", "file")
	if want := "--- server\n+++ file\n@@ -1,2 +1,2 @@\n name: a\n-description: old\n+description: new\n"; err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := Diff(before, before, "a", "b"); got != "" || err != nil {
		t.Errorf("no change is %q, %v", got, err)
	}
	if got, _ := Diff(nil, before, "a", "b"); !strings.Contains(got, "+name: a\n") {
		t.Errorf("a new agent is %q", got)
	}
}

// What is written is read back as it was, and nothing that is read hangs or
// panics.
func FuzzRoundTrip(f *testing.F) {
	for _, seed := range []string{
		shown, "name: a\n", "- 1\n", "{", "name: &a [*a]", "name: a\ndescription: \"\\e \\u2028 \\uFEFF\"\n", "name: a\nmetadata: {\"\": [ ], ' ': {}}",
		"name: a\nprompts:\n  system: |2\n     x\n   \n", "name: \"\\t\"\n", bomb(),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		files, err := Parse(text)
		if err != nil {
			return
		}
		for _, file := range files {
			first, err := Render(file.Fields)
			if err != nil {
				t.Fatalf("%v cannot be written: %v", file.Fields, err)
			}
			again, err := Parse(first)
			if err != nil {
				if file.Name == "" { // it had an agent_id, which is not written
					continue
				}
				t.Fatalf("%v\n%s", err, first)
			}
			if changes, err := again[0].Changes(object(t, file.Fields)); err != nil || len(changes) > 0 {
				t.Fatalf("%q became %v, %v:\n%s", text, changes, err, first)
			}
			if second, _ := Render(again[0].Fields); !bytes.Equal(first, second) {
				t.Fatalf("%s\n%s", first, second)
			}
		}
	})
}

func object(t *testing.T, fields map[string]jsontext.Value) jsontext.Value {
	t.Helper()
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
