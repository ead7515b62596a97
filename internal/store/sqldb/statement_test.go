package sqldb_test

import (
	"slices"
	"testing"

	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestStatementsFromColumns(t *testing.T) {
	t.Parallel()
	const columns = `a, b,
		c`
	for name, c := range map[string]struct{ got, want string }{
		"insert":   {sqldb.Insert("t", "a, b"), "INSERT INTO t (a, b) VALUES (?, ?)"},
		"one":      {sqldb.Values("a"), "(?)"},
		"values":   {sqldb.Values(columns), "(?, ?, ?)"},
		"assign":   {sqldb.Assign(columns), "a = ?, b = ?, c = ?"},
		"excluded": {sqldb.Excluded(columns), "a = excluded.a, b = excluded.b, c = excluded.c"},
		"qualify":  {sqldb.Qualify("x", columns), "x.a, x.b, x.c"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
}

func TestWhere(t *testing.T) {
	t.Parallel()
	type filter struct{ a, b string }
	filters := []sqldb.Filter[filter]{
		{Condition: "a = ?", Value: func(f *filter) string { return f.a }},
		{Condition: "b >= ?", Index: "t_b", Value: func(f *filter) string { return f.b }},
	}
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, c := range []struct {
			filter      filter
			index, text string
			args        []any
		}{
			{filter{}, "", " WHERE tenant_id = ?", []any{"t"}},
			{filter{a: "x"}, "", " WHERE tenant_id = ? AND a = ?", []any{"t", "x"}},
			{filter{"x", "y"}, " INDEXED BY t_b", " WHERE tenant_id = ? AND a = ? AND b >= ?", []any{"t", "x", "y"}},
		} {
			if db.Postgres() {
				c.index = ""
			}
			text, args := sqldb.Where(db, "t", filters, &c.filter)
			if text != c.index+c.text || !slices.Equal(args, c.args) {
				t.Errorf("%+v: %q %v", c.filter, text, args)
			}
		}
	})
}
