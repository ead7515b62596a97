package sqldb_test

import (
	"strings"
	"testing"

	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// Every index has statistics, also in connections that were open when they were
// written, and after migrations were taken back and made again.
func TestStatistics(t *testing.T) {
	t.Parallel()
	db, err := sqldb.Open(t.Context(), sqldbtest.Config(t, sqldbtest.SQLite))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 2 {
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		without, err := sqldb.Collect(db.Reader(t.Context()), `SELECT i.name FROM pragma_table_list AS t, pragma_index_list(t.name) AS i
			WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite_%'
			AND NOT EXISTS (SELECT 1 FROM sqlite_stat1 AS s WHERE s.tbl = t.name AND s.idx IN (i.name, t.name))`, nil,
			func(row sqldb.Row) (name string, err error) { return name, row.Scan(&name) })
		if err != nil || len(without) > 0 {
			t.Errorf("without statistics: %v, %v", without, err)
		}
		var id, parent, unused int64
		var plan string
		err = db.QueryRow(t.Context(), `EXPLAIN QUERY PLAN SELECT run_id FROM runs WHERE tenant_id = ? AND status = ? ORDER BY run_id LIMIT ?`, "t", "failed", 20).
			Scan(&id, &parent, &unused, &plan)
		if err != nil || !strings.Contains(plan, "runs_status") {
			t.Errorf("plan %q, %v", plan, err)
		}
		if err := db.MigrateDown(t.Context(), 49); err != nil {
			t.Fatal(err)
		}
	}
}
