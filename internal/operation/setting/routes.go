package setting

import (
	"context"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

// Operation returns the row of an operation of the operator's. Writes need a browser session
// that was verified lately.
func Operation(method, path, id, summary, doc string, errors ...int) route.Row {
	return route.Row{
		Method: method, Path: "/api/v1/admin" + path, ID: id, Tag: "Admin", Summary: summary, Doc: doc,
		Scopes: []authz.Scope{authz.SuperScope}, Role: authz.Admin, Operator: true, Fresh: method != "GET", Errors: errors,
	}
}

// Published is how the operations of a section are described.
type Published[T any] struct {
	Name         string // of the section
	GetID, PutID string // operation ids
	What         string // for summaries: the prices of models
	Doc          string // of both operations
	Example      string // a body that succeeds
	// Patch is the type of PUT's body, where members of T can be null in it; nil: T.
	Patch reflect.Type
	// Shown returns the effective value of a stored one; nil: the same.
	Shown func(*T) T
}

type sectionIn struct {
	Body jsontext.Value
}

// Routes returns the operations of a section: GET answers its effective value, PUT takes
// the same document and merges it (RFC 7396).
func Routes[T any](s *Section[T], p Published[T]) []route.Route {
	path := "/config/" + p.Name
	shown := func(value *T) T {
		if p.Shown != nil {
			return p.Shown(value)
		}
		return *value
	}
	get := Operation("GET", path, p.GetID, "Get "+p.What, p.Doc)
	put := Operation("PUT", path, p.PutID, "Update "+p.What,
		p.Doc+" The body is merged: objects member by member, null resets a member, arrays are replaced. "+
			"A change acts on every node within two seconds.")
	put.BodyOf, put.Partial, put.Example = reflect.TypeFor[T](), true, p.Example
	if p.Patch != nil {
		put.BodyOf = p.Patch
	}
	return []route.Route{
		route.Action(get, func(context.Context, authz.Caller, *struct{}) (T, error) { return shown(s.Get()), nil }),
		route.Action(put, func(ctx context.Context, who authz.Caller, in *sectionIn) (out T, err error) {
			err = s.Update(ctx, who, func(value *T) error { return s.Merge(value, in.Body) }, func(value *T) any {
				out = shown(value)
				return out
			})
			return out, err
		}),
	}
}

// Merge applies a merge patch (RFC 7396) to a value of the section. A member that is null
// in the patch becomes what it is where nothing is set: the program's configuration, or
// nothing. Members of members are removed by null. Errors: fault.Malformed, fault.Invalid.
func (s *Section[T]) Merge(value *T, patch jsontext.Value) error {
	now, err := json.Marshal(value, revealed)
	if err != nil {
		return err
	}
	initial, err := json.Marshal(s.Initial, revealed)
	if err != nil {
		return err
	}
	merged, err := merge(now, patch, initial)
	if err != nil {
		return err
	}
	next, err := schema.Decode[T](merged)
	if err != nil {
		return err
	}
	*value = *next
	return nil
}

// merge applies a merge patch, by which members that are null become those of initial.
func merge(object, patch, initial jsontext.Value) (jsontext.Value, error) {
	if patch.Kind() != '{' {
		return patch, nil
	}
	into, err := members(object)
	if err != nil {
		return nil, err
	}
	reset, err := members(initial)
	if err != nil {
		return nil, err
	}
	changes, err := schema.Members(patch)
	if err != nil {
		return nil, err
	}
	for _, m := range changes {
		if m.Value.Kind() == 'n' {
			delete(into, m.Name)
			if value, ok := reset[m.Name]; ok {
				into[m.Name] = value
			}
			continue
		}
		if into[m.Name], err = merge(into[m.Name], m.Value, nil); err != nil {
			return nil, err
		}
	}
	return json.Marshal(into, json.Deterministic(true))
}

// members returns those of an object; none where it is something else.
func members(object jsontext.Value) (map[string]jsontext.Value, error) {
	into := map[string]jsontext.Value{}
	if object.Kind() == '{' {
		if err := json.Unmarshal(object, &into); err != nil {
			return nil, err
		}
	}
	return into, nil
}
