package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

// groups counts what the writer reports.
type groups struct {
	mu        sync.Mutex
	committed []int
	failed    int
	repeated  int
}

func (g *groups) metrics() sqldb.Metrics {
	return sqldb.Metrics{
		Committed: func(n int, _ time.Duration) { g.mu.Lock(); g.committed = append(g.committed, n); g.mu.Unlock() },
		Failed:    func(n int, _ error) { g.mu.Lock(); g.failed += n; g.mu.Unlock() },
		Repeated:  func(n int) { g.mu.Lock(); g.repeated += n; g.mu.Unlock() },
	}
}

// openSQLite opens a database with table t.
func openSQLite(t *testing.T, cfg sqldb.Config) *sqldb.DB {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	db, err := sqldb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	exec(t, db, "CREATE TABLE IF NOT EXISTS t (k TEXT PRIMARY KEY, v BIGINT NOT NULL)")
	return db
}

// together makes the writer commit closures in one group, in their order, and
// returns their errors.
func together(t *testing.T, db *sqldb.DB, closures ...func(tx txn.Tx) error) []error {
	t.Helper()
	return togetherUntil(t.Context(), t, db, closures...)
}

// togetherUntil is together where ctx is the last closure's.
func togetherUntil(ctx context.Context, t *testing.T, db *sqldb.DB, closures ...func(tx txn.Tx) error) []error {
	t.Helper()
	begun, resume := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := db.Write(t.Context(), func(txn.Tx) error {
			close(begun)
			<-resume
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-begun
	errs := make([]error, len(closures))
	for i, do := range closures {
		queued := sqldb.Queued(db)
		wg.Go(func() {
			if i == len(closures)-1 {
				errs[i] = db.Write(ctx, do)
			} else {
				errs[i] = db.Write(t.Context(), do)
			}
		})
		for sqldb.Queued(db) == queued {
			runtime.Gosched()
		}
	}
	close(resume)
	wg.Wait()
	return errs
}

func TestGroupIsOneCommit(t *testing.T) {
	t.Parallel()
	var g groups
	db := openSQLite(t, sqldb.Config{Metrics: g.metrics()})
	var closures []func(tx txn.Tx) error
	for i := range 300 {
		closures = append(closures, func(tx txn.Tx) error { return insert(tx, fmt.Sprint(i), i) })
	}
	for i, err := range together(t, db, closures...) {
		if err != nil {
			t.Errorf("closure %d: %v", i, err)
		}
	}
	// The table, the closure that made the others wait, and the groups.
	if want := []int{1, 1, 256, 44}; !slices.Equal(g.committed, want) || g.repeated != 0 {
		t.Errorf("commits of %v, %d repeated", g.committed, g.repeated)
	}
}

func TestGroupOutlivesFailures(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	for name, test := range map[string]struct {
		bad      func(tx txn.Tx) error
		want     func(error) bool
		repeated int // closures that ran twice
	}{
		"before it wrote": {func(tx txn.Tx) error {
			var n int
			return errors.Join(mine, sqldb.From(tx).QueryRow("SELECT COUNT(*) FROM t").Scan(&n))
		}, func(err error) bool { return errors.Is(err, mine) }, 0},
		"in its first statement": {func(tx txn.Tx) error {
			return insert(tx, "before", 1)
		}, sqldb.IsUnique, 0},
		"after it wrote": {func(tx txn.Tx) error {
			return errors.Join(insert(tx, "bad", 1), mine)
		}, func(err error) bool { return errors.Is(err, mine) }, 3},
		"after it wrote by a query": {func(tx txn.Tx) error {
			var k string
			err := sqldb.From(tx).QueryRow("INSERT INTO t (k, v) VALUES ('bad', 1) RETURNING k").Scan(&k)
			return errors.Join(err, mine)
		}, func(err error) bool { return errors.Is(err, mine) }, 3},
		"by a panic": {func(tx txn.Tx) error {
			if err := insert(tx, "bad", 1); err != nil {
				return err
			}
			panic("boom")
		}, func(err error) bool { return fault.Is(err, fault.Internal) }, 3},
		"with rows open": {func(tx txn.Tx) error {
			if err := insert(tx, "bad", 1); err != nil {
				return err
			}
			_, err := sqldb.From(tx).Query("SELECT k FROM t")
			return err
		}, func(err error) bool { return err != nil }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g groups
			db := openSQLite(t, sqldb.Config{Metrics: g.metrics()})
			ok := func(key string) func(tx txn.Tx) error {
				return func(tx txn.Tx) error { return insert(tx, key, 1) }
			}
			errs := together(t, db, ok("before"), test.bad, ok("after"))
			if errs[0] != nil || errs[2] != nil || !test.want(errs[1]) {
				t.Errorf("errors %v", errs)
			}
			if n := count(t, db); n != 2 {
				t.Errorf("%d rows", n)
			}
			if g.repeated != test.repeated {
				t.Errorf("%d closures repeated, want %d", g.repeated, test.repeated)
			}
		})
	}
}

func TestGroupOutlivesGoexit(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, sqldb.Config{})
	done := make(chan struct{})
	go func() { // in its caller's goroutine
		defer close(done)
		db.Write(t.Context(), func(tx txn.Tx) error {
			insert(tx, "a", 1)
			runtime.Goexit()
			return nil
		})
	}()
	<-done
	errs := together(t, db, func(tx txn.Tx) error { // and in the writer's
		insert(tx, "b", 1)
		runtime.Goexit()
		return nil
	})
	if errs[0] == nil {
		t.Error("no error")
	}
	exec(t, db, "INSERT INTO t (k, v) VALUES ('c', 1)")
	if n := count(t, db); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestQueuedWriteEndsWithItsContext(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, sqldb.Config{})
	never := func(txn.Tx) error {
		t.Error("it ran")
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	errs := togetherUntil(ctx, t, db, func(tx txn.Tx) error {
		cancel() // while the group is committed already
		return insert(tx, "a", 1)
	}, never)
	if errs[0] != nil || !errors.Is(errs[1], context.Canceled) || count(t, db) != 1 {
		t.Error(errs)
	}
	begun, resume := make(chan struct{}), make(chan struct{})
	go db.Write(t.Context(), func(txn.Tx) error {
		close(begun)
		<-resume
		return nil
	})
	<-begun
	defer close(resume)
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := db.Write(ctx, never)
	if !errors.Is(err, context.DeadlineExceeded) || !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}

func TestCloseEndsWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openSQLite(t, sqldb.Config{Dir: dir})
	var wg sync.WaitGroup
	var mu sync.Mutex
	accepted := 0
	for i := range 50 {
		wg.Go(func() {
			for j := 0; ; j++ {
				err := db.Write(context.Background(), func(tx txn.Tx) error { return insert(tx, fmt.Sprint(i, "-", j), 1) })
				if err != nil {
					if !fault.Is(err, fault.Unavailable) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				accepted++
				mu.Unlock()
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	again := openSQLite(t, sqldb.Config{Dir: dir})
	if n := count(t, again); n != accepted || n == 0 {
		t.Errorf("%d rows of %d", n, accepted)
	}
}

func TestHintsThatPanicHarmNobody(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, sqldb.Config{})
	ran := false
	if err := db.Write(t.Context(), func(tx txn.Tx) error {
		tx.AfterCommit(func() { panic("boom") })
		tx.AfterCommit(func() { ran = true })
		return insert(tx, "a", 1)
	}); err != nil || !ran {
		t.Error(err, ran)
	}
}
