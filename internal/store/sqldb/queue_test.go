package sqldb_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

const insertRow = "INSERT INTO t (k, v) VALUES (?, ?)"

func queue(tx txn.Tx, k string, v int) error { return sqldb.From(tx).Queue(insertRow, k, v) }

// What is queued is there for the statements after it, and after the commit.
func TestQueuedStatements(t *testing.T) {
	t.Parallel()
	withTable(t, func(t *testing.T, db *sqldb.DB) {
		var seen []int
		hinted := false
		err := db.Write(t.Context(), func(tx txn.Tx) error {
			tx.AfterCommit(func() { hinted = true })
			seen = nil
			for _, k := range []string{"a", "b"} {
				if err := queue(tx, k, 1); err != nil {
					return err
				}
			}
			var n int
			if err := sqldb.From(tx).QueryRow("SELECT COUNT(*) FROM t").Scan(&n); err != nil {
				return err
			}
			seen = append(seen, n)
			if err := queue(tx, "c", 2); err != nil {
				return err
			}
			changed, err := sqldb.From(tx).Exec("UPDATE t SET v = v + 1")
			if err != nil {
				return err
			}
			seen = append(seen, int(changed))
			return queue(tx, "d", 3)
		})
		if err != nil || len(seen) != 2 || seen[0] != 2 || seen[1] != 3 || !hinted {
			t.Errorf("%v, %v, hint: %t", seen, err, hinted)
		}
		if n := count(t, db); n != 4 {
			t.Errorf("%d rows", n)
		}
		if err := db.Write(t.Context(), func(txn.Tx) error { return nil }); err != nil {
			t.Errorf("a transaction of nothing: %v", err)
		}
	})
}

// Whenever the result of a queued statement comes, it is an error of the
// transaction, as the statement's caller would have it, and nothing is written.
func TestQueuedStatementsFail(t *testing.T) {
	t.Parallel()
	taken, missing := errors.New("taken"), errors.New("missing")
	statements := map[string]struct {
		queue func(tx txn.Tx) error
		want  error
	}{
		"unique": {func(tx txn.Tx) error {
			or := func(err error) error { return sqldb.UniqueAs(err, taken) }
			return sqldb.From(tx).QueueExpecting(sqldb.Expect{Or: or}, insertRow, "there", 1)
		}, taken},
		"no_row": {func(tx txn.Tx) error {
			row := func() error {
				var n int
				if err := sqldb.From(tx).QueryRow("SELECT COUNT(*) FROM t WHERE k = 'there'").Scan(&n); err != nil || n != 1 {
					return errors.Join(errors.New("the transaction is not usable"), err)
				}
				return missing
			}
			return sqldb.From(tx).QueueExpecting(sqldb.Expect{Row: row}, "UPDATE t SET v = ? WHERE k = ?", 1, "gone")
		}, missing},
	}
	next := map[string]func(tx txn.Tx) error{
		"commit": func(txn.Tx) error { return nil },
		"queue":  func(tx txn.Tx) error { return queue(tx, "after", 1) },
		"exec":   func(tx txn.Tx) error { return insert(tx, "after", 1) },
		"row": func(tx txn.Tx) error {
			var n int
			return sqldb.From(tx).QueryRow("SELECT COUNT(*) FROM t").Scan(&n)
		},
		"rows": func(tx txn.Tx) error {
			_, err := sqldb.Collect(sqldb.From(tx).Query, "SELECT k FROM t", nil, func(r sqldb.Row) (k string, err error) { return k, r.Scan(&k) })
			return err
		},
		"ignored": func(tx txn.Tx) error {
			_ = insert(tx, "after", 1)
			return nil
		},
	}
	withTable(t, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, "INSERT INTO t (k, v) VALUES ('there', 0)")
		for name, s := range statements {
			for then, do := range next {
				err := db.Write(t.Context(), func(tx txn.Tx) error {
					tx.AfterCommit(func() { t.Error("a hint ran") })
					if err := queue(tx, "before", 1); err != nil {
						return err
					}
					if err := s.queue(tx); err != nil {
						return err
					}
					return do(tx)
				})
				if !errors.Is(err, s.want) {
					t.Errorf("%s, then %s: %v", name, then, err)
				}
				if n := count(t, db); n != 1 {
					t.Fatalf("%s, then %s: %d rows are there", name, then, n)
				}
			}
		}
	})
}

