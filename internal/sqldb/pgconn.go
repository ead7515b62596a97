package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// pgConnector opens connections to PostgreSQL that take our portable SQL.
type pgConnector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c pgConnector) Connect(ctx context.Context) (driver.Conn, error) {
	dc, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, postgresError(err)
	}
	return pgConn{dc.(*stdlib.Conn)}, nil
}

// pgConn is pgx with ? for placeholders and our errors. pgx keeps statements
// prepared by their text.
type pgConn struct{ *stdlib.Conn }

// ExecContext implements driver.ExecerContext.
func (c pgConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	res, err := c.Conn.ExecContext(ctx, dollars(query), args)
	return res, keepBadConn(err)
}

// QueryContext implements driver.QueryerContext.
func (c pgConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	r, err := c.Conn.QueryContext(ctx, dollars(query), args)
	if err != nil {
		return nil, keepBadConn(err)
	}
	return pgRows{r.(*stdlib.Rows)}, nil
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c pgConn) CheckNamedValue(nv *driver.NamedValue) error { return checkValue(nv) }

type pgRows struct{ *stdlib.Rows }

// Next implements driver.Rows.
func (r pgRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err == nil || err == io.EOF {
		return err
	}
	return postgresError(err)
}

// keepBadConn lets database/sql see that it should try another connection.
func keepBadConn(err error) error {
	if err == driver.ErrBadConn {
		return err
	}
	return postgresError(err)
}

func networkError(err error) bool {
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded)
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
