package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// guard runs the server until its standard input ends, however the bench ends.
const guard = `"$1" -D "$2" -k "$3" -c listen_addresses= -c port=5432 -c shared_buffers=512MB -c max_wal_size=4GB >"$3/log" 2>&1 &
cat >/dev/null
kill -INT $!
wait $!`

// startPostgres runs a server of its own, which listens on a socket in a temporary
// directory, and returns the address of an empty database. It is as durable as one is
// by default.
func startPostgres() (address string, stop func() error, err error) {
	bin, err := postgresDir()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "agentd-pg-")
	if err != nil {
		return "", nil, err
	}
	attr, err := postgresUser(dir)
	if err != nil {
		return "", nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-instructions")
	initdb.Dir, initdb.SysProcAttr = dir, attr
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	server := exec.Command("sh", "-c", guard, "guard", filepath.Join(bin, "postgres"), data, dir)
	server.Dir, server.SysProcAttr = dir, attr
	alive, err := server.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error {
		// How a shell ends whose child was interrupted is of no interest.
		err := alive.Close()
		_ = server.Wait()
		return errors.Join(err, os.RemoveAll(dir))
	}
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/postgres",
		RawQuery: url.Values{"host": {dir}, "port": {"5432"}}.Encode()}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if err = ping(u.String()); err == nil {
			return u.String(), stop, nil
		}
		if time.Since(begin) > 30*time.Second {
			return "", nil, errors.Join(fmt.Errorf("PostgreSQL does not answer: %w", err), stop())
		}
	}
}

func ping(address string) error {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return db.PingContext(ctx)
}

// postgresDir returns the directory of an installed server's programs.
func postgresDir() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		return "", errors.Join(errors.New("PostgreSQL is not installed"), err)
	}
	return found[len(found)-1], nil
}

// postgresUser returns the user that the server runs as, and makes it the owner of
// its directory: as root it does not start.
func postgresUser(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// tableUse is how a table was written, and what it takes on disk.
type tableUse struct {
	name                 string
	updates, hot         int64
	heap, toast, indexes int64
}

// reportTables prints, on PostgreSQL, how many updates stayed within their page and
// what each table takes: its rows, the long values beside them, and its indexes.
func reportTables(address string, runs int) error {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Query(`SELECT s.relname, n_tup_upd, n_tup_hot_upd, pg_relation_size(s.relid),
		COALESCE(pg_total_relation_size(NULLIF(c.reltoastrelid, 0)), 0), pg_indexes_size(s.relid)
		FROM pg_stat_user_tables AS s JOIN pg_class AS c ON c.oid = s.relid
		ORDER BY pg_total_relation_size(s.relid) DESC LIMIT 12`)
	if err != nil {
		return err
	}
	defer rows.Close()
	fmt.Println("\n| Table | updates | of them HOT | bytes a run: rows | long values | indexes |\n|---|--:|--:|--:|--:|--:|")
	for rows.Next() {
		var t tableUse
		if err := rows.Scan(&t.name, &t.updates, &t.hot, &t.heap, &t.toast, &t.indexes); err != nil {
			return err
		}
		n := int64(runs)
		fmt.Printf("| `%s` | %d | %d | %d | %d | %d |\n", t.name, t.updates, t.hot, t.heap/n, t.toast/n, t.indexes/n)
	}
	return rows.Err()
}

// postgresBytes returns the size of the database.
func postgresBytes(address string) (n int64, err error) {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRow(`SELECT pg_database_size(current_database())`).Scan(&n)
	return n, err
}
