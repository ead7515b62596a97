package sqldb_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

// write inserts a row of its own.
func write(t *testing.T, db *sqldb.DB, key string) error {
	return db.Write(t.Context(), func(tx txn.Tx) error { return insert(tx, key, 1) })
}

// refused proves that the database says 503 and takes nothing.
func refused(t *testing.T, db *sqldb.DB) {
	t.Helper()
	err := write(t, db, "refused")
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("write: %v", err)
	}
	if f := fault.From(err); f.RetryAfter == 0 || strings.Contains(f.Detail, "SQL") {
		t.Errorf("retry after %v, %q", f.RetryAfter, f.Detail)
	}
	if err := db.Ready(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("ready: %v", err)
	}
}

// recovered proves that it works again.
func recovered(t *testing.T, db *sqldb.DB, rows int) {
	t.Helper()
	if err := db.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
	if err := write(t, db, fmt.Sprint("recovered ", rows)); err != nil {
		t.Errorf("write: %v", err)
	}
	if n := count(t, db); n != rows {
		t.Errorf("%d rows, want %d", n, rows)
	}
}

func TestLockedDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openSQLite(t, sqldb.Config{Dir: dir, BusyTimeout: 50 * time.Millisecond})
	other, err := sql.Open("sqlite", filepath.Join(dir, "agentd.db")+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	lock, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	refused(t, db)
	if n := count(t, db); n != 0 { // reading goes on
		t.Errorf("%d rows", n)
	}
	if err := lock.Rollback(); err != nil {
		t.Fatal(err)
	}
	recovered(t, db, 1)
}

func TestDatabaseThatIsGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openSQLite(t, sqldb.Config{Dir: dir})
	file := filepath.Join(dir, "agentd.db")
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	refused(t, db)
	if err := os.WriteFile(file, nil, 0o600); err != nil { // another file in its place
		t.Fatal(err)
	}
	refused(t, db)
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	recovered(t, db, 1)
}

// TestFullDatabase is full while statements run.
func TestFullDatabase(t *testing.T) {
	t.Parallel()
	var g groups
	db := openSQLite(t, sqldb.Config{Metrics: g.metrics()})
	exec(t, db, "PRAGMA max_page_count = 20")
	big := strings.Repeat("x", 100_000)
	errs := together(t, db,
		func(tx txn.Tx) error { return insert(tx, "neighbour", 1) },
		func(tx txn.Tx) error { return insert(tx, big, 1) },
		func(tx txn.Tx) error {
			insert(tx, big+"y", 1) // and the closure does not care
			return nil
		})
	for i, err := range errs {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("closure %d: %v", i, err)
		}
	}
	if g.failed != 3 {
		t.Errorf("%d failures reported", g.failed)
	}
	exec(t, db, "PRAGMA max_page_count = 100000")
	recovered(t, db, 1)
}

// TestFullDisk is full when the commit is written. It needs root, to mount a
// small disk.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	db, err := sqldb.Open(t.Context(), sqldb.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec(t, db, "CREATE TABLE t (k TEXT PRIMARY KEY, v BIGINT NOT NULL)")
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 600_000), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for ; rows < 1000; rows++ {
		if err = write(t, db, fmt.Sprintf("%d %s", rows, strings.Repeat("x", 10_000))); err != nil {
			break
		}
	}
	if !fault.Is(err, fault.Unavailable) || rows == 0 {
		t.Fatalf("%d rows fit, then %v", rows, err)
	}
	for range 3 {
		if err := write(t, db, strings.Repeat("y", 10_000)); !fault.Is(err, fault.Unavailable) {
			t.Errorf("write: %v", err)
		}
	}
	if n := count(t, db); n != rows {
		t.Errorf("%d rows, want %d", n, rows)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	recovered(t, db, rows+1)
}

func TestReadinessHasADeadline(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, sqldb.Config{})
	begun, resume := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(resume)
	wg.Go(func() {
		db.Write(t.Context(), func(txn.Tx) error {
			close(begun)
			<-resume
			return nil
		})
	})
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for range 3 {
		if err := db.Ready(ctx); !fault.Is(err, fault.Unavailable) {
			t.Error(err)
		}
	}
}

func TestTwoProcessesWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dbs := []*sqldb.DB{openSQLite(t, sqldb.Config{Dir: dir}), openSQLite(t, sqldb.Config{Dir: dir, BusyTimeout: 30 * time.Second})}
	var wg sync.WaitGroup
	for i, db := range dbs {
		wg.Go(func() {
			for j := range 100 {
				if err := write(t, db, fmt.Sprint(i, "-", j)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := count(t, dbs[0]); n != 200 {
		t.Errorf("%d rows", n)
	}
}

func TestLockDir(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	release, err := sqldb.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqldb.LockDir(dir); !errors.Is(err, sqldb.ErrDirLocked) {
		t.Errorf("locked twice: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	again, err := sqldb.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
}

// TestKilledProcess proves that what was acknowledged is there after kill -9,
// and that nothing is there by half.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	const variable = "SQLDB_TEST_KILLED_IN"
	if dir := os.Getenv(variable); dir != "" {
		writeUntilKilled(t, dir)
	}
	dir := t.TempDir()
	acknowledged := make(map[string]bool)
	for range 3 {
		cmd := osexec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
		cmd.Env = append(os.Environ(), variable+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if key, ok := strings.CutPrefix(lines.Text(), "ok "); ok {
				acknowledged[key] = true
			}
			if n == 200 {
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
	}
	db := openSQLite(t, sqldb.Config{Dir: dir})
	rows, err := db.Query(t.Context(), "SELECT k FROM t ORDER BY k")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	there := make(map[string]bool)
	for rows.Next() {
		var k string
		if err := rows.Scan(&k); err != nil {
			t.Fatal(err)
		}
		there[k] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if len(acknowledged) < 500 {
		t.Fatalf("only %d writes were acknowledged", len(acknowledged))
	}
	for key := range acknowledged {
		if !there[key+" a"] {
			t.Errorf("%s is lost", key)
		}
	}
	for k := range there {
		key, half, _ := strings.Cut(k, " ")
		other := map[string]string{"a": "b", "b": "a"}[half]
		if !there[key+" "+other] {
			t.Errorf("half of %s is there", key)
		}
	}
}

func writeUntilKilled(t *testing.T, dir string) {
	db := openSQLite(t, sqldb.Config{Dir: dir})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100_000 {
				key := fmt.Sprintf("%d-%d-%d", os.Getpid(), i, j)
				if err := db.Write(t.Context(), func(tx txn.Tx) error {
					return errors.Join(insert(tx, key+" a", 1), insert(tx, key+" b", 1))
				}); err != nil {
					t.Error(err)
					return
				}
				fmt.Println("ok " + key)
			}
		})
	}
	wg.Wait()
}

// A process that is being started has copies of all files until it runs its program. A
// directory is free although one still has its lock.
func TestLockDirWhileAProcessStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	release, err := sqldb.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	inherited := -1
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("open files are not listed here: ", err)
	}
	for _, f := range open {
		if path, _ := os.Readlink("/proc/self/fd/" + f.Name()); filepath.Dir(path) == dir {
			n, err := strconv.Atoi(f.Name())
			if err == nil {
				inherited, err = syscall.Dup(n)
			}
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if inherited < 0 {
		t.Fatal("the lock is no open file")
	}
	defer syscall.Close(inherited)
	if err := release(); err != nil {
		t.Fatal(err)
	}
	again, err := sqldb.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
}
