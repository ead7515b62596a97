package sqldb

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/page"
)

// PrimaryKey is the index of a filter without an index of its own: the list is
// read in its order, and the rows that the filter excludes are skipped.
const PrimaryKey = "primary key"

// Filter is one filter of a list. It is a field of a struct, with tags:
//
//	AgentID string   `filter:"agent_id = ?" index:"runs_agent"`
//	Status  []string `filter:"status IN (?)" index:"runs_status"`
//	Since   Time     `filter:"created_at >= ?" index:"primary key"`
//
// The index has the tenant, the column and then the order of the list, so that a
// page is read without sorting. The planners choose it by what they know of the
// columns (see statistics.go); test/plans checks that they do. The same field usually is the query parameter of
// the list too, and has its tags: see package route.
//
// A field that has its zero value does not narrow the list. It is a string, a
// number, a bool, a [time.Time], a pointer to one of these (which also narrows
// to zero), or a slice of strings or numbers, whose condition is "column IN (?)".
type Filter struct {
	Name      string // of the field
	Condition string // with one placeholder, or none for a bool that narrows when it is true
	Index     string // PrimaryKey, or the name of an index

	field []int
	many  bool // a slice
	plain bool // the condition has no placeholder
}

// Filters are the filters of a list, in the order of the fields of F.
type Filters[F any] []Filter

// FiltersOf reads the filters of a list from the tags of F. It panics if a tag is
// wrong: a bug that shows at start.
func FiltersOf[F any]() Filters[F] {
	var all Filters[F]
	for _, f := range reflect.VisibleFields(reflect.TypeFor[F]()) {
		condition, ok := f.Tag.Lookup("filter")
		if !ok {
			continue
		}
		one := Filter{Name: f.Name, Condition: condition, Index: f.Tag.Get("index"), field: f.Index, many: f.Type.Kind() == reflect.Slice}
		switch {
		case one.Index == "":
			panic(fmt.Sprintf("sqldb: the filter %s of %T has no tag index", f.Name, *new(F)))
		case strings.Count(condition, "?") != 1 && f.Type.Kind() != reflect.Bool, one.many != strings.HasSuffix(condition, " IN (?)"):
			panic(fmt.Sprintf("sqldb: the condition of the filter %s of %T needs one placeholder, a slice's ends in IN (?)", f.Name, *new(F)))
		}
		one.plain = !strings.Contains(condition, "?")
		argument(reflect.New(f.Type).Elem()) // panics for a type that cannot be compared
		all = append(all, one)
	}
	return all
}

// indexed reports whether a filter is set that has an index of its own.
func (all Filters[F]) indexed(f *F) bool {
	v := reflect.ValueOf(f).Elem()
	return slices.ContainsFunc(all, func(one Filter) bool {
		value := v.FieldByIndex(one.field)
		return one.Index != PrimaryKey && !value.IsZero() && (!one.many || value.Len() > 0)
	})
}

// Where returns " WHERE …" for a list of a tenant's rows: the conditions of the
// filters that are set, and their values after the tenant.
func (all Filters[F]) Where(tenant string, f *F) (string, []any) {
	and, args := all.conditions(f, []any{tenant}, nil, 0)
	return ` WHERE tenant_id = ?` + and, args
}

// And returns " AND …" for a list that is not of one tenant's rows: the conditions
// of the filters that are set, and their values.
func (all Filters[F]) And(f *F) (string, []any) {
	return all.conditions(f, nil, nil, 0)
}

// conditions extends args by the values of the filters that are set. The slice of
// one filter, single, is narrowed to one of its values.
func (all Filters[F]) conditions(f *F, args []any, single *Filter, nth int) (string, []any) {
	var and strings.Builder
	v := reflect.ValueOf(f).Elem()
	for i := range all {
		one := &all[i]
		value, condition := v.FieldByIndex(one.field), one.Condition
		switch {
		case value.IsZero() || one.many && value.Len() == 0:
			continue
		case one.plain:
		case one == single:
			condition, args = strings.TrimSuffix(condition, ` IN (?)`)+` = ?`, append(args, argument(value.Index(nth)))
		case one.many:
			condition, args = among(condition, value, args)
		default:
			args = append(args, argument(value))
		}
		and.WriteString(` AND ` + condition)
	}
	return and.String(), args
}

