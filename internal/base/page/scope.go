package page

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// Scope is what a cursor is bound to. Lists get theirs from [ScopeOf].
type Scope struct {
	Tenant string
	List   string
	// Filter is whatever determines which rows the list has and how they are
	// ordered.
	Filter []string
}

// ScopeOf returns the scope of a list, whose input is a struct or a pointer to
// one, as package route describes it. The scope covers each path and query
// parameter that is set, except limit, cursor and those with the tag page:"-":
// an alias of limit, or one that changes what is shown of a row.
//
// A parameter with its zero value, or with the value of its default tag, is not
// set. So a filter that is added to an input is in the scope from then on, and
// the cursors that were issued before it remain valid. Two spellings of one
// value are different: a list that accepts several normalizes its input first.
func ScopeOf(tenant, list string, in any) Scope {
	v := reflect.ValueOf(in)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	s := Scope{Tenant: tenant, List: list}
	for _, p := range parametersOf(v.Type()) {
		if field, err := v.FieldByIndexErr(p.index); err == nil { // an error: it is in an embedded struct that is nil
			s.Filter = p.appendTo(s.Filter, field)
		}
	}
	return s
}

// With returns the scope narrowed by something that is not in the input, such as
// the state that the rows belong to.
func (s Scope) With(name, value string) Scope {
	s.Filter = append(slices.Clip(s.Filter), name+"="+value)
	return s
}

// parameter is a field of an input that selects or orders rows.
type parameter struct {
	name     string
	index    []int
	unsetAt  string // the value that is the same as none
	zeroIsOn bool   // the zero value is not the default
}

// parameters holds a []parameter, sorted by name, for each reflect.Type.
var parameters sync.Map

func parametersOf(t reflect.Type) []parameter {
	if found, ok := parameters.Load(t); ok {
		return found.([]parameter)
	}
	var all []parameter
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("query")
		if name == "" {
			name = f.Tag.Get("path")
		}
		if name == "" || name == "limit" || name == "cursor" || f.Anonymous || !f.IsExported() || f.Tag.Get("page") == "-" {
			continue
		}
		def := f.Tag.Get("default")
		all = append(all, parameter{name: name, index: f.Index, unsetAt: def, zeroIsOn: def != "" && f.Type.Kind() != reflect.String})
	}
	slices.SortFunc(all, func(a, b parameter) int { return strings.Compare(a.name, b.name) })
	found, _ := parameters.LoadOrStore(t, all)
	return found.([]parameter)
}

// appendTo adds name=value to a filter, for a list once for each of its values.
func (p *parameter) appendTo(filter []string, v reflect.Value) []string {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			filter = append(filter, p.name+"="+text(v.Index(i)))
		}
		return filter
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			filter = append(filter, p.name+"["+key.String()+"]="+text(v.MapIndex(key)))
		}
		return filter
	case reflect.Pointer:
		if v.IsNil() {
			return filter
		}
		v = v.Elem() // that it is sent makes it set, whatever the value is
	default:
		if v.IsZero() && !p.zeroIsOn {
			return filter
		}
	}
	if value := text(v); p.unsetAt == "" || value != p.unsetAt {
		filter = append(filter, p.name+"="+value)
	}
	return filter
}

func text(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return v.String()
	}
	if at, ok := reflect.TypeAssert[time.Time](v); ok {
		return at.Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v.Interface())
}
