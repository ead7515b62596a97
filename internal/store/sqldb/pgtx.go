package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pgSession is the connection of one transaction on PostgreSQL. It sends what was
// queued together with the next statement whose result is needed, or with the
// commit: in one round trip, the transaction's beginning with the first.
//
// Statements go past database/sql, which is needed for rows only; see [session].
type pgSession struct {
	conn  *pgConn
	ctx   context.Context // has no end: the connection has a deadline
	queue []queued
	began bool
	rows  *batchRows // that are open
}

// queued is a statement that is not sent yet.
type queued struct {
	text string
	args []any
	Expect
}

// Expect is what becomes of a queued statement that does not do what it should.
type Expect struct {
	// Row is called if no row was changed, with the transaction ready for other
	// statements, and returns the error; nil: any number of rows is fine.
	Row func() error
	// Or returns the error that stands for the statement's own; nil: the same one.
	Or func(error) error
}

const (
	beginPostgres    = "BEGIN"
	commitPostgres   = "COMMIT"
	rollbackPostgres = "ROLLBACK"
)

func newPgSession(ctx context.Context, c *pgConn) (*pgSession, error) {
	// A connection that is dead must not be found with the commit, when it is too
	// late to use another one.
	link := c.pg().PgConn().Conn()
	if !quiet(link) || link.SetDeadline(time.Now().Add(transactionTimeout)) != nil {
		c.pg().Close(ctx)
		return nil, driver.ErrBadConn
	}
	return &pgSession{conn: c, ctx: unwatched{ctx}}, nil
}

// push queues a statement.
func (s *pgSession) push(text string, args []any, e Expect) error {
	checked := make([]any, len(args))
	for i, arg := range args {
		nv := driver.NamedValue{Ordinal: i + 1, Value: arg}
		if err := checkValue(&nv); err != nil {
			return err
		}
		checked[i] = nv.Value
	}
	s.queue = append(s.queue, queued{dollars(text), checked, e})
	return nil
}

// flush sends what is queued and returns how many rows the last statement changed.
func (s *pgSession) flush() (int64, error) {
	results, waiting := s.send()
	n, missing, err := s.results(results, waiting)
	if closed := results.Close(); err == nil && closed != nil {
		err = s.failure(closed)
	}
	if err == nil && missing != nil {
		err = missing()
	}
	return n, err
}

// query sends what is queued; the last of it is a query, whose rows the next call of
// QueryContext returns. It is not called there, where the connection is locked.
func (s *pgSession) query() error {
	results, waiting := s.send()
	last := len(waiting) - 1
	_, missing, err := s.results(results, waiting[:last])
	if err != nil || missing != nil {
		if closed := results.Close(); err == nil && closed != nil {
			err = s.failure(closed)
		}
		if err == nil {
			err = missing()
		}
		return err
	}
	rows, err := results.Query()
	if err != nil {
		results.Close()
		return s.failure(err)
	}
	s.rows = &batchRows{session: s, results: results, rows: rows}
	return nil
}

// send returns the results that are to come, and of what.
func (s *pgSession) send() (pgx.BatchResults, []queued) {
	waiting := s.queue
	if !s.began {
		waiting = slices.Insert(waiting, 0, queued{text: beginPostgres})
	}
	s.queue, s.began = nil, true
	b := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, len(waiting))}
	for i := range waiting {
		b.Queue(waiting[i].text, waiting[i].args...)
	}
	return s.conn.pg().SendBatch(s.ctx, b), waiting
}

// results reads the results of statements that are no queries. missing is that of
// the first which had to change a row and did not; it may be called when the
// results are closed.
func (s *pgSession) results(from pgx.BatchResults, of []queued) (n int64, missing func() error, err error) {
	for i := range of {
		tag, err := from.Exec()
		if err != nil {
			return 0, nil, of[i].failed(s.failure(err))
		}
		if n = tag.RowsAffected(); n == 0 && of[i].Row != nil && missing == nil {
			missing = of[i].Row
		}
	}
	return n, missing, nil
}

func (q *queued) failed(err error) error {
	if q.Or != nil {
		return q.Or(err)
	}
	return err
}

// commit sends what is queued with the commit, where nothing depends on the result.
// A transaction of no statements needs none.
func (s *pgSession) commit() error {
	if slices.ContainsFunc(s.queue, func(q queued) bool { return q.Row != nil }) {
		if _, err := s.flush(); err != nil {
			return err
		}
	}
	if !s.began && len(s.queue) == 0 {
		return nil
	}
	s.queue = append(s.queue, queued{text: commitPostgres})
	results, waiting := s.send()
	last := len(waiting) - 1
	_, _, err := s.results(results, waiting[:last])
	if err == nil {
		tag, failed := results.Exec()
		if err = s.failure(failed); err == nil && tag.String() == rollbackPostgres {
			err = pgx.ErrTxCommitRollback
		}
	}
	if closed := results.Close(); err == nil && closed != nil {
		err = s.failure(closed)
	}
	if _, answered := errors.AsType[*pgconn.PgError](err); err != nil && !answered {
		// The commit may have arrived, so it must not be repeated.
		err = unavailable("The database was lost at the moment of writing; look whether it was written before you retry.", err)
	}
	return err
}

// end leaves the connection as the next transaction needs it: it ends the
// transaction, if it is open.
func (s *pgSession) end() {
	pg := s.conn.pg()
	if pg.IsClosed() {
		return
	}
	if pg.PgConn().TxStatus() != 'I' {
		if _, err := pg.Exec(s.ctx, rollbackPostgres); err != nil {
			pg.Close(s.ctx)
			return
		}
	}
	if err := pg.PgConn().Conn().SetDeadline(time.Time{}); err != nil {
		pg.Close(s.ctx)
	}
}

// failure returns the error of a statement as this package has them.
func (s *pgSession) failure(err error) error {
	if _, answered := errors.AsType[*pgconn.PgError](err); !answered && pgconn.Timeout(err) {
		return unavailable("The database does not answer in time; retry in a few seconds.", err)
	}
	return s.conn.failure(s.ctx, err)
}
