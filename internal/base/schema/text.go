package schema

import (
	"reflect"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// Text is the schema of a parameter that arrives as text: in a path, a query
// or a header.
type Text struct{ node *node }

// TextOf compiles the schema of a parameter field. It panics if the field's
// type cannot be read from text.
func TextOf(f reflect.StructField) *Text {
	r := NewRegistry()
	c := compiler{registry: r, refs: map[string]*node{}}
	s := Parameter(r, f)
	if s.Type == huma.TypeArray {
		s = s.Items
	}
	if s.Type == huma.TypeObject || s.Type == huma.TypeArray || s.Type == "" {
		panic("schema: the parameter " + f.Name + " cannot be read from text")
	}
	return &Text{c.compile(s)}
}

// Parameter returns the published schema of a parameter field.
func Parameter(r *Registry, f reflect.StructField) *huma.Schema {
	s := huma.SchemaFromField(r, f, "")
	s.Nullable, s.Description = false, "" // the description is the parameter's
	return s
}

// Violation returns what is expected instead of text, or "" if text is valid.
func (t *Text) Violation(text string) string {
	switch {
	case !utf8.ValidString(text):
		return "expected UTF-8"
	case t.node.takes == isBool:
		if text != "true" && text != "false" {
			return t.node.expected
		}
		return ""
	case t.node.takes == isNumber:
		return t.node.numberViolation(text).message
	}
	return t.node.textViolation([]byte(text)).message
}
