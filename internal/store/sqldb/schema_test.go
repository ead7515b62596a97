package sqldb_test

import (
	"context"
	osexec "os/exec"
	"regexp"
	"slices"
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
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			// In this order, so that -update leaves what the migrations make.
			for _, way := range []struct {
				name    string
				migrate func(context.Context, *sqldb.DB) error
			}{
				{"at once", func(ctx context.Context, db *sqldb.DB) error { return db.Migrate(ctx) }},
				{"each migration", sqldb.MigrateSteps},
			} {
				t.Run(way.name, func(t *testing.T) {
					goldentest.Check(t, "schema/"+string(engine)+".sql", schemaBy(t, engine, way.migrate))
				})
			}
		})
	}
}

// schemaBy returns the text of the schema of an empty database that is migrated.
func schemaBy(t *testing.T, engine sqldbtest.Engine, migrate func(context.Context, *sqldb.DB) error) []byte {
	t.Helper()
	cfg := sqldbtest.Config(t, engine)
	db, err := sqldb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	isVersion(t, db, sqldb.Latest())
	text := sqliteSchema
	if engine == sqldbtest.Postgres {
		text = postgresSchema
	}
	return []byte(sqldb.SchemaTitle() + "\n" + text(t, db, cfg.URL))
}

// sqliteSchema returns what creates the objects of a database. The table of the
// planner's statistics is made by ANALYZE alone, those of a virtual table with it.
func sqliteSchema(t *testing.T, db *sqldb.DB, _ string) string {
	rows, err := db.Query(t.Context(), `SELECT sql FROM sqlite_master
		WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND tbl_name <> 'goose_db_version'
		AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow')
		ORDER BY type <> 'table', rowid`)
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
func postgresSchema(t *testing.T, db *sqldb.DB, url string) string {
	out, err := osexec.Command(sqldbtest.Binary(t, "pg_dump"), "--schema-only", "--no-owner", "--no-privileges",
		"--exclude-table=goose_db_version*", url).Output()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(session.ReplaceAllString(string(out), ""), "public.", "")
	blocks := strings.Split(strings.TrimSpace(gaps.ReplaceAllString(text, "\n\n")), "\n\n")
	sortIndexes(t, db, blocks)
	return "\n" + strings.Join(blocks, "\n\n") + "\n"
}

var createIndex = regexp.MustCompile(`^CREATE (?:UNIQUE )?INDEX (\w+) ON `)

// sortIndexes puts the indexes, which pg_dump sorts by name, in the order in which they
// were made: of two that cost the same, the planner takes the one that was made later.
func sortIndexes(t *testing.T, db *sqldb.DB, blocks []string) {
	rows, err := db.Query(t.Context(), `SELECT relname FROM pg_class WHERE relkind = 'i' ORDER BY oid`)
	if err != nil {
		t.Fatal(err)
	}
	made, err := sqldb.ScanStrings(rows)
	if err != nil {
		t.Fatal(err)
	}
	place := func(block string) int {
		if match := createIndex.FindStringSubmatch(block); match != nil {
			return slices.Index(made, match[1])
		}
		return -1
	}
	first := slices.IndexFunc(blocks, createIndex.MatchString)
	n := 0
	for first+n < len(blocks) && createIndex.MatchString(blocks[first+n]) {
		n++
	}
	slices.SortStableFunc(blocks[first:first+n], func(a, b string) int { return place(a) - place(b) })
}
