package resource

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// Routes lists the operations of a kind: create 201, list, get, replace or
// merge by PUT, merge by PATCH, delete, and a POST for every move.
func Routes[T any](s *Store[T]) []route.Route {
	a := &api[T]{s}
	var all []route.Route
	item := a.Path + "/{" + a.Param + "}"
	if a.has(OpCreate) {
		all = append(all, a.createRoute())
	}
	if a.has(OpList) {
		all = append(all, a.listRoute())
	}
	if a.has(OpGet) {
		all = append(all, a.getRoute(item))
		s.register()
	}
	switch a.Put {
	case PutMerges:
		all = append(all, a.changeRoute("PUT", item, "update", a.update, false))
	case PutReplace:
		all = append(all, a.changeRoute("PUT", item, "replace", a.replace, true))
	}
	if a.has(OpPatch) {
		all = append(all, a.changeRoute("PATCH", item, "patch", a.update, false))
	}
	if a.has(OpDelete) {
		all = append(all, a.deleteRoute(item))
	}
	for _, m := range a.Moves {
		all = append(all, a.moveRoute(item, m))
	}
	return all
}

// row returns a row with what the kind's operations have in common.
func (p *plan[T]) row(method, path, verb, summary string, access Access, answer reflect.Type) route.Row {
	return route.Row{
		Method: method, Path: path, ID: verb + p.Noun, Tag: p.Tag, Summary: summary,
		Scopes: access.Scopes, Role: access.Role, AnswerOf: answer,
	}
}

// itemRequest is the input of an operation on one resource. match is If-Match, or
// If-None-Match of a read.
type itemRequest struct {
	id, match string
	body      jsontext.Value
}

// itemRoute returns the route of an operation on one resource. Its input type
// is made at start, because the path parameter's name depends on the kind.
func (a *api[T]) itemRoute(
	row route.Row, fields []reflect.StructField, do func(context.Context, authz.Caller, itemRequest) (*route.Reply, error),
) route.Route {
	id := reflect.StructField{Name: "ID", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(`path:"` + a.Param + `"`)}
	return route.Route{
		Row: row, In: reflect.StructOf(append([]reflect.StructField{id}, fields...)), Out: reflect.TypeFor[*route.Reply](),
		Call: func(ctx context.Context, who authz.Caller, in any) (any, error) {
			v := reflect.ValueOf(in).Elem()
			item := itemRequest{id: v.Field(0).String()}
			if len(fields) > 0 {
				item.match = v.Field(1).String()
			}
			if len(fields) > 1 {
				item.body = v.Field(2).Bytes()
			}
			return do(ctx, who, item)
		},
	}
}

// The fields of an operation's input beside the id.
var (
	withMatch = []reflect.StructField{{
		Name: "Match", Type: reflect.TypeFor[string](),
		Tag: `header:"If-Match" doc:"Refuse with 412 unless this is the resource's current ETag."`,
	}}
	withNoneMatch = []reflect.StructField{{
		Name: "NoneMatch", Type: reflect.TypeFor[string](),
		Tag: `header:"If-None-Match" doc:"Answer 304 without a body if this is the resource's current ETag."`,
	}}
	withBody = append(withMatch[:1:1], reflect.StructField{Name: "Body", Type: reflect.TypeFor[jsontext.Value]()})
)

// rawIn is the input of a creation.
type rawIn struct {
	Body jsontext.Value
}

func (a *api[T]) createRoute() route.Route {
	row := a.row("POST", a.Path, "create", "Create "+a.one()+".", a.Writers, a.wire)
	row.Status, row.BodyOf, row.Example = 201, a.create.typ, a.Example
	if a.Unique.Of != nil {
		row.Errors = []int{409}
	}
	if slices.ContainsFunc(a.fields, func(f field) bool { return f.Tag.Get("ref") != "" }) {
		row.Errors = append(row.Errors, 404) // of what it refers to
	}
	return route.Route{
		Row: row, In: reflect.TypeFor[rawIn](), Out: reflect.TypeFor[*route.Reply](),
		Call: func(ctx context.Context, who authz.Caller, in any) (any, error) {
			return a.createFrom(ctx, who, in.(*rawIn).Body)
		},
	}
}

const withWords = `query:"q" maxLength:"200" ` +
	`doc:"Only those whose name has words that begin so; case and accents do not matter, and 16 characters of a word count."`

// withSummary describes the parameter fields of a list, naming what a summary lacks.
func (p *plan[T]) withSummary() reflect.StructTag {
	names := make([]string, len(p.long))
	for i, f := range p.long {
		names[i] = f.name
	}
	return reflect.StructTag(`query:"fields" enum:"all,summary" default:"all" page:"-" doc:"summary: ` +
		strings.Join(names, ", ") + ` are empty, so that rows stay small."`)
}

