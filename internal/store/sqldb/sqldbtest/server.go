package sqldbtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/internal/store/sqldb"
)

const templateName = "agentd_template"

// server is a temporary PostgreSQL server. It is reached through a socket in its
// own directory, so that it can meet no other server.
type server struct {
	dir  string
	port string
	// alive is never read: its end, which comes with the test process however
	// that dies, makes the guard stop the server and remove the directory.
	alive io.WriteCloser
	mu    sync.Mutex // PostgreSQL copies one template at a time

	largeOnce sync.Once
	largeErr  error
}

// ErrNotInstalled is in the chain of errors of machines without PostgreSQL.
var ErrNotInstalled = errors.New("PostgreSQL is not installed")

func startedServer(tb testing.TB) *server {
	tb.Helper()
	s, err := start()
	if errors.Is(err, ErrNotInstalled) && os.Getenv("AGENTD_TEST_REQUIRE_POSTGRES") != "1" {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// fastest returns the directory in memory, where a copy of a database takes a third of
// the time, or "" where there is none with room for many.
func fastest() string {
	const shared, room = "/dev/shm", 4 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(shared, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < room {
		return ""
	}
	return shared
}

// guard runs the server with the settings that follow, until its standard input
// ends.
const guard = `program=$1 dir=$2
shift 2
"$program" -D "$dir/data" -k "$dir" -c max_connections=500 -c log_min_messages=fatal "$@" >"$dir/log" 2>&1 &
cat >/dev/null
kill -QUIT $!
wait $!
rm -rf "$dir"`

var start = sync.OnceValues(func() (*server, error) {
	s, err := run(fastest(), "listen_addresses=", "port=5432", "fsync=off", "synchronous_commit=off", "full_page_writes=off",
		"shared_buffers=64MB")
	if err != nil {
		return nil, err
	}
	return s, s.settled(s.prepare())
})

// StartDurable starts a server for measurements, with the settings that PostgreSQL
// comes with, on a disk and on a port of 127.0.0.1. It has the empty databases of
// the given names. stop, or the end of the process, ends it and removes its data.
func StartDurable(port string, databases ...string) (stop func(), err error) {
	s, err := run("", "listen_addresses=127.0.0.1", "port="+port)
	if err != nil {
		return nil, err
	}
	s.port = port
	err = s.answers()
	for _, name := range databases {
		if err == nil {
			err = s.admin("CREATE DATABASE " + name)
		}
	}
	return func() { s.alive.Close() }, s.settled(err)
}

// run starts a server in a directory of its own below a parent; it may not answer
// yet.
func run(parent string, settings ...string) (*server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "agentd-pg-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, port: "5432"}
	attr, err := owner(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	// A locale unlike C, so that a test sees where we rely on the order of bytes.
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en-US", "--no-sync", "--no-instructions")
	initdb.Dir, initdb.SysProcAttr = dir, attr
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w\n%s", err, out), os.RemoveAll(dir))
	}
	cmd := exec.Command("sh", "-c", guard, "guard", filepath.Join(bin, "postgres"), dir)
	for _, setting := range settings {
		cmd.Args = append(cmd.Args, "-c", setting)
	}
	cmd.Dir, cmd.SysProcAttr = dir, attr
	if s.alive, err = cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// settled ends a server that could not be prepared, and returns why.
func (s *server) settled(err error) error {
	if err == nil {
		return nil
	}
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	s.alive.Close()
	return fmt.Errorf("start PostgreSQL: %w\n%s", err, log)
}

// answers waits until the server answers.
func (s *server) answers() error {
	deadline := time.Now().Add(30 * time.Second)
	err := s.check()
	for err != nil && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
		err = s.check()
	}
	return err
}

// prepare makes the template.
func (s *server) prepare() error {
	if err := s.answers(); err != nil {
		return err
	}
	if err := s.admin("CREATE DATABASE " + templateName); err != nil {
		return err
	}
	return migrate(sqldb.Config{URL: s.url(templateName)})
}

// check returns an error unless it is our server that answers.
func (s *server) check() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var dir string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&dir); err != nil {
		return err
	}
	if want := filepath.Join(s.dir, "data"); dir != want {
		return fmt.Errorf("the server's data directory is %s, not %s", dir, want)
	}
	return nil
}

// admin runs a statement that cannot be part of a transaction.
func (s *server) admin(statement string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

func (s *server) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + database,
		RawQuery: url.Values{"host": {s.dir}, "port": {s.port}}.Encode()}
	return u.String()
}

func migrate(cfg sqldb.Config) error {
	ctx := context.Background()
	db, err := sqldb.Open(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(db.Migrate(ctx), db.Close())
}

// binaries finds the newest installed server.
func binaries() (dir string, err error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		return "", ErrNotInstalled
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }), nil
}

func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

// owner returns the user that the server runs as. It refuses to run as root; then
// it is user postgres, who becomes the owner of the directory.
func owner(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, ErrNotInstalled
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// Binary returns the path of a program that comes with the installed PostgreSQL.
func Binary(tb testing.TB, name string) string {
	tb.Helper()
	path, err := Program(name)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Program is Binary outside of tests.
func Program(name string) (string, error) {
	dir, err := binaries()
	if err != nil {
		return "", err
	}
	if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
		return path, nil
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("%w: there is no %s", ErrNotInstalled, name)
	}
	return found[len(found)-1], nil
}
