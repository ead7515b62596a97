package sqldb_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/page"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

type state string

type owner struct {
	Owner string `filter:"owner_id <> '' AND owner_id = ?" index:"things_owner"`
}

type thingFilter struct {
	owner

	States []state   `filter:"state IN (?)" index:"things_state"`
	Least  float64   `filter:"cost >= ?" index:"primary key"`
	Size   *int64    `filter:"size = ?" index:"things_size"`
	Open   bool      `filter:"closed_at = 0" index:"things_open"`
	Hidden *bool     `filter:"hidden = ?" index:"primary key"`
	Before time.Time `filter:"created_at < ?" index:"primary key"`
	Note   string    // no filter
}

func TestFilters(t *testing.T) {
	t.Parallel()
	filters := sqldb.FiltersOf[thingFilter]()
	zero, no := int64(0), false
	for name, c := range map[string]struct {
		filter thingFilter
		and    string
		args   []any
	}{
		"none":         {thingFilter{Note: "x", States: []state{}}, "", nil},
		"text":         {thingFilter{owner: owner{"o"}}, " AND owner_id <> '' AND owner_id = ?", []any{"o"}},
		"one_of_one":   {thingFilter{States: []state{"a"}}, " AND state IN (?)", []any{"a"}},
		"at_least":     {thingFilter{Least: 0.5}, " AND cost >= ?", []any{0.5}},
		"sent_as_zero": {thingFilter{Size: &zero, Hidden: &no}, " AND size = ? AND hidden = ?", []any{int64(0), false}},
		"plain":        {thingFilter{Open: true}, " AND closed_at = 0", nil},
		"time":         {thingFilter{Before: time.UnixMicro(7)}, " AND created_at < ?", []any{int64(7)}},
		"several_filters": {
			thingFilter{owner: owner{"o"}, States: []state{"a"}, Least: 1},
			" AND owner_id <> '' AND owner_id = ? AND state IN (?) AND cost >= ?", []any{"o", "a", 1.0},
		},
	} {
		if and, args := filters.And(&c.filter); and != c.and || !cmp.Equal(args, c.args) {
			t.Errorf("%s: And: %q %v", name, and, args)
		}
		where := " WHERE tenant_id = ?" + c.and
		args := append([]any{"t"}, c.args...)
		if text, got := filters.Where("t", &c.filter); text != where || !cmp.Equal(got, args) {
			t.Errorf("%s: Where: %q %v, want %q %v", name, text, got, where, args)
		}
		text, got := filters.Select("things", "t", &c.filter, "id", page.Window{Limit: 3})
		if text != where+" ORDER BY id DESC LIMIT ?" || !cmp.Equal(got, append(args, 3)) {
			t.Errorf("%s: Select: %q %v", name, text, got)
		}
		text, got = filters.Select("things", "t", &c.filter, "id", page.Window{Limit: 3, After: "x", Ascending: true})
		if text != where+" AND id > ? ORDER BY id ASC LIMIT ?" || !cmp.Equal(got, append(args, "x", 3)) {
			t.Errorf("%s: Select: %q %v", name, text, got)
		}
	}
}

// A page of several values is made of the first rows of each.
func TestFilterOfSeveralValues(t *testing.T) {
	t.Parallel()
	filters := sqldb.FiltersOf[thingFilter]()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, "CREATE TABLE things (tenant_id TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL, cost DOUBLE PRECISION NOT NULL, PRIMARY KEY (tenant_id, id))")
		for i := range 30 {
			exec(t, db, "INSERT INTO things VALUES (?, ?, ?, ?)", "t", fmt.Sprintf("%02d", i), string("abc"[i%3]), float64(i))
			exec(t, db, "INSERT INTO things VALUES (?, ?, ?, ?)", "other", fmt.Sprintf("%02d", i), "a", 100.0)
		}
		for _, c := range []struct {
			filter thingFilter
			window page.Window
			want   []string
		}{
			{thingFilter{States: []state{"a", "b"}}, page.Window{Limit: 3}, []string{"28", "27", "25"}},
			{thingFilter{States: []state{"a", "b"}}, page.Window{Limit: 3, After: "25"}, []string{"24", "22", "21"}},
			{thingFilter{States: []state{"a", "b"}}, page.Window{Limit: 3, After: "03", Ascending: true}, []string{"04", "06", "07"}},
			{thingFilter{States: []state{"c", "none"}, Least: 26}, page.Window{Limit: 9}, []string{"29", "26"}},
			{thingFilter{States: []state{"a", "a", "b", "c"}}, page.Window{Limit: 2}, []string{"29", "28"}},
		} {
			text, args := filters.Select("things", "t", &c.filter, "id", c.window)
			got, err := sqldb.Collect(db.Reader(t.Context()), "SELECT id FROM things"+text, args, func(row sqldb.Row) (id string, err error) {
				return id, row.Scan(&id)
			})
			if !cmp.Equal(got, c.want) {
				t.Errorf("%+v %+v: %v, %v; want %v", c.filter, c.window, got, err, c.want)
			}
		}
	})
}

func TestWrongFiltersPanic(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(){
		"no_index": func() {
			sqldb.FiltersOf[struct {
				A string `filter:"a = ?"`
			}]()
		},
		"no_placeholder": func() {
			sqldb.FiltersOf[struct {
				A string `filter:"a" index:"i"`
			}]()
		},
		"slice_without_in": func() {
			sqldb.FiltersOf[struct {
				A []string `filter:"a = ?" index:"i"`
			}]()
		},
		"in_without_slice": func() {
			sqldb.FiltersOf[struct {
				A string `filter:"a IN (?)" index:"i"`
			}]()
		},
		"type": func() {
			sqldb.FiltersOf[struct {
				A map[string]string `filter:"a = ?" index:"i"`
			}]()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("it is accepted")
				}
			}()
			read()
		})
	}
}
