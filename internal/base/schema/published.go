package schema

import (
	"encoding"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
)

// AliasOf is the extension that marks a second spelling of another field. The
// document leaves such a field out.
const AliasOf = "x-alias-of"

// Order is the extension that lists the fields of an object in the order in which
// its type declares them, which is the one to show them in: properties have none.
const Order = "x-order"

// annotate adds what forms are drawn from: the tags title, group, ref (what an id
// refers to) and advanced, and the tag alias of a second spelling.
func annotate(p *huma.Schema, f reflect.StructField) {
	if p.Ref == "" { // the title would replace that of the type
		p.Title = f.Tag.Get("title")
	}
	for tag, extension := range map[string]string{"group": "x-group", "ref": "x-ref", "alias": AliasOf} {
		if value := f.Tag.Get(tag); value != "" {
			extend(p, extension, value)
		}
	}
	if f.Tag.Get("advanced") == "true" {
		extend(p, "x-advanced", true)
	}
}

func extend(s *huma.Schema, name string, value any) {
	if s.Extensions == nil {
		s.Extensions = map[string]any{}
	}
	s.Extensions[name] = value
}

var marshalers = []reflect.Type{
	reflect.TypeFor[json.MarshalerTo](), reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](),
}

// Sent returns the names of the fields that every JSON object of a type has when it
// is sent: those without omitzero or omitempty. It returns nil for a type that
// writes itself.
func Sent(t reflect.Type) []string {
	if t.Kind() != reflect.Struct || slices.ContainsFunc(marshalers, func(m reflect.Type) bool {
		return t.Implements(m) || reflect.PointerTo(t).Implements(m)
	}) {
		return nil
	}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		name, omitted := jsonName(f)
		_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || omitted && f.Tag.Get("required") != "true" || strings.Contains(options, "embed") || viaPointer(t, f.Index) {
			continue
		}
		names = append(names, name)
	}
	return names
}

// viaPointer reports whether a promoted field is behind an embedded pointer, which
// may be nil.
func viaPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		f := t.Field(i)
		if f.Type.Kind() == reflect.Pointer {
			return true
		}
		t = f.Type
	}
	return false
}