func (a *api[T]) listRoute() route.Route {
	row := a.row("GET", a.Path, "list", "List "+words(a.Names)+", newest first.", a.Readers, a.listing)
	row.ID = "list" + strings.TrimSuffix(a.Noun, camel(a.Name)) + camel(a.Names)
	fields := []reflect.StructField{
		{Name: "Limit", Type: reflect.TypeFor[string](), Tag: `query:"limit"`},
		{Name: "Cursor", Type: reflect.TypeFor[string](), Tag: `query:"cursor"`},
	}
	if a.Label != nil {
		fields = append(fields, reflect.StructField{Name: "Words", Type: reflect.TypeFor[string](), Tag: withWords})
	}
	if len(a.long) > 0 {
		fields = append(fields, reflect.StructField{Name: "Fields", Type: reflect.TypeFor[string](), Tag: a.withSummary()})
	}
	if a.Include.of != nil {
		fields = append(fields, a.Include.param())
	}
	first := len(fields)
	for _, name := range a.Filters {
		ix := a.Indexes[a.slot[name]]
		fields = append(fields, reflect.StructField{
			Name: camel(name), Type: reflect.TypeFor[string](),
			Tag: reflect.StructTag(`query:"` + name + `" doc:"` + strings.ReplaceAll(ix.Doc, `"`, `'`) + `"`),
		})
	}
	return route.Route{
		Row: row, In: reflect.StructOf(fields), Out: reflect.TypeFor[*route.Reply](),
		Call: func(ctx context.Context, who authz.Caller, input any) (any, error) {
			v := reflect.ValueOf(input).Elem()
			where := make(map[string]string, len(a.Filters))
			for i, name := range a.Filters {
				where[name] = v.Field(first + i).String()
			}
			in := listRequest{limit: v.Field(0).String(), cursor: v.Field(1).String(), where: where}
			if a.Label != nil {
				in.words = v.FieldByName("Words").String()
			}
			if len(a.long) > 0 {
				in.summary = v.FieldByName("Fields").String() == "summary"
			}
			if a.Include.of != nil {
				in.include = v.FieldByName("Include").String() != ""
			}
			return a.page(ctx, who.TenantID, in)
		},
	}
}

func (a *api[T]) getRoute(item string) route.Route {
	row := a.row("GET", item, "get", "Read "+a.one()+".", a.Readers, a.wire)
	row.Also = []int{304}
	return a.itemRoute(row, withNoneMatch, func(ctx context.Context, who authz.Caller, in itemRequest) (*route.Reply, error) {
		return a.show(ctx, who.TenantID, in.id, in.match)
	})
}

func (a *api[T]) changeRoute(method, item, verb string, as published, replaces bool) route.Route {
	summary := "Change the fields of " + a.one() + " that are sent."
	if replaces {
		summary = "Replace all fields of " + a.one() + "."
	}
	row := a.row(method, item, verb, summary, a.Writers, a.wire)
	row.BodyOf, row.Partial, row.Errors, row.Example = as.typ, !replaces, []int{409, 412}, a.Example
	return a.itemRoute(row, withBody, func(ctx context.Context, who authz.Caller, in itemRequest) (*route.Reply, error) {
		return a.changeFrom(ctx, who, in.id, in.match, in.body, replaces)
	})
}

func (a *api[T]) deleteRoute(item string) route.Route {
	row := a.row("DELETE", item, "delete", "Delete "+a.one()+".", a.Writers, a.deletion)
	row.Errors, row.Destroys = []int{409, 412}, true
	return a.itemRoute(row, withMatch, func(ctx context.Context, who authz.Caller, in itemRequest) (*route.Reply, error) {
		answer := &route.Reply{JSON: []byte(`{"deleted":true,"` + a.IDField + `":"` + in.id + `"}`)}
		err := a.deps.Writer.Write(ctx, func(tx txn.Tx) error {
			if err := a.remove(tx, who, in.id, in.match); err != nil {
				return err
			}
			return txn.Answer(tx, answer)
		})
		return answer, err
	})
}

func (a *api[T]) moveRoute(item string, m Move[T]) route.Route {
	row := a.row("POST", item+"/"+m.Action, camelLower(m.Action), m.Summary, a.Writers, a.wire)
	row.BodyOf, row.Optional, row.Errors = m.With.body, true, []int{409, 412}
	fields := withMatch
	if m.With.do != nil {
		fields = withBody
	}
	return a.itemRoute(row, fields, func(ctx context.Context, who authz.Caller, in itemRequest) (*route.Reply, error) {
		return a.change(ctx, who, in.id, in.match, m.Action, func(e *Edit[T]) error { return a.move(e, m, in.body) })
	})
}

// one returns the kind's name with its article.
func (p *plan[T]) one() string {
	if strings.ContainsRune("aeio", rune(p.what[0])) {
		return "an " + p.what
	}
	return "a " + p.what
}
