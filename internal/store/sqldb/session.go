package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
)

// session is the one connection that writes to SQLite. It is used by one
// goroutine at a time, its owner.
//
// The connection is held twice: directly, for statements, and through
// database/sql, which alone can make *sql.Rows.
type session struct {
	connector connector
	path      string
	file      os.FileInfo // of path, when it was opened
	conn      *conn       // nil while broken
	pool      *sql.DB
	rows      *sql.Conn
}

// connect opens the connection.
func (s *session) connect(ctx context.Context) error {
	dc, err := s.connector.Connect(ctx)
	if err != nil {
		return err
	}
	if s.file == nil {
		if s.file, err = os.Stat(s.path); err != nil {
			dc.Close()
			return err
		}
	}
	pool := sql.OpenDB(single{dc})
	pool.SetMaxOpenConns(1)
	rows, err := pool.Conn(ctx)
	if err != nil {
		return errors.Join(err, dc.Close(), pool.Close())
	}
	s.conn, s.pool, s.rows = dc.(*conn), pool, rows
	return nil
}

// close disconnects. It is not an error to close twice.
func (s *session) close() error {
	if s.conn == nil {
		return nil
	}
	// rows stays open: closing it would wait for a *sql.Rows that was
	// never closed, and the connection below it is ours to close.
	err := errors.Join(s.conn.Close(), s.pool.Close())
	s.conn, s.pool, s.rows = nil, nil, nil
	return sqliteError(err)
}

// begin starts a transaction that may write.
func (s *session) begin() error {
	// A file that was moved away still takes writes, which would never be read
	// again. This costs a microsecond for each commit.
	if now, err := os.Stat(s.path); err != nil || !os.SameFile(s.file, now) {
		return unavailable("The database's file is gone; put it back, or restart with the right data directory.",
			errors.Join(errors.New("sqldb: the database file was moved or removed"), err))
	}
	if s.conn == nil {
		if err := s.connect(context.Background()); err != nil {
			return unavailable("The database cannot be opened; retry in a few seconds.", err)
		}
	}
	err := s.command("BEGIN IMMEDIATE")
	if err != nil && broken(err) == nil {
		// "cannot start a transaction within a transaction", or the like: an
		// earlier end went wrong, and a new connection is clean.
		s.close()
		return unavailable("The database connection was lost; retry.", err)
	}
	return err
}

func (s *session) command(text string) error {
	_, _, err := s.conn.exec(text, nil)
	return err
}

// rollback ends the transaction without a trace.
func (s *session) rollback() {
	if s.conn == nil {
		return
	}
	s.conn.closeRows()
	if err := s.command("ROLLBACK"); err != nil {
		// Either SQLite has rolled back already (a full disk), or it cannot;
		// there is no telling apart, and a new connection is right for both.
		s.close()
	}
}

// single is a driver.Connector of one connection that exists.
type single struct{ conn driver.Conn }

func (s single) Connect(context.Context) (driver.Conn, error) { return s.conn, nil }
func (s single) Driver() driver.Driver                        { return nil }
