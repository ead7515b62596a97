package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

func TestUpgradeCheck(t *testing.T) {
	t.Parallel()
	for _, engine := range sqldbtest.Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			cfg := sqldbtest.Migrated(t, engine)
			db, err := sqldb.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			s := shell{env: map[string]string{"AGENTD_DATABASE_URL": cfg.URL, "AGENTD_DATA_DIR": cfg.Dir}}
			if cfg.Dir == "" {
				s.env["AGENTD_DATA_DIR"] = "/nowhere"
			}
			s.run("upgrade", "check").want(t, exitOK, "This program is 1.2.3 and needs version", "\nGo.\n")
			node := worksql.Node{Name: "n1", BootID: "b", Place: worksql.Place{Host: "h", Path: "/d"}, Version: "1.2.2", Role: "all"}
			if _, _, err := worksql.NewNodes(db, clock.System{}).Take(t.Context(), node, "-"); err != nil {
				t.Fatal(err)
			}
			s.run("admin", "nodes").want(t, exitOK, "NODE", "n1", "1.2.2", "all")
			s.run("upgrade", "check").want(t, exitOK, "1 node of 1.2.2 is running; nodes can be replaced one by one.")

			if err := db.MigrateDown(t.Context(), 220); err != nil {
				t.Fatal(err)
			}
			s.run("upgrade", "check").want(t, exitOK, "Migration 230 (privacy):", "  adds the column legal_hold of tenants",
				"stop all nodes before the migration", "\nGo.\n")
			s.run("upgrade", "check", "--json").want(t, exitOK, `"go": true`, `"number": 230`)
			if v, err := db.Version(t.Context()); err != nil || v != 220 {
				t.Errorf("the check has migrated to %d, %v", v, err)
			}
			s.env["AGENTD_LISTEM"] = "x"
			s.run("upgrade", "check").want(t, exitFailure, "Problem: the variable AGENTD_LISTEM is no setting", "do not upgrade yet: 1 problem above")
			delete(s.env, "AGENTD_LISTEM")
			addMigration(t.Context(), t, db, 99_999)
			s.run("upgrade", "check").want(t, exitFailure, "made by a newer agentd", "99999")
			s.run("admin", "tenant", "list").want(t, exitFailure, "made by a newer agentd")
			s.run("migrate").want(t, exitFailure, "made by a newer agentd")
		})
	}
	shell{env: map[string]string{"AGENTD_DATA_DIR": t.TempDir()}}.run("upgrade", "check").want(t, exitUsage, "it cannot be told", "there is no database")
}

// addMigration makes a database look as if a later program had migrated it.
func addMigration(ctx context.Context, t *testing.T, db *sqldb.DB, number int) {
	t.Helper()
	if err := db.Write(ctx, func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, TRUE)`, number)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := sqldb.ListPending(ctx, db); !errors.Is(err, sqldb.ErrNewer) || !strings.Contains(err.Error(), "newer") {
		t.Fatal(err)
	}
}
