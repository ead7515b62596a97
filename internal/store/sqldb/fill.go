package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
)

// Filler puts rows into an empty database.
type Filler struct {
	conn     *sql.Conn
	postgres bool
	tables   []Table
}

// ErrNotEmpty says that a database that was to be filled has rows.
var ErrNotEmpty = errors.New("the database is not empty")

// commitRows is how many rows are committed together where the file is not in its place
// yet.
const commitRows = 20_000

// Unfinished is the directory, in that of the database, in which SQLite's file is
// filled.
const Unfinished = "restore.partial"

// Fill makes a database with these migrations and calls do to fill it. If do fails, or
// the process is killed, the database is as before: on SQLite the file appears when it
// is complete, on PostgreSQL everything is one transaction, before which the tables
// are made. A database that has rows is refused with ErrNotEmpty.
func Fill(ctx context.Context, cfg Config, versions []int64, do func(*Filler) error) error {
	if cfg.URL == "" {
		return fillFile(ctx, cfg, versions, do)
	}
	db, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.fill(ctx, versions, do)
}

// fillFile fills a file beside its place and moves it there.
func fillFile(ctx context.Context, cfg Config, versions []int64, do func(*Filler) error) error {
	if Exists(cfg.Dir) {
		return fmt.Errorf("%w: %s", ErrNotEmpty, filepath.Join(cfg.Dir, fileName))
	}
	release, err := LockDir(cfg.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = release() }() // the process's end releases it too
	final, draft := cfg.Dir, filepath.Join(cfg.Dir, Unfinished)
	if err := os.RemoveAll(draft); err != nil { // of a process that was killed
		return err
	}
	defer func() { _ = os.RemoveAll(draft) }() // the next restoration removes it otherwise
	cfg.Dir = draft
	db, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	if err := errors.Join(db.fill(ctx, versions, do), db.Close()); err != nil {
		return err
	}
	path := filepath.Join(draft, fileName)
	if err := syncPath(path); err != nil {
		return err
	}
	// Whatever the log still has would be left behind.
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		return fmt.Errorf("sqldb: %s was not written back", path+"-wal")
	}
	if Exists(final) {
		return fmt.Errorf("%w: %s appeared meanwhile", ErrNotEmpty, filepath.Join(final, fileName))
	}
	if err := os.Rename(path, filepath.Join(final, fileName)); err != nil {
		return err
	}
	return syncPath(final)
}

// syncPath makes a file, or the entries of a directory, survive a power cut.
func syncPath(path string) error {
	if runtime.GOOS == "windows" {
		return nil // where what was opened for reading cannot be synced
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (db *DB) fill(ctx context.Context, versions []int64, do func(*Filler) error) (err error) {
	if err := db.migrateToSet(ctx, versions); err != nil {
		return err
	}
	pool := db.schema.open()
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	f := &Filler{conn: conn, postgres: db.Postgres()}
	if f.tables, err = tablesOf(ctx, conn, f.postgres); err != nil {
		return err
	}
	if err := f.begin(ctx); err != nil {
		return err
	}
	if err := f.refuseRows(ctx); err != nil {
		return err
	}
	if err := do(f); err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`) // the end of the connection is one too
		return err
	}
	return f.commit(ctx)
}

// begin keeps everybody else out.
func (f *Filler) begin(ctx context.Context) error {
	start := []string{`PRAGMA synchronous = OFF`, `PRAGMA foreign_keys = OFF`, `BEGIN IMMEDIATE`}
	if f.postgres {
		var names []string
		for _, t := range f.tables {
			names = append(names, t.Name)
		}
		start = []string{`BEGIN`, `LOCK TABLE ` + strings.Join(names, `, `) + ` IN ACCESS EXCLUSIVE MODE`}
	}
	return f.run(ctx, start...)
}

func (f *Filler) run(ctx context.Context, all ...string) error {
	for _, text := range all {
		if _, err := f.conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (f *Filler) refuseRows(ctx context.Context) error {
	for _, t := range f.tables {
		var has bool
		if err := f.conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM `+t.Name+`)`).Scan(&has); err != nil {
			return err
		}
		if has {
			return fmt.Errorf("%w: there are rows in the table %s", ErrNotEmpty, t.Name)
		}
	}
	return nil
}

