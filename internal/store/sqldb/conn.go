package sqldb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"strings"
	"time"
)

// conn is a connection to SQLite that keeps its statements prepared, by their
// text. database/sql would keep them too, but behind locks and a list for each
// statement; and preparing costs as much as running.
//
// Contexts are looked at before a statement starts and not while it runs: the
// driver would start a goroutine for each statement to watch for that, and our
// statements are short.
type conn struct {
	driver.Conn
	stmts map[string]*stmt
	open  *rows // rows that were not read to their end yet
	args  []driver.NamedValue
}

// stmt is a prepared statement.
type stmt struct {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
	counts bool // an INSERT, UPDATE or DELETE: says how much it changed
}

// maxStmts bounds what dynamic SQL can occupy, at some kilobytes each.
const maxStmts = 300

func newConn(c driver.Conn) *conn {
	return &conn{Conn: c, stmts: make(map[string]*stmt)}
}

// prepared returns the prepared statement of a text.
func (c *conn) prepared(query string) (*stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	// SQLite plans a statement again each time that a bare parameter of LIMIT is
	// bound, because it uses its value; it does not for an expression.
	p, err := c.Prepare(strings.ReplaceAll(query, "LIMIT ?", "LIMIT +?"))
	if err != nil {
		return nil, sqliteError(err)
	}
	s := &stmt{
		Stmt:             p,
		StmtExecContext:  p.(driver.StmtExecContext),
		StmtQueryContext: p.(driver.StmtQueryContext),
		counts:           startsWith(query, "INSERT") || startsWith(query, "UPDATE") || startsWith(query, "DELETE"),
	}
	if len(c.stmts) >= maxStmts {
		for text, old := range c.stmts { // any one: keeping an order is not worth it
			if c.open == nil || c.open.stmt != old {
				delete(c.stmts, text)
				old.Close()
				break
			}
		}
	}
	c.stmts[query] = s
	return s, nil
}

// exec runs a statement outside of database/sql, which saves a third of the
// cost of a small one. wrote reports whether there may be something to undo.
func (c *conn) exec(query string, args []any) (changed int64, wrote bool, err error) {
	s, err := c.prepared(query)
	if err != nil {
		return 0, false, err
	}
	c.args = c.args[:0]
	for i, arg := range args {
		nv := driver.NamedValue{Ordinal: i + 1, Value: arg}
		if err := c.CheckNamedValue(&nv); err != nil {
			return 0, false, err
		}
		c.args = append(c.args, nv)
	}
	res, err := s.ExecContext(context.Background(), c.args)
	clear(c.args)
	if err != nil {
		// The statement took back what it did, and only that.
		return 0, false, sqliteError(err)
	}
	if !s.counts {
		return 0, true, nil
	}
	changed, err = res.RowsAffected()
	return changed, changed > 0, err
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := c.prepared(query)
	if err != nil {
		return nil, err
	}
	res, err := s.ExecContext(context.Background(), args)
	return res, sqliteError(err)
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := c.prepared(query)
	if err != nil {
		return nil, err
	}
	reading := readingOf(ctx)
	if err := reading.runOn(c.Conn); err != nil {
		return nil, err
	}
	r, err := s.QueryContext(context.Background(), args)
	if err != nil {
		return nil, reading.failure(sqliteError(err))
	}
	c.open = &rows{Rows: r, conn: c, stmt: s, reading: reading}
	return c.open, nil
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *conn) CheckNamedValue(nv *driver.NamedValue) error { return checkValue(nv) }

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool { return c.Conn.(driver.Validator).IsValid() }

// ResetSession implements driver.SessionResetter.
func (c *conn) ResetSession(ctx context.Context) error {
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

// Close implements driver.Conn.
func (c *conn) Close() error {
	c.closeRows()
	for _, s := range c.stmts {
		s.Close()
	}
	clear(c.stmts)
	return c.Conn.Close()
}

// closeRows reports whether there was anything to close.
func (c *conn) closeRows() bool {
	if c.open == nil {
		return false
	}
	c.open.Close()
	return true
}

// rows are the rows of the one open query of a connection.
type rows struct {
	driver.Rows
	conn   *conn
	stmt   *stmt
	closed bool

	reading *reading // nil inside of transactions
}

// Next implements driver.Rows.
func (r *rows) Next(dest []driver.Value) error {
	if r.closed {
		return errRowsOpen
	}
	err := r.Rows.Next(dest)
	if err == nil || err == io.EOF {
		return err
	}
	return r.reading.failure(sqliteError(err))
}

// Close implements driver.Rows.
func (r *rows) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	if r.conn.open == r {
		r.conn.open = nil
	}
	r.reading.end() // before another query runs here, which it must not interrupt
	return sqliteError(r.Rows.Close())
}

// checkValue brings an argument into one of the six types that both engines
// take alike.
func checkValue(nv *driver.NamedValue) error {
	switch v := nv.Value.(type) {
	case nil, string, int64, []byte, bool, float64:
		return nil
	case int:
		nv.Value = int64(v)
		return nil
	case time.Time:
		return fmt.Errorf("sqldb: argument %d is a time.Time; store Micros of it", nv.Ordinal)
	}
	v, err := driver.DefaultParameterConverter.ConvertValue(nv.Value)
	if err != nil {
		return fmt.Errorf("sqldb: argument %d: %w", nv.Ordinal, err)
	}
	if _, ok := v.(time.Time); ok {
		return fmt.Errorf("sqldb: argument %d is a time; store Micros of it", nv.Ordinal)
	}
	nv.Value = v
	return nil
}

// reads says that a query cannot write.
func reads(query string) bool { return startsWith(query, "SELECT") }

func startsWith(query, verb string) bool {
	query = strings.TrimLeft(query, " \t\r\n")
	return len(query) > len(verb) && strings.EqualFold(query[:len(verb)], verb)
}
