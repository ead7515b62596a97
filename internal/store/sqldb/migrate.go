package sqldb

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema is how the schema of a database is changed.
type schema struct {
	dialect goose.Dialect
	open    func() *sql.DB // connections without our portable SQL
}

// ErrNewer says that the database was migrated by a later agentd.
var ErrNewer = errors.New("the database was made by a newer agentd; start that one, or migrate down with it first")

// migrationLock is the number of PostgreSQL's advisory lock: "agentd".
const migrationLock = 0x6167656e7464

// Migrate brings the schema to this program's version. If it has that version
// already, this costs one query. Programs that start at the same moment wait
// for each other.
//
// The migrations are one text for both engines, in migrations/NNNNN_name.sql.
// On SQLite, BYTEA is BLOB. On PostgreSQL, WITHOUT ROWID is dropped, and TEXT
// is TEXT COLLATE "C", so that both sort alike; write a cast as text in small
// letters. What the engines cannot share stands twice, between the lines
// "-- +only sqlite" or "-- +only postgres" and "-- +end". Foreign keys and
// checks are immediate. A migration that is on main is never edited. Three are
// written in Go: see rowid.go and documentwords.go. An empty database gets all of
// them at once: see schema.go.
func (db *DB) Migrate(ctx context.Context) error {
	if current, err := db.isCurrent(ctx); err != nil || current {
		return err
	}
	return db.migrateTo(ctx, func(p *goose.Provider, pool *sql.DB) error {
		if created, err := db.create(ctx, pool); err != nil || created {
			return err
		}
		return up(ctx, p, pool)
	})
}

// migrateSteps is [DB.Migrate], also in an empty database one migration at a time.
func (db *DB) migrateSteps(ctx context.Context) error {
	return db.migrateTo(ctx, func(p *goose.Provider, pool *sql.DB) error { return up(ctx, p, pool) })
}

// up applies the migrations that the database does not have.
func up(ctx context.Context, p *goose.Provider, pool *sql.DB) error {
	// Asked again, under the lock: another process may have been faster.
	current, err := p.GetDBVersion(ctx)
	if err != nil {
		return err
	}
	if latest := Latest(); current > latest {
		return fmt.Errorf("%w (database %d, program %d)", ErrNewer, current, latest)
	}
	if current > 0 {
		applied, err := versionsOf(ctx, pool)
		if err == nil {
			err = newer(applied)
		}
		if err != nil {
			return err
		}
	}
	_, err = p.Up(ctx)
	return err
}

// isCurrent reports whether the database has every migration of this program and
// no other. Numbers may have come in another order than they have.
func (db *DB) isCurrent(ctx context.Context) (bool, error) {
	version, err := db.Version(ctx)
	if err != nil || version != Latest() {
		return false, err
	}
	var applied int
	err = db.QueryRow(ctx, "SELECT COUNT(DISTINCT version_id) FROM goose_db_version WHERE version_id > 0").Scan(&applied)
	if err != nil || applied != len(numbers()) {
		return false, err
	}
	return db.hasStatistics(ctx)
}

// MigrateDown takes back every migration after version, newest first; 0 takes
// back all of them, with all data.
func (db *DB) MigrateDown(ctx context.Context, version int64) error {
	return db.migrateTo(ctx, func(p *goose.Provider, _ *sql.DB) error {
		_, err := p.DownTo(ctx, version)
		return err
	})
}

// Version is the number of the last migration that the database has, 0 where
// it is empty.
func (db *DB) Version(ctx context.Context) (int64, error) {
	table := "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'goose_db_version'"
	if db.Postgres() {
		table = "SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass('goose_db_version')"
	}
	var n, version int64
	if err := db.QueryRow(ctx, table).Scan(&n); err != nil || n == 0 {
		return 0, err
	}
	err := db.QueryRow(ctx, "SELECT MAX(version_id) FROM goose_db_version").Scan(&version)
	return version, err
}

// Latest is the version of this program's schema.
func Latest() int64 { return slices.Max(numbers()) }

// numbers returns the numbers of all migrations.
func numbers() []int64 {
	names, _ := fs.Glob(migrations, "migrations/*.sql")
	all := []int64{rowidVersion, documentWordsVersion, fewDocumentWordsVersion}
	for _, name := range names {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		n, _ := strconv.ParseInt(number, 10, 64)
		all = append(all, n)
	}
	return all
}

// migrateTo runs do while no other process migrates.
func (db *DB) migrateTo(ctx context.Context, do func(*goose.Provider, *sql.DB) error) (err error) {
	pool := db.schema.open()
	defer pool.Close()
	release, err := db.lockMigration(ctx, pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(db.schema.dialect, pool, dialectFS{dir, db.Postgres()},
		goose.WithDisableGlobalRegistry(true), goose.WithAllowOutofOrder(true), goose.WithGoMigrations(db.goMigrations()...))
	if err != nil {
		return err
	}
	if err := do(p, pool); err != nil {
		return fmt.Errorf("sqldb: migrate: %w", err)
	}
	return db.writeStatistics(ctx, pool)
}

func (db *DB) lockMigration(ctx context.Context, pool *sql.DB) (release func() error, err error) {
	if !db.Postgres() {
		return lockToMigrate(db.cfg.Dir)
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", int64(migrationLock)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error {
		// The lock is the session's, and a pooled one would live on.
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(migrationLock))
		return errors.Join(err, conn.Close())
	}, nil
}
