package sqldb

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

// schemas has, for each engine, what the migrations make of an empty database, as
// one text: dozens of migrations take a fifth of a second, one text a tenth of it.
// A test writes them from the migrations; make golden runs it.
//
//go:embed schema/*.sql
var schemas embed.FS

// create makes the schema of an empty database from its text. It reports false, and
// does nothing, where the database is not empty, or the text is from before a
// migration that this program has.
func (db *DB) create(ctx context.Context, pool *sql.DB) (created bool, err error) {
	text, current, err := db.schemaText()
	if err != nil || !current {
		return false, err
	}
	objects := `SELECT COUNT(*) FROM sqlite_master`
	if db.Postgres() {
		objects = `SELECT COUNT(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace`
	}
	if n, err := countRows(ctx, pool, objects); err != nil || n > 0 {
		return false, err
	}
	versions, err := database.NewStore(db.schema.dialect, goose.DefaultTablename)
	if err != nil {
		return false, err
	}
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return false, fmt.Errorf("sqldb: make the schema: %w", err)
	}
	if err := versions.CreateVersionTable(ctx, tx); err != nil {
		return false, err
	}
	for _, n := range slices.Sorted(slices.Values(append(numbers(), 0))) { // goose begins with 0
		if err := versions.Insert(ctx, tx, database.InsertRequest{Version: n}); err != nil {
			return false, err
		}
	}
	return true, tx.Commit()
}

// schemaText returns the text of the schema, and reports whether it has every
// migration of this program.
func (db *DB) schemaText() (text string, current bool, err error) {
	name := "schema/sqlite.sql"
	if db.Postgres() {
		name = "schema/postgres.sql"
	}
	file, err := schemas.ReadFile(name)
	if err != nil {
		return "", false, err
	}
	first, text, _ := strings.Cut(string(file), "\n")
	return text, first == schemaTitle(), nil
}

// schemaTitle is the first line of a schema's text, which names its migrations.
func schemaTitle() string {
	return "-- Made from the migrations " + strings.Trim(fmt.Sprint(slices.Sorted(slices.Values(numbers()))), "[]") + "."
}
