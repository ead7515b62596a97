package sqldb_test

import (
	"testing"

	"agentd/internal/store/sqldb/sqldbtest"
)

// BenchmarkLimit compares a limit that is a parameter with one that stands in
// the text: both are planned once.
func BenchmarkLimit(b *testing.B) {
	db := sqldbtest.Open(b, sqldbtest.SQLite)
	const query = `SELECT work_key FROM work WHERE kind = ? ORDER BY due_at LIMIT `
	for name, c := range map[string]struct {
		query string
		args  []any
	}{
		"parameter": {query + `?`, []any{"x", 10}},
		"text":      {query + `10`, []any{"x"}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				rows, err := db.Query(b.Context(), c.query, c.args...)
				if err != nil {
					b.Fatal(err)
				}
				if err := rows.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
