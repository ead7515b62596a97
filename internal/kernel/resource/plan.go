package resource

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"agentd/internal/base/schema"
)

// plan is a Kind prepared at start: the fields of T, found by reflection, and
// the types and schemas that follow from them.
type plan[T any] struct {
	Kind[T]
	what     string // Name as it is written in a sentence
	fields   []field
	byName   map[string]*field
	sealed   []*field // the secret ones
	long     []*field // those that a summary leaves empty
	slot     map[string]int
	create   published
	replace  published
	update   published
	wire     reflect.Type
	listing  reflect.Type
	deletion reflect.Type
}

// field is a top-level field of T on the wire.
type field struct {
	reflect.StructField
	name                               string
	readOnly, immutable, merge, secret bool
	long                               bool
	required, nullable                 bool
	defaultTag                         string
}

// compile checks a kind and fills in its defaults. It panics if the kind
// contradicts itself, so that such a program does not start.
func compile[T any](k Kind[T]) *plan[T] {
	k.Names = cmp.Or(k.Names, k.Name+"s")
	k.Noun = cmp.Or(k.Noun, camel(k.Name))
	k.IDField = cmp.Or(k.IDField, k.Name+"_id")
	k.Param = cmp.Or(k.Param, camelLower(k.Name)+"Id")
	k.PageSize = cmp.Or(k.PageSize, 20)
	k.MaxPageSize = cmp.Or(k.MaxPageSize, 100)
	p := &plan[T]{
		Kind: k, what: words(k.Name),
		byName: map[string]*field{}, slot: map[string]int{},
	}
	p.scan()
	for i, ix := range k.Indexes {
		p.slot[ix.Name] = i
	}
	p.check()
	p.publish()
	return p
}

// scan finds the fields of T, those of embedded structs included.
func (p *plan[T]) scan() {
	t := reflect.TypeFor[T]()
	meta, ok := t.FieldByName("Meta")
	if !ok || meta.Type != reflect.TypeFor[Meta]() || meta.Tag.Get("json") != "-" {
		p.fail("%s does not embed resource.Meta with the tag json:\"-\"", t)
	}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous || f.Index[0] == meta.Index[0] || name == "-" || options == "inline" {
			continue
		}
		tag := func(key string) bool { v := f.Tag.Get(key); return v == "true" || v == "1" }
		p.fields = append(p.fields, field{
			StructField: f, name: name,
			readOnly: tag("readOnly"), immutable: tag("immutable"), merge: tag("merge"), secret: tag("secret"), long: tag("long"),
			required: tag("required"), nullable: tag("nullable"), defaultTag: f.Tag.Get("default"),
		})
	}
	for i := range p.fields {
		f := &p.fields[i]
		p.byName[f.name] = f
		if f.secret {
			p.sealed = append(p.sealed, f)
		}
		if f.long {
			p.long = append(p.long, f)
		}
	}
}

func (p *plan[T]) check() {
	if len(p.Indexes) > Slots {
		p.fail("more than %d indexes", Slots)
	}
	for _, f := range p.fields {
		switch {
		case f.name == "" || f.name == p.IDField || f.name == "tenant_id" || f.name == "created_at" || f.name == "updated_at":
			p.fail("the field %s has no JSON name of its own", f.Name)
		case f.secret && f.Type.Kind() != reflect.String:
			p.fail("the secret %s is no string", f.Name)
		}
	}
	for _, name := range p.Filters {
		if _, ok := p.slot[name]; !ok {
			p.fail("the filter %s is no index", name)
		}
	}
	if len(p.Moves) > 0 && p.State == nil {
		p.fail("moves without a state")
	}
	p.checkEvents()
}

func (p *plan[T]) fail(format string, args ...any) {
	panic("resource: kind " + p.Name + ": " + fmt.Sprintf(format, args...))
}

// blank returns a new resource with the kind's defaults.
func (p *plan[T]) blank() *T {
	t := new(T)
	v := reflect.ValueOf(t).Elem()
	for i := range p.fields {
		if f := &p.fields[i]; f.defaultTag != "" {
			if err := schema.SetScalar(v.FieldByIndex(f.Index), f.defaultTag); err != nil {
				p.fail("default of %s: %v", f.Name, err)
			}
		}
	}
	if p.Default != nil {
		p.Default(t)
	}
	return t
}

// at returns a field of t, to read or to set.
func (f *field) at(t any) reflect.Value { return reflect.ValueOf(t).Elem().FieldByIndex(f.Index) }

// words returns "file share" for file_share.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// camel returns FileShare for file_share, camelLower fileShare.
func camel(snake string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(snake, "_") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

func camelLower(snake string) string {
	c := camel(snake)
	return strings.ToLower(c[:1]) + c[1:]
}
