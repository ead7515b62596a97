package agent_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// TestMigrationOfFields: an agent of before has the members that were added to
// agents, as a new agent has them, and loses nothing.
func TestMigrationOfFields(t *testing.T) {
	t.Parallel()
	before := func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		err := db.Write(t.Context(), func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec(`INSERT INTO documents (kind, tenant_id, id, version, created_at, updated_at, body)
				VALUES ('agent', 't', 'a', 1, 0, 0, '{"name":"Zoë","metadata":{"b":1,"a":2}}'), ('guardrail', 't', 'g', 1, 0, 0, '{"name":"g"}')`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sqldbtest.Migration(t, 44, before, func(t *testing.T, db *sqldb.DB) {
		var body, other string
		if err := db.QueryRow(t.Context(), `SELECT body FROM documents WHERE id = 'a'`).Scan(&body); err != nil {
			t.Fatal(err)
		}
		var got map[string]jsontext.Value
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		want := map[string]string{"name": `"Zoë"`, "metadata": `{"b":1,"a":2}`}
		for _, added := range []string{
			"auto_approve_tools", "tool_overrides", "autonomy", "knowledge_base_ids", "visibility", "public_config", "access_control",
			"command_relationships", "specs", "bridge",
		} {
			want[added] = samples.Defaults[added]
		}
		shown := map[string]string{}
		for name, value := range got {
			shown[name] = string(value)
		}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Errorf("an agent of before (-want +got):\n%s", diff)
		}
		if err := db.QueryRow(t.Context(), `SELECT body FROM documents WHERE id = 'g'`).Scan(&other); err != nil || other != `{"name":"g"}` {
			t.Errorf("another kind's document is %s, %v", other, err)
		}
	})
}
