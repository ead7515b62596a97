package schema

import (
	"reflect"
	"sync"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// Text is the schema of a parameter that arrives as text: in a path, a query
// or a header. Like [Schema], it is compiled when it is first used.
type Text struct{ node func() *node }

// texts are shared by the operations whose parameters are alike.
var texts sync.Map // field -> *Text

// field is what the schema of a parameter is made of.
type field struct {
	name string
	typ  reflect.Type
	tag  reflect.StructTag
}

// TextOf returns the schema of a parameter field. Using it panics if the field's
// type cannot be read from text.
func TextOf(f reflect.StructField) *Text {
	key := field{f.Name, f.Type, f.Tag}
	if t, ok := texts.Load(key); ok {
		return t.(*Text)
	}
	kept, _ := texts.LoadOrStore(key, &Text{sync.OnceValue(func() *node { return compileText(f) })})
	return kept.(*Text)
}

func compileText(f reflect.StructField) *node {
	r := NewRegistry()
	c := compiler{registry: r, refs: map[string]*node{}}
	s := Parameter(r, f)
	if s.Type == huma.TypeArray {
		s = s.Items
	}
	if s.Type == huma.TypeObject || s.Type == huma.TypeArray || s.Type == "" {
		panic("schema: the parameter " + f.Name + " cannot be read from text")
	}
	return c.compile(s)
}

// Parameter returns the published schema of a parameter field.
func Parameter(r *Registry, f reflect.StructField) *huma.Schema {
	s := huma.SchemaFromField(r, f, "")
	s.Nullable, s.Description = false, "" // the description is the parameter's
	return s
}

// Violation returns what is expected instead of text, or "" if text is valid.
func (t *Text) Violation(text string) string {
	if !utf8.ValidString(text) {
		return "expected UTF-8"
	}
	switch node := t.node(); node.takes {
	case isBool:
		if text != "true" && text != "false" {
			return node.expected
		}
		return ""
	case isNumber:
		return node.numberViolation(text).message
	default:
		return node.textViolation([]byte(text)).message
	}
}
