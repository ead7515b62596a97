package resource

import (
	"reflect"
	"strings"

	"agentd/internal/base/schema"
)

// published is a type made for its schema, which states what a body may hold.
type published struct {
	typ    reflect.Type
	schema *schema.Schema
}

// publish derives the types that the OpenAPI document shows and that bodies
// are checked against.
func (p *plan[T]) publish() {
	body := func(name string, required bool, keep func(field) bool) published {
		var fields []reflect.StructField
		for _, f := range p.fields {
			if !keep(f) {
				continue
			}
			tag := f.Tag
			if !required {
				tag = reflect.StructTag(strings.ReplaceAll(string(tag), `required:"true"`, ""))
			}
			fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: tag})
		}
		t := named(name, fields...)
		return published{t, schema.For(t)}
	}
	p.create = body(p.Noun+"Create", true, func(f field) bool { return !f.readOnly })
	p.replace = body(p.Noun+"Replace", true, func(f field) bool { return !f.readOnly && !f.immutable })
	p.update = body(p.Noun+"Update", false, func(f field) bool { return !f.readOnly && !f.immutable })

	str, boolean := reflect.TypeFor[string](), reflect.TypeFor[bool]()
	all := []reflect.StructField{
		{Name: "WireID", Type: str, Tag: reflect.StructTag(`json:"` + p.IDField + `" required:"true" format:"uuid" readOnly:"true"`)},
		{Name: "WireTenantID", Type: str, Tag: `json:"tenant_id" required:"true" readOnly:"true"`},
	}
	for _, f := range p.fields {
		tag := f.Tag
		if !f.required && !strings.Contains(tag.Get("json"), ",omit") {
			tag += ` required:"true"` // an answer always has it
		}
		all = append(all, reflect.StructField{Name: f.Name, Type: f.Type, Tag: tag})
	}
	if p.Include.of != nil {
		all = append(all, p.Include.field())
	}
	all = append(all,
		reflect.StructField{Name: "WireCreatedAt", Type: str, Tag: `json:"created_at" required:"true" format:"date-time" readOnly:"true"`},
		reflect.StructField{Name: "WireUpdatedAt", Type: str, Tag: `json:"updated_at" required:"true" format:"date-time" readOnly:"true"`})
	p.wire = named(p.Noun, all...)

	items := []reflect.StructField{{Name: "Items", Type: reflect.SliceOf(p.wire), Tag: `json:"items" required:"true"`}}
	for _, key := range p.Keys {
		items = append(items, reflect.StructField{
			Name: camel(key), Type: reflect.SliceOf(p.wire),
			Tag: reflect.StructTag(`json:"` + key + `" deprecated:"true" doc:"The same as items, under its older name."`),
		})
	}
	items = append(items,
		reflect.StructField{
			Name: "Cursor", Type: reflect.PointerTo(str),
			Tag: `json:"cursor" required:"true" doc:"Send it back to get the next page; null on the last one."`,
		},
		reflect.StructField{Name: "HasMore", Type: boolean, Tag: `json:"has_more" required:"true"`})
	if p.Counted {
		items = append(items, reflect.StructField{
			Name: "Total", Type: reflect.TypeFor[int64](),
			Tag: `json:"total,omitzero" doc:"How many there are on all pages. Left out with filters other than status."`,
		})
	}
	p.listing = named(p.Noun+"List", items...)

	p.deletion = named(p.Noun+"Deleted",
		reflect.StructField{Name: "Deleted", Type: boolean, Tag: `json:"deleted" required:"true"`},
		reflect.StructField{Name: "WireID", Type: str, Tag: reflect.StructTag(`json:"` + p.IDField + `" required:"true"`)})
}

// named returns a struct type that is published under a name. Types made at
// start have no name of their own, so a blank field carries it, which
// schema.Registry reads.
func named(name string, fields ...reflect.StructField) reflect.Type {
	blank := reflect.StructField{
		Name: "_", PkgPath: reflect.TypeFor[Meta]().PkgPath(), Type: reflect.TypeFor[struct{}](),
		Tag: reflect.StructTag(`json:"-" name:"` + name + `"`),
	}
	return reflect.StructOf(append([]reflect.StructField{blank}, fields...))
}
