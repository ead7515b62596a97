package sqldbtest

import (
	"testing"

	"agentd/internal/store/sqldb"
)

// Migration tests what a migration does to rows that exist already, and what
// taking it back does, on every engine: before writes rows into the schema of the
// migration before it, after looks at them once the migration has run.
func Migration(t *testing.T, number int64, before, after func(t *testing.T, db *sqldb.DB)) {
	t.Helper()
	Each(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.MigrateDown(t.Context(), number-1); err != nil {
			t.Fatal(err)
		}
		before(t, db)
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		after(t, db)
	})
}
