package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// withTable returns a database with a table t (k TEXT PRIMARY KEY, v BIGINT).
func withTable(t *testing.T, test func(t *testing.T, db *sqldb.DB)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, "CREATE TABLE t (k TEXT PRIMARY KEY, v BIGINT NOT NULL)")
		test(t, db)
	})
}

func exec(t testing.TB, db *sqldb.DB, query string, args ...any) {
	t.Helper()
	if err := db.Write(t.Context(), func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(query, args...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func count(t testing.TB, db *sqldb.DB) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), "SELECT COUNT(*) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func insert(tx txn.Tx, k string, v int) error {
	_, err := sqldb.From(tx).Exec("INSERT INTO t (k, v) VALUES (?, ?)", k, v)
	return err
}

func TestWriteCommits(t *testing.T) {
	t.Parallel()
	withTable(t, func(t *testing.T, db *sqldb.DB) {
		var order []string
		err := db.Write(t.Context(), func(tx txn.Tx) error {
			tx.AfterCommit(func() { order = append(order, fmt.Sprint("first ", count(t, db))) })
			tx.AfterCommit(func() { order = append(order, "second") })
			if err := insert(tx, "a", 1); err != nil {
				return err
			}
			var v int
			if err := sqldb.From(tx).QueryRow("SELECT v FROM t WHERE k = ?"+sqldb.From(tx).ForUpdate(), "a").Scan(&v); err != nil {
				return err
			}
			n, err := sqldb.From(tx).Exec("UPDATE t SET v = ? WHERE k = ?", v+1, "a")
			if n != 1 {
				t.Errorf("changed %d rows", n)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(order); got != "[first 1 second]" {
			t.Errorf("hints: %s", got)
		}
		var v int
		if err := db.QueryRow(t.Context(), "SELECT v FROM t WHERE k = ?", "a").Scan(&v); err != nil || v != 2 {
			t.Errorf("v = %d, %v", v, err)
		}
	})
}

func TestWriteRollsBack(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	for name, test := range map[string]struct {
		do   func(tx txn.Tx) error
		want func(error) bool
	}{
		"error":  {func(txn.Tx) error { return mine }, func(err error) bool { return err == mine }},
		"panic":  {func(txn.Tx) error { panic("boom") }, func(err error) bool { return fault.Is(err, fault.Internal) }},
		"unique": {func(tx txn.Tx) error { return insert(tx, "there", 2) }, sqldb.IsUnique},
		"unique that the closure swallows": {func(tx txn.Tx) error {
			insert(tx, "there", 2)
			return nil
		}, sqldb.IsUnique},
		"statement after a failed one": {func(tx txn.Tx) error {
			insert(tx, "there", 2)
			return insert(tx, "c", 2)
		}, func(err error) bool { return err != nil }},
		"rows left open": {func(tx txn.Tx) error {
			rows, err := sqldb.From(tx).Query("SELECT k FROM t")
			if err != nil {
				return err
			}
			defer rows.Close()
			return insert(tx, "c", 2)
		}, func(err error) bool { return err != nil }},
		"rows of a transaction that ends meanwhile": {func(tx txn.Tx) error {
			sqldb.EndContext(sqldb.From(tx))
			rows, err := sqldb.From(tx).Query("SELECT k FROM t")
			if err == nil {
				defer rows.Close()
			}
			return err
		}, func(err error) bool { return err != nil && !fault.Is(err, fault.Internal) }},
		"row of a transaction that ends meanwhile": {func(tx txn.Tx) error {
			sqldb.EndContext(sqldb.From(tx))
			var k string
			return sqldb.From(tx).QueryRow("SELECT k FROM t WHERE k = ?", "there").Scan(&k)
		}, func(err error) bool { return err != nil && !fault.Is(err, fault.Internal) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withTable(t, func(t *testing.T, db *sqldb.DB) {
				exec(t, db, "INSERT INTO t (k, v) VALUES ('there', 1)")
				err := db.Write(t.Context(), func(tx txn.Tx) error {
					tx.AfterCommit(func() { t.Error("a hint ran") })
					if err := insert(tx, "b", 1); err != nil {
						return err
					}
					return test.do(tx)
				})
				if !test.want(err) {
					t.Errorf("error %v", err)
				}
				if n := count(t, db); n != 1 {
					t.Errorf("%d rows", n)
				}
			})
		})
	}
}

func TestWriteGroups(t *testing.T) {
	t.Parallel()
	withTable(t, func(t *testing.T, db *sqldb.DB) {
		invalid := errors.New("invalid")
		var wg sync.WaitGroup
		errs := make([]error, 200)
		for i := range errs {
			wg.Go(func() {
				errs[i] = db.Write(t.Context(), func(tx txn.Tx) error {
					if err := insert(tx, fmt.Sprint(i), i); err != nil {
						return err
					}
					if i%7 == 1 {
						return invalid
					}
					return nil
				})
			})
		}
		wg.Wait()
		want := 0
		for i, err := range errs {
			if (i%7 == 1) != (err == invalid) || (err != nil && err != invalid) {
				t.Errorf("closure %d: %v", i, err)
			}
			if err == nil {
				want++
			}
		}
		if n := count(t, db); n != want {
			t.Errorf("%d rows, want %d", n, want)
		}
	})
}

func TestWriteAfterEndOfContext(t *testing.T) {
	t.Parallel()
	withTable(t, func(t *testing.T, db *sqldb.DB) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		err := db.Write(ctx, func(tx txn.Tx) error { return insert(tx, "a", 1) })
		if !fault.Is(err, fault.Unavailable) || !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("error %v", err)
		}
		if n := count(t, db); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}
