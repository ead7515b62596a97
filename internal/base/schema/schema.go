// Package schema reads JSON bodies: it derives a JSON Schema from a Go type
// and its tags, publishes it for the OpenAPI document, and checks bytes
// against it before they are decoded.
//
// Tags are huma's: doc, enum, minimum, maximum, minLength, maxLength, pattern,
// format, minItems, maxItems, example, default, nullable, required. They
// differ in three points:
//
//   - A field is required only if it has the tag required:"true".
//   - A field accepts null only if it has the tag nullable:"true", or if it is a
//     pointer that is sent as null when nil (no omitzero, no omitempty).
//   - Unknown members are ignored unless the struct has the field
//     _ struct{} `additionalProperties:"false"`.
//
// Free JSON is one of [Object], [Array] and [Any]; a field of type
// jsontext.Value is any JSON.
package schema

import (
	"reflect"
	"sync"
)

// MaxDepth is how deep a body may nest.
const MaxDepth = 64

// maxWrong bounds the invalid fields that one refusal lists.
const maxWrong = 100

// Schema is a compiled schema. It is immutable and safe for concurrent use.
type Schema struct {
	root     *node
	typ      reflect.Type
	defaults []fieldDefault
}

var compiled sync.Map // reflect.Type -> *Schema

// For returns the schema of a type, compiled once. It panics if the tags of the
// type are not a valid schema: a bug that shows at start.
func For(t reflect.Type) *Schema {
	if s, ok := compiled.Load(t); ok {
		return s.(*Schema)
	}
	r := NewRegistry()
	c := compiler{registry: r, refs: map[string]*node{}}
	s := &Schema{root: c.compile(r.Schema(t, true, "Body")), typ: t, defaults: defaultsOf(t)}
	kept, _ := compiled.LoadOrStore(t, s)
	return kept.(*Schema)
}

// Of is For with the type as a parameter.
func Of[T any]() *Schema { return For(reflect.TypeFor[T]()) }
