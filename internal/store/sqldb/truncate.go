package sqldb

import (
	"context"
	"errors"
	"time"
)

// How often TruncateLog tries, how long a try may hold writers up, and how long
// it then lets readers end, under which the log cannot be emptied.
const (
	truncateTries = 40
	truncateWait  = "PRAGMA busy_timeout(50)"
	truncatePause = 50 * time.Millisecond
)

var errLogInUse = errors.New("sqldb: the log is in use; it is truncated when it is next written back")

// TruncateLog removes from the files of SQLite what transactions have deleted:
// it writes the log back and empties it. PostgreSQL decides itself when it
// recycles its log; there it does nothing.
func (db *DB) TruncateLog(ctx context.Context) error {
	if db.Postgres() {
		return nil
	}
	pool := db.schema.open()
	defer pool.Close()
	pool.SetMaxOpenConns(1)
	if _, err := pool.ExecContext(ctx, truncateWait); err != nil {
		return sqliteError(err)
	}
	for range truncateTries {
		var busy, pages, written int
		if err := pool.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &written); err != nil {
			return sqliteError(err)
		}
		if busy == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(truncatePause):
		}
	}
	return errLogInUse
}
