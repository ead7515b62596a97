package sqldb_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// way is the way to a PostgreSQL server, which can be cut.
type way struct {
	t      *testing.T
	server string // its socket
	mu     sync.Mutex
	cut    bool
	conns  []net.Conn
	wg     sync.WaitGroup
}

// throughWay returns a database with table t behind a connection that can be cut.
func throughWay(t *testing.T, m sqldb.Metrics) (*sqldb.DB, *way) {
	t.Helper()
	cfg := sqldbtest.Config(t, sqldbtest.Postgres)
	u, err := url.Parse(cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	w := &way{t: t, server: filepath.Join(q.Get("host"), ".s.PGSQL.5432")}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.wg.Go(func() { w.serve(l) })
	t.Cleanup(func() {
		l.Close()
		w.set(true)
		w.wg.Wait()
	})
	q.Del("host")
	q.Del("port")
	u.Host, u.RawQuery = l.Addr().String(), q.Encode()
	cfg.URL, cfg.Metrics = u.String(), m
	db, err := sqldb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	exec(t, db, "CREATE TABLE t (k TEXT PRIMARY KEY, v BIGINT NOT NULL)")
	return db, w
}

func (w *way) serve(l net.Listener) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("unix", w.server)
		if err != nil {
			w.t.Error(err)
			return
		}
		w.mu.Lock()
		w.conns = append(w.conns, from, to)
		if w.cut {
			from.Close()
			to.Close()
		}
		w.mu.Unlock()
		for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
			w.wg.Go(func() {
				io.Copy(pair[0], pair[1])
				pair[0].Close()
			})
		}
	}
}

// set cuts the way and every connection, or restores it.
func (w *way) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

func TestPostgresOutage(t *testing.T) {
	t.Parallel()
	var g groups
	db, w := throughWay(t, g.metrics())
	var n int
	for rows := 1; rows < 4; rows++ {
		w.set(true)
		refused(t, db)
		if err := db.QueryRow(t.Context(), "SELECT COUNT(*) FROM t").Scan(&n); !fault.Is(err, fault.Unavailable) {
			t.Errorf("read: %v", err)
		}
		if _, err := db.Query(t.Context(), "SELECT k FROM t"); !fault.Is(err, fault.Unavailable) {
			t.Errorf("read: %v", err)
		}
		w.set(false)
		recovered(t, db, rows)
	}
	if g.failed != 3 {
		t.Errorf("%d failures reported", g.failed)
	}
}

// TestPostgresDeadConnections are those of a server that restarted meanwhile.
func TestPostgresDeadConnections(t *testing.T) {
	t.Parallel()
	db, w := throughWay(t, sqldb.Metrics{})
	for rows := 1; rows < 10; rows++ {
		if rows%2 == 0 { // the clients are notified
			exec(t, db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		} else {
			w.set(true)
			w.set(false)
		}
		recovered(t, db, rows)
	}
}

func TestPostgresConnectionLostInTheMiddle(t *testing.T) {
	t.Parallel()
	db, w := throughWay(t, sqldb.Metrics{})
	err := db.Write(t.Context(), func(tx txn.Tx) error {
		tx.AfterCommit(func() { t.Error("a hint ran") })
		if err := insert(tx, "a", 1); err != nil {
			return err
		}
		w.set(true)
		insert(tx, "b", 1)
		return nil
	})
	if !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	w.set(false)
	recovered(t, db, 1)

	err = db.Write(t.Context(), func(tx txn.Tx) error {
		if err := insert(tx, "a", 1); err != nil {
			return err
		}
		w.set(true) // and the commit meets it
		return nil
	})
	if !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	w.set(false)
	recovered(t, db, 2)
}

// A query whose caller left is cancelled. Its connection is closed, since the server
// may get to the cancellation only when another query runs there.
func TestCancelledQueriesTakeTheirConnection(t *testing.T) {
	t.Parallel()
	cfg := sqldbtest.Config(t, sqldbtest.Postgres)
	cfg.MaxConns = 1
	db, err := sqldb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	backend := func() (pid int) {
		t.Helper()
		if err := db.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	first := backend()
	if again := backend(); again != first {
		t.Fatalf("the one connection is of %d, then of %d", first, again)
	}
	ctx, leave := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, leave)
	var slept string
	began := time.Now()
	if err := db.QueryRow(ctx, `SELECT pg_sleep(30)::text`).Scan(&slept); err == nil || time.Since(began) > 20*time.Second {
		t.Fatalf("the query ended after %v: %v", time.Since(began), err)
	}
	if second := backend(); second == first {
		t.Error("the connection is used again")
	}
}

// TestDeadlockIsRepeated has two writers take the same rows in opposite order.
func TestDeadlockIsRepeated(t *testing.T) {
	t.Parallel()
	withTable(t, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, "INSERT INTO t (k, v) VALUES ('a', 0), ('b', 0)")
		var wg sync.WaitGroup
		for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
			wg.Go(func() {
				for range 3 {
					runs := 0
					if err := db.Write(t.Context(), func(tx txn.Tx) error {
						runs++
						for _, k := range order {
							if _, err := sqldb.From(tx).Exec("UPDATE t SET v = v + 1 WHERE k = ?", k); err != nil {
								return fault.From(err) // as slices do
							}
							if runs == 1 {
								time.Sleep(20 * time.Millisecond)
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
		if err := db.QueryRow(t.Context(), "SELECT SUM(v) FROM t").Scan(&sum); err != nil || sum != 12 {
			t.Errorf("sum %d, %v", sum, err)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]sqldb.Config{
		"nothing":     {},
		"both":        {Dir: t.TempDir(), URL: "postgres://localhost/x"},
		"bad url":     {URL: "postgres://user:secret@host:port/x"},
		"no server":   {URL: "postgres://127.0.0.1:1/x"},
		"no such dir": {Dir: "/proc/nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := sqldb.Open(t.Context(), cfg)
			if err == nil {
				db.Close()
				t.Fatal("opened")
			}
			if name == "no server" && !fault.Is(err, fault.Unavailable) {
				t.Error(err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the password is in %q", err)
			}
		})
	}
}
