package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// pgConnector opens connections to PostgreSQL that take our portable SQL.
type pgConnector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c pgConnector) Connect(ctx context.Context) (driver.Conn, error) {
	dc, err := c.Connector.Connect(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, unavailable("The database cannot be reached at the moment; retry in a few seconds.", err)
	}
	return &pgConn{Conn: dc.(*stdlib.Conn)}, nil
}

// pgConn is pgx with ? for placeholders and our errors. pgx keeps statements
// prepared by their text.
type pgConn struct {
	*stdlib.Conn
	session *pgSession // nil outside of transactions
}

func (c *pgConn) pg() *pgx.Conn { return c.Conn.Conn() }

// cancelHandler asks the server to cancel a query whose context ended, and marks its
// connection: the server may get to the request only when the connection is used
// again, and would cancel another query.
type cancelHandler struct {
	*pgconn.CancelRequestContextWatcherHandler
}

// cancelled is the member of a connection's data that marks it.
const cancelled = "cancelled"

// HandleUnwatchAfterCancel implements ctxwatch.Handler.
func (h cancelHandler) HandleUnwatchAfterCancel() {
	h.CancelRequestContextWatcherHandler.HandleUnwatchAfterCancel()
	h.Conn.CustomData()[cancelled] = true
}

// IsValid implements driver.Validator: a connection that was marked is closed.
func (c *pgConn) IsValid() bool {
	return !c.pg().IsClosed() && c.pg().PgConn().CustomData()[cancelled] == nil
}

// QueryContext implements driver.QueryerContext.
func (c *pgConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.session != nil {
		if err := ctx.Err(); err != nil {
			return nil, err // see [Tx.QueryRow]
		}
		return c.session.rows, nil // see [Tx.Query]
	}
	r, err := c.Conn.QueryContext(ctx, dollars(query), args)
	if err != nil {
		return nil, readingOf(ctx).failure(c.failure(ctx, err))
	}
	return pgRows{r.(*stdlib.Rows), readingOf(ctx)}, nil
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *pgConn) CheckNamedValue(nv *driver.NamedValue) error { return checkValue(nv) }

// failure says of a lost connection that it is one: nothing is committed yet,
// so it is safe that database/sql tries a read again, and Write a transaction.
func (c *pgConn) failure(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return unavailable("The database does not answer in time; retry in a few seconds.", err)
	case ctx.Err() != nil:
		return err
	case c.pg().IsClosed():
		return driver.ErrBadConn
	}
	return postgresError(err)
}

type pgRows struct {
	*stdlib.Rows
	reading *reading // nil inside of transactions
}

// Close implements driver.Rows.
func (r pgRows) Close() error {
	err := r.Rows.Close()
	r.reading.end()
	return err
}

// Next implements driver.Rows.
func (r pgRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err == nil || err == io.EOF {
		return err
	}
	if _, answered := errors.AsType[*pgconn.PgError](err); answered {
		return r.reading.failure(postgresError(err))
	}
	return r.reading.failure(unavailable("The database was lost while it was read; retry.", err))
}

// rewritten keeps the texts that dollars made, up to maxRewritten.
var (
	rewritten      sync.Map // string -> string
	rewrittenCount atomic.Int32
)

const maxRewritten = 2000

// dollars replaces ? by $1, $2, …, except inside of quotes.
func dollars(query string) string {
	if strings.IndexByte(query, '?') < 0 {
		return query
	}
	if text, ok := rewritten.Load(query); ok {
		return text.(string)
	}
	var b strings.Builder
	b.Grow(len(query) + 16)
	quote, n := byte(0), 0
	for i := range len(query) {
		c := query[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '?':
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
			continue
		}
		b.WriteByte(c)
	}
	text := b.String()
	if rewrittenCount.Load() < maxRewritten {
		rewrittenCount.Add(1)
		rewritten.Store(strings.Clone(query), text)
	}
	return text
}
