package sqldb_test

import (
	"testing"

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
