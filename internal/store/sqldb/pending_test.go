package sqldb_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

func TestPending(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, open func() *sqldb.DB) {
		db := open()
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := sqldb.ListPending(t.Context(), db); err != nil || len(got) != 0 {
			t.Fatalf("%v, %v", got, err)
		}
		if err := db.MigrateDown(t.Context(), 220); err != nil {
			t.Fatal(err)
		}
		got, err := sqldb.ListPending(t.Context(), db)
		if err != nil || len(got) < 2 || got[0].Number != 230 || got[0].Name != "privacy" {
			t.Fatalf("%v, %v", got, err)
		}
		for _, does := range []string{"makes an index of missions", "adds the column legal_hold of tenants", "changes rows of tenants"} {
			if !slices.Contains(got[0].Does, does) {
				t.Errorf("%q is missing in %q", does, got[0].Does)
			}
		}
		if !slices.Contains(got[0].Waits, "tenants") {
			t.Errorf("only %v wait", got[0].Waits)
		}
	})
}

// Every migration is described, also those to come.
func TestEveryMigrationIsDescribed(t *testing.T) {
	t.Parallel()
	for _, postgres := range []bool{false, true} {
		for _, p := range sqldb.Described(t, postgres) {
			if p.Name == "" || len(p.Does) == 0 {
				t.Errorf("migration %d %s: nothing is said of what it does", p.Number, p.Name)
			}
		}
	}
}

// A database that a later program has migrated is refused, also where the number of
// the migration is not the highest.
func TestNewerDatabasesAreRefused(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, open func() *sqldb.DB) {
		db := open()
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := db.Write(t.Context(), func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (777, TRUE)`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.Migrate(t.Context()); !errors.Is(err, sqldb.ErrNewer) || !strings.Contains(err.Error(), "the migration 777") {
			t.Errorf("it was migrated: %v", err)
		}
		if _, err := sqldb.ListPending(t.Context(), db); !errors.Is(err, sqldb.ErrNewer) {
			t.Errorf("pending: %v", err)
		}
	})
}
