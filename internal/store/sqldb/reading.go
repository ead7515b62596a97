package sqldb

import (
	"context"
	"database/sql/driver"
	"reflect"
	"sync"
	"time"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

const (
	// readTimeout bounds a query of a request that only reads, with its wait for a
	// connection.
	readTimeout = 2 * time.Second
	// slowStatement is how long a statement takes that is reported to Metrics.Slow.
	slowStatement = 500 * time.Millisecond
)

// errQueryTimeout is the 503 of a query that took too long.
func errQueryTimeout(cause error) error {
	f := fault.New(fault.Unavailable, "QUERY_TIMEOUT",
		"Reading took longer than %d seconds; narrow the list with filters or a smaller limit, or retry later.", int(readTimeout.Seconds()))
	f.RetryAfter = 2 * time.Second
	return f.Because(cause)
}

// reading is one query outside of transactions, until its rows are closed. It is
// the context of the query, so that the connection which runs it finds it.
type reading struct {
	context.Context
	db     *DB
	origin *txn.Origin
	query  string
	start  time.Time

	mu      sync.Mutex
	ended   bool
	late    bool
	timer   *time.Timer
	release func()
	cancel  context.CancelFunc // of PostgreSQL's context
	sqlite  uintptr            // what runs it; 0: nothing yet
}

type readingKey struct{}

// Value implements context.Context.
func (r *reading) Value(key any) any {
	if key == (readingKey{}) {
		return r
	}
	return r.Context.Value(key)
}

func readingOf(ctx context.Context) *reading {
	r, _ := ctx.Value(readingKey{}).(*reading)
	return r
}

// startReading waits for a connection of the company's share, where the query is
// of a request that only reads, and starts its time.
func (db *DB) startReading(ctx context.Context, query string) (*reading, error) {
	r := &reading{Context: db.reading(ctx), db: db, origin: txn.OriginOf(ctx), query: query, start: time.Now()}
	if !r.origin.Reads || r.origin.Tenant == "" {
		return r, nil
	}
	release, err := db.shares.Acquire(ctx, r.origin.Tenant)
	if fault.Is(err, fault.Unavailable) {
		return nil, errQueryTimeout(err)
	}
	if err != nil {
		return nil, err
	}
	r.release = release
	left := readTimeout - time.Since(r.start)
	if db.Postgres() {
		r.Context, r.cancel = context.WithTimeout(r.Context, left)
	}
	r.timer = time.AfterFunc(left, r.expire)
	return r, nil
}

// expire ends the query where it is.
func (r *reading) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.late = true
	if r.sqlite != 0 {
		tls := libc.NewTLS()
		defer tls.Close()
		sqlite3.Xsqlite3_interrupt(tls, r.sqlite)
	}
}

// runOn is called before a connection to SQLite runs the query. It fails if there
// is no time left.
func (r *reading) runOn(c driver.Conn) error {
	if r == nil || r.timer == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.late {
		return errQueryTimeout(nil)
	}
	r.sqlite = handle(c)
	return nil
}

// handle returns SQLite's handle of a connection, which the driver does not
// export: its own way to interrupt a query needs a goroutine for each, and does
// not interrupt the search for a next row.
func handle(c driver.Conn) uintptr {
	v := reflect.Indirect(reflect.ValueOf(c)).FieldByName("db")
	if !v.IsValid() || v.Kind() != reflect.Uintptr {
		return 0
	}
	return uintptr(v.Uint())
}

// end is called when the rows are closed, or there are none. It may be called more
// than once.
func (r *reading) end() {
	if r == nil {
		return
	}
	r.mu.Lock()
	ended := r.ended
	r.ended = true
	r.mu.Unlock()
	if ended {
		return
	}
	if r.timer != nil {
		r.timer.Stop()
		r.release()
	}
	if r.cancel != nil {
		r.cancel()
	}
	r.db.cfg.took(r.origin, r.query, time.Since(r.start))
}

// failure returns the error of a query: [errQueryTimeout] if its time was up.
func (r *reading) failure(err error) error {
	if r == nil || err == nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.late || r.cancel != nil && time.Since(r.start) >= readTimeout {
		return errQueryTimeout(err)
	}
	return err
}

// took reports a statement that was slow.
func (c *Config) took(origin *txn.Origin, text string, took time.Duration) {
	if took >= slowStatement && c.Metrics.Slow != nil {
		c.Metrics.Slow(origin, text, took)
	}
}
