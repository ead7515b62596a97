package sqldb

import (
	"fmt"
	"reflect"
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
// page is read without sorting. The same field usually is the query parameter of
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

// Filters are the filters of a list, in the order of the fields of F: that which
// selects the fewest rows comes first.
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

// Where returns " INDEXED BY … WHERE …" for a list of a tenant's rows: the
// conditions of the filters that are set, and their values after the tenant. The
// list walks the index of the first of them (see [DB.IndexedBy]).
func (all Filters[F]) Where(db *DB, tenant string, f *F) (string, []any) {
	and, index, args := all.conditions(f, []any{tenant})
	return db.IndexedBy(index) + ` WHERE tenant_id = ?` + and, args
}

// And returns " AND …" for a list that is not of one tenant's rows: the conditions
// of the filters that are set, and their values.
func (all Filters[F]) And(f *F) (string, []any) {
	and, _, args := all.conditions(f, nil)
	return and, args
}

func (all Filters[F]) conditions(f *F, values []any) (and, index string, args []any) {
	args = values
	v := reflect.ValueOf(f).Elem()
	for i := range all {
		one := &all[i]
		value := v.FieldByIndex(one.field)
		if value.IsZero() || one.many && value.Len() == 0 {
			continue
		}
		condition, walks := one.Condition, one.Index
		switch {
		case one.plain:
		case one.many:
			condition, args = among(condition, value, args)
			if value.Len() > 1 {
				walks = PrimaryKey // an index would have to be walked for each value, and the rows sorted
			}
		default:
			args = append(args, argument(value))
		}
		and += ` AND ` + condition
		if index == "" && walks != PrimaryKey {
			index = walks
		}
	}
	return and, index, args
}

// Select returns [Filters.Where] and what reads one page of it, by a key that is
// in the order of the list: "… AND key < ? ORDER BY key DESC LIMIT ?".
func (all Filters[F]) Select(db *DB, tenant string, f *F, key string, w page.Window) (string, []any) {
	where, args := all.Where(db, tenant, f)
	after, order := ` < ?`, ` DESC`
	if w.Ascending {
		after, order = ` > ?`, ` ASC`
	}
	if w.After != "" {
		where, args = where+` AND `+key+after, append(args, w.After)
	}
	return where + ` ORDER BY ` + key + order + ` LIMIT ?`, append(args, w.Limit)
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

// IndexedBy returns the clause behind a table's name that has SQLite walk an
// index; "" for no index and on PostgreSQL. SQLite has no statistics here, and
// prefers the primary key: it would read all rows of the tenant to find those
// that a filter selects.
func (db *DB) IndexedBy(index string) string {
	if index == "" || db.Postgres() {
		return ""
	}
	return ` INDEXED BY ` + index
}
