package sqldb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

var (
	// errDatabase marks a failure of the database, not of the statement.
	errDatabase = txn.ErrAway
	errGoexit   = errors.New("sqldb: the closure ended its goroutine")
)

// unavailable is the 503 of a database that is locked, full or gone.
func unavailable(detail string, cause error) *fault.Error {
	f := fault.New(fault.Unavailable, "", "%s", detail)
	f.RetryAfter = 2 * time.Second
	return f.Because(fmt.Errorf("%w: %w", errDatabase, cause))
}

func errStopped() error {
	return fault.New(fault.Unavailable, "", "The server is stopping; retry with another node or in a few seconds.")
}

// ended is the outcome of a write whose ctx ended before it began. It is a
// context.Canceled or DeadlineExceeded, and the cause too where there is one.
func ended(ctx context.Context) error {
	cause := ctx.Err()
	if c := context.Cause(ctx); c != cause {
		cause = fmt.Errorf("%w: %w", cause, c)
	}
	return fault.New(fault.Unavailable, "", "The request ended before it could be written; retry.").Because(cause)
}

// sqliteError returns the failures of the database as fault.Unavailable, and
// every other error unchanged.
func sqliteError(err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return unavailable("The database is locked by another program; retry in a few seconds.", err)
	case sqlite3.SQLITE_FULL:
		return unavailable("The database's disk is full; retry when there is space.", err)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM,
		sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_INTERRUPT:
		return unavailable("The database cannot be read or written at the moment; retry in a few seconds.", err)
	}
	return err
}

// IsUnique reports whether err is a violated unique index.
func IsUnique(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() {
		case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
			return true
		}
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "23505"
}
