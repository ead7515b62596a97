package sqldb_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// slowQuery counts to n without an end that a test waits for; withRows returns a
// row first, and searches for the next one then.
const (
	slowQuery = `WITH RECURSIVE c (n) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT n + 1 FROM c WHERE n < ?) SELECT COUNT(*) FROM c`
	withRows  = `WITH RECURSIVE c (n) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT n + 1 FROM c WHERE n < ?) SELECT n FROM c WHERE n = 1 OR n < 0`
	forever   = int64(1) << 40
)

func reader(tenant string) *txn.Origin {
	return &txn.Origin{Tenant: tenant, Route: "GET /things", Reads: true}
}

func read(ctx context.Context, db *sqldb.DB, query string) error {
	_, err := sqldb.Collect(db.Reader(ctx), query, []any{forever}, func(row sqldb.Row) (n int64, err error) { return n, row.Scan(&n) })
	return err
}

// timedOut reports whether a query was ended for its length. On PostgreSQL database/sql
// may see the end of the context before the driver does, and then returns the context's
// error, which is a 503 too.
func timedOut(err error) bool {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return errors.Is(err, context.DeadlineExceeded)
	}
	return f.Code == "QUERY_TIMEOUT" && f.Kind == fault.Unavailable && f.RetryAfter > 0
}

// A query ends after two seconds: in the search for its first row, for a later
// one, and also where one row is asked for.
func TestQueryTimeout(t *testing.T) {
	t.Parallel()
	for _, engine := range sqldbtest.Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var slow []string
			db := sqldbtest.OpenWith(t, engine, func(cfg *sqldb.Config) {
				cfg.Metrics.Slow = func(o *txn.Origin, text string, took time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					if took > time.Second && strings.HasPrefix(text, "WITH RECURSIVE") {
						slow = append(slow, o.Route)
					}
				}
			})
			var wg sync.WaitGroup
			for name, read := range map[string]func(ctx context.Context) error{
				"first row": func(ctx context.Context) error { return read(ctx, db, slowQuery) },
				"next row":  func(ctx context.Context) error { return read(ctx, db, withRows) },
				"one row": func(ctx context.Context) error {
					var n int64
					return db.QueryRow(ctx, slowQuery, forever).Scan(&n)
				},
			} {
				wg.Go(func() {
					start := time.Now()
					err := read(txn.WithOrigin(t.Context(), reader(name)))
					if took := time.Since(start); !timedOut(err) || took > 20*time.Second {
						t.Errorf("%s: after %s: %v", name, took, err)
					}
				})
			}
			wg.Wait()
			if err := db.QueryRow(t.Context(), `SELECT 1`).Scan(new(int)); err != nil {
				t.Error("afterwards:", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(slow) < 3 || slow[0] != "GET /things" {
				t.Errorf("slow statements of %v", slow)
			}
		})
	}
}

// One company's slow queries leave readers to others, and to requests that write.
func TestShareOfReaders(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 8 {
		wg.Go(func() {
			if err := read(txn.WithOrigin(t.Context(), reader("busy")), db, slowQuery); !timedOut(err) {
				t.Error(err)
			}
		})
	}
	// Until the share of the company is taken.
	for start := time.Now(); sqldb.ReadersInUse(db) < 2 && time.Since(start) < 10*time.Second; {
		time.Sleep(time.Millisecond)
	}
	for _, o := range []*txn.Origin{reader("other"), {Tenant: "busy", Route: "POST /things"}, {}} {
		for range 20 {
			if err := db.QueryRow(txn.WithOrigin(t.Context(), o), `SELECT 1`).Scan(new(int)); err != nil {
				t.Error(o.Tenant, o.Route, err)
			}
		}
		if n := sqldb.ReadersInUse(db); n != 2 {
			t.Errorf("the slow queries have %d connections while %q %q reads, want 2", n, o.Tenant, o.Route)
		}
	}
}
