package jsonform

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

const person = `{"type":"json_schema","json_schema":{"name":"person","schema":{"type":"object","required":["name"],
	"properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0}},"additionalProperties":false}}}`

func TestForm(t *testing.T) {
	t.Parallel()
	const object = `{"type":"json_object"}`
	for _, tt := range []struct{ name, format, answer, clean, problem string }{
		{"fits", person, ` {"name":"Ada","age":36} `, `{"name":"Ada","age":36}`, ""},
		{"fenced", person, "```json\n{\"name\":\"Ada\"}\n```", `{"name":"Ada"}`, ""},
		{"fenced without a label", person, "```\n{\"name\":\"Ada\"}\n```\n", `{"name":"Ada"}`, ""},
		{"two fences", person, "```\n{}\n```\nor\n```\n{}\n```", "", "not valid JSON"},
		{"prose", person, "Her name is Ada.", "Her name is Ada.", "not valid JSON"},
		{"prose around", person, `Here: {"name":"Ada"}`, "", "not valid JSON"},
		{"member missing", person, `{"age":3}`, "", "missing property 'name'"},
		{"another type", person, `{"name":5}`, "", "/name"},
		{"a member too many", person, `{"name":"Ada","pet":"cat"}`, "", "pet"},
		{"duplicate", person, `{"name":"Ada","name":"Bob"}`, "", "duplicated"},
		{"empty", person, "", "", "not valid JSON"},
		{"deep", person, strings.Repeat("[", 100) + strings.Repeat("]", 100), "", "deeper than 64"},
		{"object", object, `{"anything":[1]}`, `{"anything":[1]}`, ""},
		{"no object", object, `[1]`, `[1]`, "not a JSON object"},
		{"no JSON", object, `{`, `{`, "not valid JSON"},
		{"deep object", object, strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), "", "deeper than 64"},
		{"without a schema", `{"type":"json_schema","json_schema":{"name":"x"}}`, `{"a":1}`, `{"a":1}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := OfResponseFormat(jsontext.Value(tt.format))
			if err != nil || f == nil {
				t.Fatal(f, err)
			}
			clean, problem := f.Check(tt.answer)
			if (problem == "") != (tt.problem == "") || !strings.Contains(problem, tt.problem) {
				t.Errorf("problem %q, want %q", problem, tt.problem)
			}
			if tt.problem == "" && clean != tt.clean {
				t.Errorf("clean %q, want %q", clean, tt.clean)
			}
		})
	}
}

func TestFormOfOthers(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"", "null", `"json"`, `{"type":"text"}`, `{"type":7}`, `{"type":"newer"}`} {
		if f, err := OfResponseFormat(jsontext.Value(format)); f != nil || err != nil {
			t.Errorf("%s: %v, %v", format, f, err)
		}
	}
	for _, schema := range []string{`{"type":"objekt"}`, `{"$ref":"https://example.com/s.json"}`, `{"pattern":"("}`,
		`{"$ref":"file:///etc/passwd"}`, `{"description":"` + strings.Repeat("x", maxSchema) + `"}`} {
		if _, err := OfResponseFormat(jsontext.Value(`{"type":"json_schema","json_schema":{"schema":` + schema + `}}`)); !errors.Is(err, ErrSchema) {
			t.Errorf("%.80s: %v", schema, err)
		}
	}
}

// Whatever a model writes, what passes is JSON.
func FuzzForm(f *testing.F) {
	f.Add("```json\n{}\n```")
	f.Add(`{"name":"Ada"}`)
	f.Add("``````")
	form, err := OfResponseFormat(jsontext.Value(person))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		if clean, problem := form.Check(answer); problem == "" && !jsontext.Value(clean).IsValid() {
			t.Errorf("%q passes as %q", answer, clean)
		}
	})
}
