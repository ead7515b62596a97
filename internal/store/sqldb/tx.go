package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// Tx is the inside of a txn.Tx of this package. It belongs to the closure that
// got it and to no other goroutine.
type Tx struct {
	cfg    *Config
	ctx    context.Context
	sqlite *conn      // nil on PostgreSQL
	rows   querier    // where queries go
	pg     *pgSession // nil on SQLite
	last   *sql.Rows  // of the last query, or
	row    *sql.Row   // its row
	hints  []func()
	failed error // the first failed statement
	dirty  bool  // SQLite: there is something to undo
	shared gatherings
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

var (
	_ txn.Tx     = (*Tx)(nil)
	_ txn.Writer = (*DB)(nil)

	errAborted  = errors.New("sqldb: a statement of this transaction has failed already")
	errRowsOpen = errors.New("sqldb: rows of an earlier query of this transaction are still open")
)

// From opens a transaction that DB.Write handed out. It panics on a foreign one.
func From(tx txn.Tx) *Tx { return tx.(*Tx) }

// Context implements txn.Tx. It has the values of the context of the Write, but
// does not end with it: what has begun is carried to the end.
func (tx *Tx) Context() context.Context { return tx.ctx }

// AfterCommit implements txn.Tx.
func (tx *Tx) AfterCommit(hint func()) { tx.hints = append(tx.hints, hint) }

// Exec runs a statement and returns the number of rows that it changed.
func (tx *Tx) Exec(query string, args ...any) (int64, error) {
	if err := tx.usable(query); err != nil {
		return 0, err
	}
	tx.cfg.sent(query, args, tx)
	defer tx.took(query, time.Now())
	if tx.sqlite != nil {
		n, wrote, err := tx.sqlite.exec(query, args)
		tx.dirty = tx.dirty || wrote
		if err != nil {
			tx.failed = err
		}
		return n, err
	}
	err := tx.pg.push(query, args, Expect{})
	var n int64
	if err == nil {
		n, err = tx.pg.flush()
	}
	if err != nil {
		tx.failed = err
	}
	return n, err
}

// Queue runs a statement whose result nothing in the closure depends on. On
// PostgreSQL it is sent with the next one or with the commit, and so is its error
// returned, which fails the transaction as every other; on SQLite it runs at once.
func (tx *Tx) Queue(query string, args ...any) error {
	return tx.QueueExpecting(Expect{}, query, args...)
}

// QueueExpecting is Queue for a statement whose failure means something, as an
// update does that finds no row.
func (tx *Tx) QueueExpecting(e Expect, query string, args ...any) error {
	if tx.sqlite != nil {
		n, err := tx.Exec(query, args...)
		switch {
		case err != nil && e.Or != nil:
			return e.Or(err)
		case err == nil && n == 0 && e.Row != nil:
			return e.Row()
		}
		return err
	}
	if err := tx.usable(query); err != nil {
		return err
	}
	tx.cfg.sent(query, args, tx)
	err := tx.pg.push(query, args, e)
	if err != nil {
		tx.failed = err
	}
	return err
}

// Query reads inside the transaction, and sees what the transaction wrote.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	if err := tx.usable(query); err != nil {
		return nil, err
	}
	tx.cfg.sent(query, args, tx)
	defer tx.took(query, time.Now())
	tx.dirty = tx.dirty || !reads(query)
	args, err := tx.ask(query, args)
	if err != nil {
		return nil, err
	}
	rows, err := tx.rows.QueryContext(unwatched{tx.ctx}, query, args...)
	if err != nil {
		tx.failed = err
	}
	tx.last, tx.row = rows, nil
	return rows, err
}

// QueryRow is Query for at most one row.
func (tx *Tx) QueryRow(query string, args ...any) *sql.Row {
	var ctx context.Context = unwatched{tx.ctx}
	tx.cfg.sent(query, args, tx)
	defer tx.took(query, time.Now())
	err := tx.usable(query)
	if err == nil {
		tx.dirty = tx.dirty || !reads(query)
		args, err = tx.ask(query, args)
	}
	if err != nil {
		// A row cannot be made from an error but by a query that fails with it.
		ctx = failing{ctx, err}
	}
	row := tx.rows.QueryRowContext(ctx, query, args...)
	if err := row.Err(); err != nil && tx.failed == nil {
		tx.failed = err
	}
	tx.last, tx.row = nil, row
	return row
}

// closeRows closes the rows that a closure left open, which database/sql would wait
// for. It reports whether there are any.
func (tx *Tx) closeRows() bool {
	if tx.sqlite != nil {
		return tx.sqlite.closeRows()
	}
	if tx.pg.rows == nil {
		return false
	}
	switch {
	case tx.last != nil:
		tx.last.Close()
	case tx.row != nil:
		_ = tx.row.Scan() // there is no other way to close a row
	}
	if rows := tx.pg.rows; rows != nil { // the context ended before database/sql took them
		_ = rows.Close() // the transaction has failed
	}
	return true
}

// ask sends a query to PostgreSQL, and returns the arguments that database/sql is
// still to pass.
func (tx *Tx) ask(query string, args []any) ([]any, error) {
	if tx.pg == nil {
		return args, nil
	}
	err := tx.pg.push(query, args, Expect{})
	if err == nil {
		err = tx.pg.query()
	}
	if err != nil {
		tx.failed = err
	}
	return nil, err
}

// failing is a context that ended with an error of ours.
type failing struct {
	context.Context
	err error
}

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (f failing) Done() <-chan struct{} { return closedChan }
func (f failing) Err() error            { return f.err }

// ForUpdate is the suffix of a SELECT that locks its row until commit: empty
// on SQLite, whose one writer needs none.
func (tx *Tx) ForUpdate() string {
	if tx.sqlite != nil {
		return ""
	}
	return " FOR UPDATE"
}

// LockTenant locks the row of a tenant until commit, if there is one: it orders
// transactions that check a limit of the tenant before they insert.
func (tx *Tx) LockTenant(tenant string) error {
	var found int
	err := tx.QueryRow(`SELECT 1 FROM tenants WHERE tenant_id = ?`+tx.ForUpdate(), tenant).Scan(&found)
	return NoRowsAs(err, nil)
}

// Postgres reports whether the database is PostgreSQL.
func (tx *Tx) Postgres() bool { return tx.sqlite == nil }

// took reports a statement that was slow.
func (tx *Tx) took(text string, start time.Time) {
	if d := time.Since(start); d >= slowStatement {
		tx.cfg.took(txn.OriginOf(tx.ctx), text, d)
	}
}

func (tx *Tx) usable(query string) error {
	if tx.failed != nil {
		return fmt.Errorf("%w: %w", errAborted, tx.failed)
	}
	if tx.sqlite != nil && tx.sqlite.open != nil || tx.pg != nil && tx.pg.rows != nil {
		return errRowsOpen
	}
	return tx.shared.before(query, tx)
}

// tookCommit reports a commit that was slow, with what was sent with it.
func (tx *Tx) tookCommit(start time.Time) { tx.took(commitPostgres, start) }

// run calls the closure and returns its error. A statement that failed fails the
// closure, even if the closure ignored the error.
func (tx *Tx) run(do func(txn.Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.From(fmt.Errorf("sqldb: panic in a transaction: %v\n%s", p, debug.Stack()))
		}
		if tx.closeRows() && err == nil {
			err = errRowsOpen
		}
		if err == nil {
			err = tx.failed
		}
	}()
	return do(tx)
}
