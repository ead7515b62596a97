package sqldb_test

import (
	osexec "os/exec"
	"regexp"
	"strings"
	"testing"

	"agentd/internal/goldentest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// The text of a schema is what its migrations make, and makes the same.
func TestSchemas(t *testing.T) {
	t.Parallel()
	for _, engine := range sqldbtest.Engines {
		for name, migrate := range map[string]func(*sqldb.DB) error{
			"each migration": func(db *sqldb.DB) error { return sqldb.MigrateSteps(t.Context(), db) },
			"at once":        func(db *sqldb.DB) error { return db.Migrate(t.Context()) },
		} {
			t.Run(string(engine)+" "+name, func(t *testing.T) {
				t.Parallel()
				cfg := sqldbtest.Config(t, engine)
				db, err := sqldb.Open(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				if err := migrate(db); err != nil {
					t.Fatal(err)
				}
				isVersion(t, db, sqldb.Latest())
				text := sqliteSchema
				if engine == sqldbtest.Postgres {
					text = postgresSchema
				}
				goldentest.Check(t, "schema/"+string(engine)+".sql", []byte(sqldb.SchemaTitle()+"\n"+text(t, db, cfg.URL)))
			})
		}
	}
}

// sqliteSchema returns what creates the objects of a database. The table of the
// planner's statistics is made by ANALYZE alone, those of a virtual table with it.
func sqliteSchema(t *testing.T, db *sqldb.DB, _ string) string {
	rows, err := db.Query(t.Context(), `SELECT sql FROM sqlite_master
		WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND tbl_name <> 'goose_db_version'
		AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow')
		ORDER BY type <> 'table', type, name`)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := sqldb.ScanStrings(rows)
	if err != nil {
		t.Fatal(err)
	}
	return "\n" + strings.Join(texts, ";\n\n") + ";\n\nANALYZE search_marks;\n"
}

var (
	// What pg_dump says about itself and its session.
	session = regexp.MustCompile(`(?m)^(--.*|SET .*|SELECT pg_catalog\.set_config.*|\\.*)\n`)
	gaps    = regexp.MustCompile(`\n{3,}`)
)

// postgresSchema returns what pg_dump writes, without the schema's name, which is the
// operator's.
func postgresSchema(t *testing.T, _ *sqldb.DB, url string) string {
	out, err := osexec.Command(sqldbtest.Binary(t, "pg_dump"), "--schema-only", "--no-owner", "--no-privileges",
		"--exclude-table=goose_db_version*", url).Output()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(session.ReplaceAllString(string(out), ""), "public.", "")
	return "\n" + strings.TrimSpace(gaps.ReplaceAllString(text, "\n\n")) + "\n"
}
