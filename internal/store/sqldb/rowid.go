package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"

	"github.com/pressly/goose/v3"
)

// rowidVersion is the number of the migration that gives tables with long rows a
// rowid on SQLite. It is written in Go, since it copies whatever columns, indexes
// and triggers the tables have.
//
// A table without rowid is a b-tree of whole rows, of each of which at most about
// a quarter of a page stays in the tree: the rest of a row above 1,000 bytes is in
// overflow pages of its own, 4 KiB at a time. See docs/adr/0057.
const rowidVersion = 52

// longRows are the tables whose rows have texts of people and models.
var longRows = []string{
	"runs", "run_steps", "run_events", "documents", "approvals", "sessions", "responses", "idempotency", "memory_blocks",
}

// goMigrations returns the migrations that are not SQL files.
func (db *DB) goMigrations() []*goose.Migration {
	up := &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error { return db.rewrite(ctx, tx, withRowid) }}
	down := &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error { return db.rewrite(ctx, tx, withoutRowid) }}
	words := &goose.GoFunc{RunTx: db.addWords}
	noWords := &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM document_words`)
		return err
	}}
	return []*goose.Migration{
		goose.NewGoMigration(rowidVersion, up, down),
		goose.NewGoMigration(documentWordsVersion, words, noWords),
		goose.NewGoMigration(fewDocumentWordsVersion, &goose.GoFunc{RunTx: db.fewWords}, &goose.GoFunc{RunTx: db.everyWord}),
	}
}

var (
	endOfTable  = regexp.MustCompile(`\)\s*(WITHOUT ROWID)?\s*$`)
	createTable = regexp.MustCompile(`^CREATE TABLE "?\w+"?`)
)

func withRowid(table string) string    { return endOfTable.ReplaceAllString(table, ")") }
func withoutRowid(table string) string { return endOfTable.ReplaceAllString(table, ") WITHOUT ROWID") }

// rewrite copies each table of long rows into one whose definition is changed.
func (db *DB) rewrite(ctx context.Context, tx *sql.Tx, change func(definition string) string) error {
	if db.Postgres() {
		return nil
	}
	for _, table := range longRows {
		var definition string
		err := tx.QueryRowContext(ctx, `SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?`, table).Scan(&definition)
		if err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
		rest, err := definitionsOf(ctx, tx, table)
		if err != nil {
			return err
		}
		// The columns have no definition that depends on the name of the table.
		for _, text := range slices.Concat([]string{
			createTable.ReplaceAllString(change(definition), `CREATE TABLE copied`),
			`INSERT INTO copied SELECT * FROM ` + table, //nolint:unqueryvet // whole rows, in the order of the key
			`DROP TABLE ` + table,
			`ALTER TABLE copied RENAME TO ` + table,
		}, rest) {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("%s: %w", table, err)
			}
		}
	}
	return nil
}

// definitionsOf returns what creates the indexes and triggers of a table.
func definitionsOf(ctx context.Context, tx *sql.Tx, table string) ([]string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT sql FROM sqlite_master
		WHERE tbl_name = ? AND type IN ('index', 'trigger') AND sql IS NOT NULL ORDER BY rowid`, table)
	if err != nil {
		return nil, err
	}
	return ScanStrings(rows)
}