// Transactions that collide in what they queued are repeated.
func TestQueuedDeadlockIsRepeated(t *testing.T) {
	t.Parallel()
	withTable(t, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, "INSERT INTO t (k, v) VALUES ('a', 0), ('b', 0)")
		var wg sync.WaitGroup
		for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
			wg.Go(func() {
				for range 20 {
					if err := db.Write(t.Context(), func(tx txn.Tx) error {
						for _, k := range order {
							if err := sqldb.From(tx).Queue("UPDATE t SET v = v + 1 WHERE k = ?", k); err != nil {
								return err
							}
						}
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		var sum int
		if err := db.QueryRow(t.Context(), "SELECT SUM(v) FROM t").Scan(&sum); err != nil || sum != 80 {
			t.Errorf("sum %d, %v", sum, err)
		}
	})
}

// A transaction that is sent at once, with its commit, over a connection that died
// while it was idle goes over another one; it is not refused and not written twice.
func TestQueuedTransactionsMeetDeadConnections(t *testing.T) {
	t.Parallel()
	db, w := throughWay(t, sqldb.Metrics{})
	for i, k := range []string{"a", "b", "c", "d"} {
		if i%2 == 0 {
			exec(t, db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
			w.set(true)
			w.set(false)
		}
		if err := db.Write(t.Context(), func(tx txn.Tx) error { return queue(tx, k, 1) }); err != nil {
			t.Error(err)
		}
	}
	if n := count(t, db); n != 4 {
		t.Errorf("%d rows", n)
	}
}

// Of a transaction that is sent at once nobody knows whether it was committed when
// the connection is lost: it is not repeated.
func TestQueuedTransactionThatIsLost(t *testing.T) {
	t.Parallel()
	db, w := throughWay(t, sqldb.Metrics{})
	exec(t, db, insertRow, "locked", 0)
	outers, lost := 0, errors.New("lost too")
	err := db.Write(t.Context(), func(outer txn.Tx) error {
		if outers++; outers > 1 {
			return lost
		}
		if _, err := sqldb.From(outer).Exec("UPDATE t SET v = 1 WHERE k = 'locked'"); err != nil {
			return err
		}
		runs, done := 0, make(chan error, 1)
		go func() {
			done <- db.Write(t.Context(), func(tx txn.Tx) error {
				runs++
				return sqldb.From(tx).Queue("UPDATE t SET v = v + 10 WHERE k = 'locked'")
			})
		}()
		for waiting := 0; waiting == 0; time.Sleep(time.Millisecond) {
			err := sqldb.From(outer).QueryRow("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting)
			if err != nil {
				return err
			}
		}
		w.set(true)
		if err := <-done; !fault.Is(err, fault.Unavailable) || runs != 1 {
			t.Errorf("after %d runs: %v", runs, err)
		}
		w.set(false)
		return lost
	})
	if err == nil {
		t.Error("a transaction without a connection was committed")
	}
}

func BenchmarkQueue(b *testing.B) {
	for _, queued := range []bool{false, true} {
		b.Run(map[bool]string{false: "each", true: "queued"}[queued], func(b *testing.B) {
			db := sqldbtest.Open(b, sqldbtest.Postgres)
			exec(b, db, benchTable)
			parallel(b, 16, func(id int64) error {
				return db.Write(b.Context(), func(tx txn.Tx) error {
					for i := range int64(5) {
						if queued {
							if err := sqldb.From(tx).Queue(benchInsert, id*5+i, "m", "running", benchInput, id); err != nil {
								return err
							}
							continue
						}
						if _, err := sqldb.From(tx).Exec(benchInsert, id*5+i, "m", "running", benchInput, id); err != nil {
							return err
						}
					}
					return nil
				})
			})
		})
	}
}

// A closure that leaves rows open, also by a panic, fails and does not hold up its
// connection.
func TestRowsLeftOpen(t *testing.T) {
	t.Parallel()
	withTable(t, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, "INSERT INTO t (k, v) VALUES ('a', 0), ('b', 0)")
		for name, do := range map[string]func(tx *sqldb.Tx){
			"rows":  func(tx *sqldb.Tx) { _, _ = tx.Query("SELECT k FROM t") },
			"row":   func(tx *sqldb.Tx) { _ = tx.QueryRow("SELECT k FROM t") },
			"panic": func(tx *sqldb.Tx) { _, _ = tx.Query("SELECT k FROM t"); panic("no") },
		} {
			err := db.Write(t.Context(), func(tx txn.Tx) error {
				do(sqldb.From(tx))
				return nil
			})
			if err == nil {
				t.Errorf("%s: committed", name)
			}
			exec(t, db, "UPDATE t SET v = v + 1")
		}
	})
}
