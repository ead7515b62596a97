package schema

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"
)

// Prefix is the path of published schemas in an OpenAPI document.
const Prefix = "#/components/schemas/"

// Registry collects published schemas. It is huma's, with our rules for
// required, nullable and additional members.
type Registry struct {
	huma.Registry
	adapted map[string]bool
}

// NewRegistry returns an empty registry. A type is published under the name in
// the tag of its blank field (_ struct{} `json:"-" name:"Agent"`), else under
// its own, prefixed with its package's name if that is taken already.
func NewRegistry() *Registry {
	owners := map[string]reflect.Type{}
	namer := func(t reflect.Type, hint string) string {
		name := huma.DefaultSchemaNamer(t, hint)
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return name
		}
		if f, ok := t.FieldByName("_"); ok && f.Tag.Get("name") != "" {
			return f.Tag.Get("name")
		}
		if t.Name() == "" {
			return name
		}
		if owner, taken := owners[name]; taken && owner != t {
			pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
			name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
		}
		owners[name] = t
		return name
	}
	r := huma.NewMapRegistry(Prefix, namer)
	r.RegisterTypeAlias(reflect.TypeFor[jsontext.Value](), reflect.TypeFor[Any]())
	return &Registry{Registry: r, adapted: map[string]bool{}}
}

// Schema implements huma.Registry.
func (r *Registry) Schema(t reflect.Type, allowRef bool, hint string) *huma.Schema {
	s := r.Registry.Schema(t, allowRef, hint)
	plain(s)
	for name, component := range r.Map() {
		if !r.adapted[name] {
			r.adapted[name] = true
			if t := r.TypeFromRef(Prefix + name); t != nil { // nil: added by hand
				adapt(component, t)
			}
		}
	}
	return s
}

// adapt applies our rules for required, nullable and closed in place of huma's.
func adapt(s *huma.Schema, t reflect.Type) {
	s.Required = nil
	var order []string
	if s.AdditionalProperties == false && !closed(t) {
		s.AdditionalProperties = nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, omitted := jsonName(f)
		p := s.Properties[name]
		if p == nil {
			continue
		}
		order = append(order, name)
		if f.Tag.Get("required") == "true" {
			s.Required = append(s.Required, name)
		}
		annotate(p, f)
		declared := p.Nullable && p.Type == huma.TypeObject // by Nullable itself
		plain(p)
		if p.Nullable = declared || nullable(f, omitted); p.Nullable {
			s.Properties[name] = orNull(p)
		}
	}
	if order != nil {
		extend(s, Order, order)
	}
}

// orNull spells out what huma's Nullable cannot express: null beside a reference
// or an enumeration.
func orNull(p *huma.Schema) *huma.Schema {
	switch {
	case p.Ref != "":
		doc := p.Description
		p.Description, p.Nullable = "", false
		return &huma.Schema{Description: doc, AnyOf: []*huma.Schema{p, {Type: "null"}}}
	case p.Type == "":
		p.Nullable = false // anything includes null
	case p.Enum != nil:
		p.Enum = append(p.Enum, nil)
	}
	return p
}

// plain makes arrays not nullable again, at every depth below a field.
func plain(s *huma.Schema) {
	if s == nil {
		return
	}
	if s.Type == huma.TypeArray {
		s.Nullable = false
		plain(s.Items)
	}
	if elem, ok := s.AdditionalProperties.(*huma.Schema); ok {
		plain(elem)
	}
}

func nullable(f reflect.StructField, omitted bool) bool {
	if tag := f.Tag.Get("nullable"); tag != "" {
		return tag == "true"
	}
	return f.Type.Kind() == reflect.Pointer && !omitted
}

func closed(t reflect.Type) bool {
	f, ok := t.FieldByName("_")
	return ok && f.Tag.Get("additionalProperties") == "false"
}

// jsonName returns a field's name in JSON, "" if it has none, and whether it is
// left out when it is zero.
func jsonName(f reflect.StructField) (name string, omitted bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case !f.IsExported(), name == "-", name == "" && f.Anonymous:
		return "", false
	case name == "":
		name = f.Name
	}
	return name, strings.Contains(options, "omitzero") || strings.Contains(options, "omitempty")
}
