package sqldb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// Migration 26 adds the key to the counters of usage: what was counted before
// keeps its numbers, and has no key.
func TestMigrationOfUsageCounters(t *testing.T) {
	t.Parallel()
	before := func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		err := db.Write(t.Context(), func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec(`INSERT INTO usage_counters (tenant_id, period, agent_id, model, source,
				runs, model_calls, input_tokens, output_tokens, thinking_tokens, tool_calls, cost_nano)
				VALUES ('t', '2026-09', 'a', 'm', 'run', 1, 2, 3, 4, 5, 6, 7)`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sqldbtest.Migration(t, 26, before, func(t *testing.T, db *sqldb.DB) {
		var key string
		var runs, cost int64
		err := db.QueryRow(t.Context(), `SELECT key_id, runs, cost_nano FROM usage_counters WHERE tenant_id = 't'`).Scan(&key, &runs, &cost)
		if err != nil || key != "" || runs != 1 || cost != 7 {
			t.Errorf("key %q, %d runs, cost %d, %v", key, runs, cost, err)
		}
	})
}

// Migration 52 copies the tables with long rows: every row, column, index and
// trigger is there afterwards, and when it is taken back.
func TestMigrationOfLongRows(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("an answer of many words ", 200)
	definitions := func(t *testing.T, db *sqldb.DB) []string {
		t.Helper()
		if db.Postgres() {
			return nil
		}
		all, err := sqldb.Collect(db.Reader(t.Context()), `SELECT name FROM sqlite_master WHERE tbl_name NOT LIKE 'sqlite_%' ORDER BY name`, nil,
			func(row sqldb.Row) (name string, err error) { return name, row.Scan(&name) })
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	var had []string
	before := func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		if !db.Postgres() {
			had = definitions(t, db)
		}
		exec(t, db, `CREATE INDEX documents_of_a_later_migration ON documents (tenant_id, version)`)
		for i := range 200 {
			exec(t, db, `INSERT INTO run_steps (tenant_id, run_id, seq, step_id, type, status, started_at, completed_at, duration_us, output, tool_calls, made_by)
				VALUES ('t', ?, 1, 's', 'llm', 'completed', 1, 2, 3, ?, '[]', 'r')`, fmt.Sprint(199-i), long)
		}
		exec(t, db, `INSERT INTO documents (kind, tenant_id, id, version, created_at, updated_at, body, ix1) VALUES ('thing', 't', 'a', 1, 2, 3, ?, 'x')`, long)
	}
	sqldbtest.Migration(t, 52, before, func(t *testing.T, db *sqldb.DB) {
		check := func(rowid bool) {
			t.Helper()
			var n, bytes int
			if err := db.QueryRow(t.Context(), `SELECT COUNT(*), SUM(LENGTH(output)) FROM run_steps WHERE made_by = 'r'`).Scan(&n, &bytes); err != nil || n != 200 || bytes != 200*len(long) {
				t.Errorf("%d steps of %d bytes, %v", n, bytes, err)
			}
			var body string
			if err := db.QueryRow(t.Context(), `SELECT body FROM documents WHERE kind = 'thing' AND tenant_id = 't' AND ix1 = 'x'`).Scan(&body); err != nil || body != long {
				t.Errorf("a document of %d bytes, %v", len(body), err)
			}
			if db.Postgres() {
				return
			}
			var without bool
			if err := db.QueryRow(t.Context(), `SELECT wr FROM pragma_table_list WHERE name = 'run_steps'`).Scan(&without); err != nil || without == rowid {
				t.Errorf("without rowid: %t, %v", without, err)
			}
		}
		check(true)
		exec(t, db, `DROP INDEX documents_of_a_later_migration`)
		if err := db.MigrateDown(t.Context(), 51); err != nil {
			t.Fatal(err)
		}
		check(false)
		if got := definitions(t, db); !db.Postgres() && !cmp.Equal(got, had) {
			t.Errorf("after the migration was taken back: %s", cmp.Diff(had, got))
		}
	})
}

// Migrations 71 to 73 let documents that are there be found by the words of their
// names, and documents of before 73 keep being found when it is taken back.
func TestMigrationOfDocumentWords(t *testing.T) {
	t.Parallel()
	const documents = 450 // pages of 200
	before := func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		for i := range documents {
			exec(t, db, `INSERT INTO documents (kind, tenant_id, id, version, created_at, updated_at, body) VALUES ('agent', 't', ?, 1, 1, 1, ?)`,
				fmt.Sprintf("%04d", i), fmt.Sprintf(`{"name":"Größe %d","system":"x"}`, i))
		}
		exec(t, db, `INSERT INTO documents (kind, tenant_id, id, version, created_at, updated_at, body)
			VALUES ('annotation', 't', 'a', 1, 1, 1, '{"name":"Größe"}'), ('customer', 't', 'c', 1, 1, 1, '{}')`)
	}
	sqldbtest.Migration(t, 71, before, func(t *testing.T, db *sqldb.DB) {
		check := func(column string, want map[string]int) {
			t.Helper()
			for word, want := range want {
				var n int
				err := db.QueryRow(t.Context(), `SELECT COUNT(*) FROM document_words WHERE tenant_id = 't' AND `+column+` = ?`, word).Scan(&n)
				if err != nil || n != want {
					t.Errorf("%d documents have %q, want %d; %v", n, word, want, err)
				}
			}
		}
		check("begin", map[string]int{"gro": documents, "g": documents, "gr": 0, "grosse": documents, "größe": 0, "449": 1, "44": 0})
		check("words", map[string]int{" grosse 7": 3 + 1, " grosse 449": 3 + 2})
		var words string
		if err := db.QueryRow(t.Context(), `SELECT words FROM documents WHERE kind = 'agent' AND id = '0007'`).Scan(&words); err != nil || words != " grosse 7" {
			t.Errorf("a document has the words %q, %v", words, err)
		}
		if err := db.MigrateDown(t.Context(), 72); err != nil {
			t.Fatal(err)
		}
		check("word", map[string]int{"grosse": documents, "gr": documents, "größe": 0, "449": 1, "44": 11})
	})
}