// several returns the first filter with an index that is set to more than one
// value, and how many these are.
func (all Filters[F]) several(f *F) (*Filter, int) {
	v := reflect.ValueOf(f).Elem()
	for i := range all {
		if one := &all[i]; one.many && one.Index != PrimaryKey && v.FieldByIndex(one.field).Len() > 1 {
			return one, v.FieldByIndex(one.field).Len()
		}
	}
	return nil, 1
}

// Select returns what follows "SELECT … FROM table" for one page of a list, and its
// arguments: " WHERE … AND key < ? ORDER BY key DESC LIMIT ?". The key is in the
// order of the list: an id, or "created_at, id" with a [page.Moment] as position.
//
// An index has the rows of one value in the order of the list. For several values
// the first rows of each are read, and the page is made of these.
func (all Filters[F]) Select(table, tenant string, f *F, key string, w page.Window) (string, []any) {
	return all.selectAlso("", nil, table, tenant, f, key, w)
}

// selectAlso is Select with one more condition, " AND …", and its values.
func (all Filters[F]) selectAlso(also string, values []any, table, tenant string, f *F, key string, w page.Window) (string, []any) {
	after, order, position := window(key, w)
	single, n := all.several(f)
	var args []any
	var texts []string
	for nth := range n {
		var and string
		and, args = all.conditions(f, append(args, tenant), single, nth)
		args = append(append(append(args, values...), position...), w.Limit)
		texts = append(texts, ` WHERE tenant_id = ?`+and+also+after+order)
	}
	if n == 1 {
		return texts[0], args
	}
	id := key[strings.LastIndexByte(key, ' ')+1:]
	text := ` WHERE tenant_id = ? AND ` + id + ` IN (` + UnionOf(table, id, texts) + `)` + order
	return text, append(append([]any{tenant}, args...), w.Limit)
}

// window returns the condition of what comes after a position, the order with
// its limit, and the values of the position.
func window(key string, w page.Window) (after, order string, position []any) {
	sign, direction := ` < `, ` DESC`
	if w.Ascending {
		sign, direction = ` > `, ` ASC`
	}
	order = ` ORDER BY ` + strings.ReplaceAll(key, `,`, direction+`,`) + direction + ` LIMIT ?`
	if w.After == "" {
		return "", order, nil
	}
	if !strings.Contains(key, `,`) {
		return ` AND ` + key + sign + `?`, order, []any{w.After}
	}
	at, id := page.Moment(w.After).Parts()
	return ` AND (` + key + `)` + sign + `(?, ?)`, order, []any{Micros(at), id}
}

// UnionOf returns "SELECT … UNION ALL SELECT …" of a column of a table, where each
// text, " WHERE … LIMIT ?", selects some rows of it.
func UnionOf(table, column string, texts []string) string {
	arms := make([]string, len(texts))
	for i, text := range texts {
		arms[i] = fmt.Sprintf(`SELECT %s FROM (SELECT %s FROM %s%s) AS arm_%d`, column, column, table, text, i)
	}
	return strings.Join(arms, ` UNION ALL `)
}

// among extends a condition and its arguments by the values of a slice.
func among(condition string, values reflect.Value, args []any) (string, []any) {
	for i := range values.Len() {
		args = append(args, argument(values.Index(i)))
	}
	return strings.Replace(condition, `?`, `?`+strings.Repeat(`, ?`, values.Len()-1), 1), args
}

// argument returns a value as statements take it.
func argument(v reflect.Value) any {
	if at, ok := reflect.TypeAssert[time.Time](v); ok {
		return Micros(at)
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Float64:
		return v.Float()
	case reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(v.Type().Elem())
		}
		return argument(v.Elem())
	case reflect.Slice:
		return argument(reflect.New(v.Type().Elem()).Elem())
	}
	panic("sqldb: a list cannot be filtered by a value of type " + v.Type().String())
}
