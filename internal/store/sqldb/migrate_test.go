package sqldb_test

import (
	"errors"
	"sync"
	"testing"

	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// eachEmpty runs a subtest with a way to open an empty database, on every engine.
func eachEmpty(t *testing.T, test func(t *testing.T, open func() *sqldb.DB)) {
	t.Helper()
	for _, engine := range sqldbtest.Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			cfg := sqldbtest.Config(t, engine)
			test(t, func() *sqldb.DB {
				db, err := sqldb.Open(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { db.Close() })
				return db
			})
		})
	}
}

func isVersion(t *testing.T, db *sqldb.DB, want int64) {
	t.Helper()
	if v, err := db.Version(t.Context()); err != nil || v != want {
		t.Fatalf("version %d, %v; want %d", v, err, want)
	}
}

func TestMigrateUpDownUp(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, open func() *sqldb.DB) {
		db := open()
		isVersion(t, db, 0)
		for range 2 {
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			isVersion(t, db, sqldb.Latest())
			if err := db.MigrateDown(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			isVersion(t, db, 0)
		}
	})
}

func TestMigrateAtTheSameMoment(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, open func() *sqldb.DB) {
		var wg sync.WaitGroup
		for range 4 {
			db := open()
			wg.Go(func() {
				if err := db.Migrate(t.Context()); err != nil {
					t.Error(err)
				}
				isVersion(t, db, sqldb.Latest())
			})
		}
		wg.Wait()
	})
}

func TestMigrateRefusesANewerDatabase(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, open func() *sqldb.DB) {
		db := open()
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		exec(t, db, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, ?)", sqldb.Latest()+1, true)
		if err := db.Migrate(t.Context()); !errors.Is(err, sqldb.ErrNewer) {
			t.Error(err)
		}
	})
}
