package memory_test

import (
	"testing"

	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// TestMigrationOfWords: entries of before are found by their tags and names; guardrails
// of before have their phase.
func TestMigrationOfWords(t *testing.T) {
	t.Parallel()
	before := func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		err := db.Write(t.Context(), func(tx txn.Tx) error {
			for _, statement := range []string{
				`INSERT INTO passages (tenant_id, collection_id, passage_id, source_id, position, kind, text, boost, at, version, vector_model)
					VALUES ('t', 'a', 'tagged', '', 0, 'note', 'tea', 0.5, 0, 1, ''), ('t', 'a', 'plain', '', 0, 'note', 'milk', 0.5, 0, 1, '')`,
				`INSERT INTO memory_entries (tenant_id, agent_id, entry_id, tags, source_run_id, content_hash, entity_key, entity_name,
						entity_type, run_outcome, metadata, access_count, accessed_at, created_at)
					VALUES ('t', 'a', 'tagged', '["drink"]', '', 'h', 'ada', 'Ada', '', '', '{}', 0, 0, 0),
						('t', 'a', 'plain', '[]', '', 'i', '', '', '', '', '{}', 0, 0, 0)`,
				`INSERT INTO documents (kind, tenant_id, id, version, created_at, updated_at, body) VALUES
					('guardrail', 't', 'g', 1, 0, 0, '{"name":"g","stage":"tool","config":{"b":1,"a":1.50}}'),
					('guardrail', 't', 'w', 1, 0, 0, '{"name":"w","stage":"both","phase":"both"}')`,
			} {
				if _, err := sqldb.From(tx).Exec(statement); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sqldbtest.Migration(t, 68, before, func(t *testing.T, db *sqldb.DB) {
		for query, want := range map[string]string{
			`SELECT words FROM passages WHERE passage_id = 'tagged'`: `Ada ["drink"]`,
			`SELECT words FROM passages WHERE passage_id = 'plain'`:  ``,
			`SELECT body FROM documents WHERE id = 'g'`:              `{"name":"g","stage":"tool","config":{"b":1,"a":1.50},"phase":"tool"}`,
			`SELECT body FROM documents WHERE id = 'w'`:              `{"name":"w","stage":"both","phase":"both"}`,
		} {
			var got string
			if err := db.QueryRow(t.Context(), query).Scan(&got); err != nil || got != want {
				t.Errorf("%s: %q, %v; want %q", query, got, err, want)
			}
		}
	})
}
