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

// Schema is the schema of a type. It is compiled when it is first used: of several
// hundred operations most servers answer few. It is safe for concurrent use.
type Schema struct {
	typ  reflect.Type
	plan func() *plan
}

// plan is what a schema is compiled to. It is immutable.
type plan struct {
	root     *node
	defaults []fieldDefault
}

var schemas sync.Map // reflect.Type -> *Schema

// For returns the schema of a type, of which there is one. Using it panics if the
// tags of the type are not a valid schema: a bug that [CompileAll] finds.
func For(t reflect.Type) *Schema {
	if s, ok := schemas.Load(t); ok {
		return s.(*Schema)
	}
	kept, _ := schemas.LoadOrStore(t, &Schema{typ: t, plan: sync.OnceValue(func() *plan { return compile(t) })})
	return kept.(*Schema)
}

// Of is For with the type as a parameter.
func Of[T any]() *Schema { return For(reflect.TypeFor[T]()) }

func compile(t reflect.Type) *plan {
	r := NewRegistry()
	c := compiler{registry: r, refs: map[string]*node{}}
	return &plan{root: c.compile(r.Schema(t, true, "Body")), defaults: defaultsOf(t)}
}

// CompileAll compiles the schemas that were asked for, for tests. It panics where one
// is invalid.
func CompileAll() (count int) {
	schemas.Range(func(_, s any) bool {
		s.(*Schema).plan()
		count++
		return true
	})
	texts.Range(func(_, t any) bool {
		t.(*Text).node()
		count++
		return true
	})
	return count
}
