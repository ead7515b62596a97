package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Snapshot is all rows of a database as they were at one moment, while others write.
type Snapshot struct {
	conn     *sql.Conn
	postgres bool
	tables   []Table
	versions []int64
}

// ErrEmpty says that a database has no tables.
var ErrEmpty = errors.New("the database has no tables; it was never migrated")

// Snapshot calls use with all rows of the moment of the call: everything that was
// committed before, and nothing that is committed later. On SQLite the log grows
// while it is used.
func (db *DB) Snapshot(ctx context.Context, use func(*Snapshot) error) (err error) {
	if version, err := db.Version(ctx); err != nil {
		return err
	} else if version == 0 {
		return ErrEmpty
	}
	pool := db.schema.open()
	defer pool.Close()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	begin := `BEGIN`
	if db.Postgres() {
		begin = `BEGIN READ ONLY, ISOLATION LEVEL REPEATABLE READ`
	}
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		return err
	}
	defer func() {
		_, end := conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
		if err == nil {
			err = end
		}
	}()
	s := &Snapshot{conn: conn, postgres: db.Postgres()}
	if s.versions, err = versionsOf(ctx, conn); err != nil { // the first read fixes the moment
		return err
	}
	if s.tables, err = tablesOf(ctx, conn, s.postgres); err != nil {
		return err
	}
	return use(s)
}

// Versions returns the numbers of the migrations that the database has.
func (s *Snapshot) Versions() []int64 { return s.versions }

// Tables returns the tables, each behind those that it refers to.
func (s *Snapshot) Tables() []Table { return s.tables }

// Each calls row with every row of a table in the order of its key. The values are
// int64, float64, bool, string, []byte or nil, and row's until it returns.
func (s *Snapshot) Each(ctx context.Context, t Table, row func(values []any) error) error {
	if s.postgres {
		return onPgx(s.conn, func(conn *pgx.Conn) error { return eachPostgres(ctx, conn, t, row) })
	}
	return eachSQLite(ctx, s.conn, t, row)
}

func eachSQLite(ctx context.Context, conn *sql.Conn, t Table, row func([]any) error) error {
	rows, err := conn.QueryContext(ctx, t.selectAll())
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	defer rows.Close()
	values, into := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		if err := t.values(values); err != nil {
			return err
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

func eachPostgres(ctx context.Context, conn *pgx.Conn, t Table, row func([]any) error) error {
	rows, err := conn.Query(ctx, t.selectAll())
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		if err := t.values(values); err != nil {
			return err
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

// onPgx calls do with the connection below one of database/sql.
func onPgx(conn *sql.Conn, do func(*pgx.Conn) error) error {
	return conn.Raw(func(dc any) error { return do(dc.(*stdlib.Conn).Conn()) })
}
