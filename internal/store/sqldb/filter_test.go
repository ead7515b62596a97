package sqldb_test

import (
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
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for name, c := range map[string]struct {
			filter     thingFilter
			index, and string
			args       []any
		}{
			"none":           {thingFilter{Note: "x", States: []state{}}, "", "", nil},
			"text":           {thingFilter{owner: owner{"o"}}, "things_owner", " AND owner_id <> '' AND owner_id = ?", []any{"o"}},
			"one_of_one":     {thingFilter{States: []state{"a"}}, "things_state", " AND state IN (?)", []any{"a"}},
			"one_of_several": {thingFilter{States: []state{"a", "b", "c"}}, "", " AND state IN (?, ?, ?)", []any{"a", "b", "c"}},
			"at_least":       {thingFilter{Least: 0.5}, "", " AND cost >= ?", []any{0.5}},
			"zero_that_was_sent": {
				thingFilter{Size: &zero, Hidden: &no}, "things_size", " AND size = ? AND hidden = ?", []any{int64(0), false},
			},
			"without_value": {thingFilter{Open: true}, "things_open", " AND closed_at = 0", nil},
			"time":          {thingFilter{Before: time.UnixMicro(7)}, "", " AND created_at < ?", []any{int64(7)}},
			"first_index_wins": {
				thingFilter{owner: owner{"o"}, States: []state{"a"}, Least: 1}, "things_owner",
				" AND owner_id <> '' AND owner_id = ? AND state IN (?) AND cost >= ?", []any{"o", "a", 1.0},
			},
		} {
			if and, args := filters.And(&c.filter); and != c.and || !cmp.Equal(args, c.args) {
				t.Errorf("%s: And: %q %v", name, and, args)
			}
			index := ""
			if c.index != "" && !db.Postgres() {
				index = " INDEXED BY " + c.index
			}
			where := index + " WHERE tenant_id = ?" + c.and
			args := append([]any{"t"}, c.args...)
			if text, got := filters.Where(db, "t", &c.filter); text != where || !cmp.Equal(got, args) {
				t.Errorf("%s: Where: %q %v, want %q %v", name, text, got, where, args)
			}
			text, got := filters.Select(db, "t", &c.filter, "id", page.Window{Limit: 3})
			if text != where+" ORDER BY id DESC LIMIT ?" || !cmp.Equal(got, append(args, 3)) {
				t.Errorf("%s: Select: %q %v", name, text, got)
			}
			text, got = filters.Select(db, "t", &c.filter, "id", page.Window{Limit: 3, After: "x", Ascending: true})
			if text != where+" AND id > ? ORDER BY id ASC LIMIT ?" || !cmp.Equal(got, append(args, "x", 3)) {
				t.Errorf("%s: Select: %q %v", name, text, got)
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
