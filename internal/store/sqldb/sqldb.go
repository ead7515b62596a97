// Package sqldb is the only access to SQLite and PostgreSQL.
//
// [Open] returns a [DB]. Everything is written by [DB.Write]: on SQLite one
// connection commits the closures that wait at the same moment together, on
// PostgreSQL each closure is a transaction of its own, repeated where the
// server asks for that. Everything else is read by [DB.Query].
//
// SQL is one portable text for both engines:
//   - placeholders are ?, never inside of a literal or comment;
//   - columns are BIGINT, DOUBLE PRECISION, BOOLEAN, TEXT and BYTEA; a time is
//     a BIGINT of [Micros];
//   - arguments are integers, floats, bools, strings (for TEXT) and byte slices
//     (for BYTEA), or nil; a time.Time is refused;
//   - text compares by its bytes on both (see [DB.Migrate]);
//   - a failed statement fails its transaction, as PostgreSQL has it: insert
//     with ON CONFLICT DO NOTHING and look at the count where that matters;
//   - inside of a transaction, rows are closed before the next statement.
//
// The last two are checked on SQLite too, so that a test on SQLite finds what
// PostgreSQL would refuse.
//
// Errors that mean "the database is locked, full or gone" are
// [fault.Unavailable], wherever they come from; all others are the driver's.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"agentd/internal/base/share"
	"agentd/internal/base/txn"
)

// Config says where the database is. Exactly one of URL and Dir is set.
type Config struct {
	URL string // postgres://user:password@host:5432/name
	Dir string // directory of SQLite's agentd.db, created if it is missing

	Readers     int           // SQLite connections that read; 0 is 4
	MaxConns    int           // PostgreSQL connections; 0 is 32
	BusyTimeout time.Duration // how long SQLite waits for other processes; 0 is 5 s

	// OnStatement, which is for tests, is called with every statement before it
	// runs, in transactions and outside of them.
	OnStatement func(text string, args []any)

	recorded func(Sent) // see [WithRecorder]

	Logger  *slog.Logger // nil is slog.Default
	Metrics Metrics
}

// Metrics are called when the writer has done something. Nil functions are left
// out. On SQLite one goroutine at a time calls them, on PostgreSQL many do.
type Metrics struct {
	// Committed is called when closures became durable together; took is the time
	// since the first of them started.
	Committed func(closures int, took time.Duration)
	// Failed is called when the database refused; nothing of the closures was
	// written.
	Failed func(closures int, err error)
	// Repeated is called when closures ran again, because another one of their
	// group failed (SQLite) or transactions collided (PostgreSQL).
	Repeated func(closures int)
	// Slow is called when a statement took half a second or more, with what it was
	// sent for. Many goroutines call it.
	Slow func(origin *txn.Origin, text string, took time.Duration)
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	cfg    Config
	pool   *sql.DB       // readers on SQLite, everything on PostgreSQL
	writer *writer       // nil on PostgreSQL
	shares *share.Places // of the connections, for requests that only read
	schema schema
	probe  probe
}

var errConfig = errors.New("sqldb: set exactly one of URL and Dir")

// Open connects. It creates the SQLite database if it does not exist, and fails
// if PostgreSQL does not answer. It does not migrate.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.recorded = recorderOf(ctx)
	switch {
	case (cfg.URL == "") == (cfg.Dir == ""):
		return nil, errConfig
	case cfg.URL != "":
		return openPostgres(ctx, cfg)
	default:
		return openSQLite(ctx, cfg)
	}
}

// Close waits for the writes that were accepted, and disconnects. Writes that
// come later are refused with fault.Unavailable.
func (db *DB) Close() error {
	if db.writer == nil {
		return db.pool.Close()
	}
	db.writer.stop()
	// The writer closes last, so that the last connection is one that may
	// write the log back into the database file.
	return errors.Join(db.pool.Close(), db.writer.close())
}

// Write commits a closure; see txn.Writer. A ctx that ends before the closure
// begins is fault.Unavailable; once it has begun it is carried to the end.
//
// A panic in the closure becomes fault.Internal. Hints run in the caller's
// goroutine, after the commit, in the order in which they were left.
func (db *DB) Write(ctx context.Context, do func(txn.Tx) error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	do = txn.Wrap(ctx, do)
	var hints []func()
	var err error
	if db.writer != nil {
		hints, err = db.writer.write(ctx, do)
	} else {
		hints, err = db.writePostgres(ctx, do)
	}
	if err != nil {
		return err
	}
	for _, hint := range hints {
		db.hint(hint)
	}
	return nil
}

// hint runs a hint and recovers its panic: the commit is done, and its caller
// must get to know that.
func (db *DB) hint(hint func()) {
	defer func() {
		if p := recover(); p != nil {
			db.cfg.Logger.Error("panic in a hint after a commit", "panic", p)
		}
	}()
	hint()
}

// Query reads outside of transactions, from the pool of readers. SQL is one
// portable text with ? placeholders. The rows hold a connection of a small
// pool: close them soon, and never wait for a client while they are open.
//
// A query of a request that only reads (see [txn.Origin]) ends after two seconds
// with fault.Unavailable, QUERY_TIMEOUT, and a company's requests have at most half
// of the connections.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	db.cfg.sent(query, args, nil)
	r, err := db.startReading(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := db.pool.QueryContext(r, query, args...)
	if err != nil {
		r.end()
	}
	return rows, r.failure(err)
}

// QueryRow is Query for at most one row.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	db.cfg.sent(query, args, nil)
	r, err := db.startReading(ctx, query)
	if err != nil {
		// A row cannot be made from an error but by a query that fails with it.
		return db.pool.QueryRowContext(failing{ctx, err}, query, args...)
	}
	row := db.pool.QueryRowContext(r, query, args...)
	if row.Err() != nil {
		r.end()
	}
	return row
}

// reading is the context of a read. On SQLite it is looked at before the read
// begins, and not watched: that takes database/sql a goroutine for each read,
// a third of the cost of a small one, and ours are over before it is of use.
func (db *DB) reading(ctx context.Context) context.Context {
	if db.writer == nil {
		return ctx
	}
	return unwatched{ctx}
}

type unwatched struct{ context.Context }

// Done implements context.Context.
func (unwatched) Done() <-chan struct{} { return nil }

// Postgres reports whether the database is PostgreSQL, for the few statements
// that differ.
func (db *DB) Postgres() bool { return db.writer == nil }

// Micros is how a time is stored: microseconds since 1970, 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time is the inverse of Micros, in UTC.
func Time(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
