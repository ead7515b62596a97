package resource

import (
	"context"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// Routes lists the operations of a kind: create 201, list, get, replace or
// merge by PUT, merge by PATCH, delete, and a POST for every move.
func Routes[T any](s *Store[T]) []route.Route {
	var all []route.Route
	item := s.Path + "/{" + s.Param + "}"
	if s.has(OpCreate) {
		all = append(all, s.createRoute())
	}
	if s.has(OpList) {
		all = append(all, s.listRoute())
	}
	if s.has(OpGet) {
		all = append(all, s.getRoute(item))
	}
	switch s.Put {
	case PutMerges:
		all = append(all, s.changeRoute("PUT", item, "update", s.update, false))
	case PutReplace:
		all = append(all, s.changeRoute("PUT", item, "replace", s.replace, true))
	}
	if s.has(OpPatch) {
		all = append(all, s.changeRoute("PATCH", item, "patch", s.update, false))
	}
	if s.has(OpDelete) {
		all = append(all, s.deleteRoute(item))
	}
	for _, m := range s.Moves {
		all = append(all, s.moveRoute(item, m))
	}
	return all
}

// row is what the operations have in common.
func (p *plan[T]) row(method, path, verb, summary string, access Access, answer reflect.Type) route.Row {
	return route.Row{
		Method: method, Path: path, ID: verb + p.Noun, Tag: p.Tag, Summary: summary,
		Scopes: access.Scopes, Role: access.Role, AnswerOf: answer,
	}
}

// itemRequest is what an operation on one resource is given.
type itemRequest struct {
	id, match string
	body      jsontext.Value
}

// onOne is an operation on one resource. What it is given is made at start
// from the kind, whose path parameter has a name of its own.
func (s *Store[T]) onOne(row route.Row, fields []reflect.StructField, do func(context.Context, authz.Caller, itemRequest) (*route.Reply, error)) route.Route {
	id := reflect.StructField{Name: "ID", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(`path:"` + s.Param + `"`)}
	return route.Route{
		Row: row, In: reflect.StructOf(append([]reflect.StructField{id}, fields...)), Out: reflect.TypeFor[*route.Reply](),
		Call: func(ctx context.Context, who authz.Caller, in any) (any, error) {
			v := reflect.ValueOf(in).Elem()
			a := itemRequest{id: v.Field(0).String()}
			if len(fields) > 0 {
				a.match = v.Field(1).String()
			}
			if len(fields) > 1 {
				a.body = v.Field(2).Bytes()
			}
			return do(ctx, who, a)
		},
	}
}

// The fields of an operation's input beside the id.
var (
	noFields  []reflect.StructField
	withMatch = []reflect.StructField{{
		Name: "Match", Type: reflect.TypeFor[string](),
		Tag: `header:"If-Match" doc:"Refuse with 412 unless this is the resource's current ETag."`,
	}}
	withBody = append(withMatch[:1:1], reflect.StructField{Name: "Body", Type: reflect.TypeFor[jsontext.Value]()})
)

// rawIn is the input of a creation.
type rawIn struct {
	Body jsontext.Value
}

func (s *Store[T]) createRoute() route.Route {
	row := s.row("POST", s.Path, "create", "Create "+s.one()+".", s.Writers, s.wire)
	row.Status, row.BodyOf = 201, s.create.typ
	if s.Unique.Of != nil {
		row.Errors = []int{409}
	}
	return route.Route{
		Row: row, In: reflect.TypeFor[rawIn](), Out: reflect.TypeFor[*route.Reply](),
		Call: func(ctx context.Context, who authz.Caller, in any) (any, error) {
			return s.CreateFrom(ctx, who, in.(*rawIn).Body)
		},
	}
}

func (s *Store[T]) listRoute() route.Route {
	row := s.row("GET", s.Path, "list", "List "+words(s.Names)+", newest first.", s.Readers, s.listing)
	row.ID = "list" + strings.TrimSuffix(s.Noun, camel(s.Name)) + camel(s.Names)
	fields := []reflect.StructField{
		{Name: "Limit", Type: reflect.TypeFor[string](), Tag: `query:"limit"`},
		{Name: "Cursor", Type: reflect.TypeFor[string](), Tag: `query:"cursor"`},
	}
	first := len(fields)
	for _, name := range s.Filters {
		ix := s.Indexes[s.slot[name]]
		fields = append(fields, reflect.StructField{
			Name: camel(name), Type: reflect.TypeFor[string](),
			Tag: reflect.StructTag(`query:"` + name + `" doc:"` + strings.ReplaceAll(ix.Doc, `"`, `'`) + `"`),
		})
	}
	return route.Route{
		Row: row, In: reflect.StructOf(fields), Out: reflect.TypeFor[*route.Reply](),
		Call: func(ctx context.Context, who authz.Caller, in any) (any, error) {
			v := reflect.ValueOf(in).Elem()
			where := make(map[string]string, len(s.Filters))
			for i, name := range s.Filters {
				where[name] = v.Field(first + i).String()
			}
			return s.Page(ctx, who.TenantID, Listing{Limit: v.Field(0).String(), Cursor: v.Field(1).String(), Where: where})
		},
	}
}

func (s *Store[T]) getRoute(item string) route.Route {
	row := s.row("GET", item, "get", "Read "+s.one()+".", s.Readers, s.wire)
	return s.onOne(row, noFields, func(ctx context.Context, who authz.Caller, a itemRequest) (*route.Reply, error) {
		return s.Show(ctx, who.TenantID, a.id)
	})
}

func (s *Store[T]) changeRoute(method, item, verb string, as published, replaces bool) route.Route {
	summary := "Change the fields of " + s.one() + " that are sent."
	if replaces {
		summary = "Replace all fields of " + s.one() + "."
	}
	row := s.row(method, item, verb, summary, s.Writers, s.wire)
	row.BodyOf, row.Partial, row.Errors = as.typ, !replaces, []int{409, 412}
	return s.onOne(row, withBody, func(ctx context.Context, who authz.Caller, a itemRequest) (*route.Reply, error) {
		return s.ChangeFrom(ctx, who, a.id, a.match, a.body, replaces)
	})
}

func (s *Store[T]) deleteRoute(item string) route.Route {
	row := s.row("DELETE", item, "delete", "Delete "+s.one()+".", s.Writers, s.deletion)
	row.Errors = []int{409, 412}
	return s.onOne(row, withMatch, func(ctx context.Context, who authz.Caller, a itemRequest) (*route.Reply, error) {
		answer := &route.Reply{JSON: []byte(`{"deleted":true,"` + s.IDField + `":"` + a.id + `"}`)}
		err := s.deps.Writer.Write(ctx, func(tx txn.Tx) error {
			if err := s.remove(tx, who, a.id, a.match); err != nil {
				return err
			}
			return txn.Answer(tx, answer)
		})
		return answer, err
	})
}

func (s *Store[T]) moveRoute(item string, m Move[T]) route.Route {
	row := s.row("POST", item+"/"+m.Action, camelLower(m.Action), m.Summary, s.Writers, s.wire)
	row.BodyOf, row.Optional, row.Errors = m.With.body, true, []int{409, 412}
	fields := withMatch
	if m.With.do != nil {
		fields = withBody
	}
	return s.onOne(row, fields, func(ctx context.Context, who authz.Caller, a itemRequest) (*route.Reply, error) {
		return s.change(ctx, who, a.id, a.match, m.Action, func(e *Edit[T]) error { return s.move(e, m, a.body) })
	})
}

// one is the kind with its article.
func (p *plan[T]) one() string {
	if strings.ContainsRune("aeio", rune(p.what[0])) {
		return "an " + p.what
	}
	return "a " + p.what
}