func (f *Filler) commit(ctx context.Context) error {
	if f.postgres {
		return f.run(ctx, `COMMIT`)
	}
	if err := f.run(ctx, `COMMIT`); err != nil {
		return err
	}
	var table string
	err := f.conn.QueryRowContext(ctx, `SELECT "table" FROM pragma_foreign_key_check`).Scan(&table)
	if err == nil {
		return fmt.Errorf("sqldb: a row of %s refers to one that is missing", table)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return f.run(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
}

// Table fills a table with the rows that next returns until it reports false, and
// returns how many there were. Errors of next end it.
func (f *Filler) Table(ctx context.Context, t Table, next func() (values []any, more bool, err error)) (rows int64, err error) {
	if err := f.check(t); err != nil {
		return 0, err
	}
	if f.postgres {
		rows, err = f.copyPostgres(ctx, t, next)
	} else {
		rows, err = f.insertSQLite(ctx, t, next)
	}
	if err != nil {
		return 0, fmt.Errorf("table %s: %w", t.Name, err)
	}
	return rows, nil
}

// check refuses a table that the database has otherwise.
func (f *Filler) check(t Table) error {
	for _, have := range f.tables {
		if have.Name != t.Name {
			continue
		}
		if !slices.Equal(have.Columns, t.Columns) {
			return fmt.Errorf("sqldb: the table %s has other columns here", t.Name)
		}
		return nil
	}
	return fmt.Errorf("sqldb: there is no table %s here", t.Name)
}

func (f *Filler) copyPostgres(ctx context.Context, t Table, next func() ([]any, bool, error)) (rows int64, err error) {
	var failed error // of next: the server's own error only quotes it
	err = onPgx(f.conn, func(conn *pgx.Conn) (err error) {
		rows, err = conn.CopyFrom(ctx, pgx.Identifier{t.Name}, t.names(), pgx.CopyFromFunc(func() ([]any, error) {
			values, more, err := next()
			if err != nil || !more {
				failed = err
				return nil, err
			}
			return values, nil
		}))
		return err
	})
	return rows, cmp.Or(failed, err)
}

func (f *Filler) insertSQLite(ctx context.Context, t Table, next func() ([]any, bool, error)) (rows int64, err error) {
	names := strings.Join(t.names(), `, `)
	insert, err := f.conn.PrepareContext(ctx, Insert(t.Name, names))
	if err != nil {
		return 0, err
	}
	defer insert.Close()
	for {
		values, more, err := next()
		if err != nil || !more {
			return rows, err
		}
		if _, err := insert.ExecContext(ctx, values...); err != nil {
			return 0, err
		}
		if rows++; rows%commitRows == 0 {
			if err := f.run(ctx, `COMMIT`, `BEGIN IMMEDIATE`); err != nil {
				return 0, err
			}
		}
	}
}

// Each is [Snapshot.Each] for the rows that were put in.
func (f *Filler) Each(ctx context.Context, t Table, row func(values []any) error) error {
	if f.postgres {
		return onPgx(f.conn, func(conn *pgx.Conn) error { return eachPostgres(ctx, conn, t, row) })
	}
	return eachSQLite(ctx, f.conn, t, row)
}

// Tables returns the tables, each behind those that it refers to.
func (f *Filler) Tables() []Table { return f.tables }

// migrateToSet brings an empty database to exactly these migrations, which may be
// those of an older program.
func (db *DB) migrateToSet(ctx context.Context, versions []int64) error {
	if err := newer(versions); err != nil {
		return err
	}
	if len(versions) == len(numbers()) {
		return db.Migrate(ctx)
	}
	err := db.migrateTo(ctx, func(p *goose.Provider, _ *sql.DB) error {
		for _, v := range slices.Sorted(slices.Values(versions)) {
			if _, err := p.ApplyVersion(ctx, v, true); err != nil && !errors.Is(err, goose.ErrAlreadyApplied) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	pool := db.schema.open()
	defer pool.Close()
	have, err := versionsOf(ctx, pool)
	if err == nil && len(have) != len(versions) {
		return fmt.Errorf("the tables are of %d migrations and those of the rows are of %d; use an empty database", len(have), len(versions))
	}
	return err
}
