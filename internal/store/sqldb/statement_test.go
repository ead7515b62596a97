package sqldb_test

import (
	"testing"

	"agentd/internal/store/sqldb"
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
