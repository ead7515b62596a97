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

// server is a temporary PostgreSQL server. It listens on a socket in its own
// directory only, so that it can meet no other server.
type server struct {
	dir string
	// alive is never read: its end, which comes with the test process however
	// that dies, makes the guard stop the server and remove the directory.
	alive io.WriteCloser
	mu    sync.Mutex // PostgreSQL copies one template at a time

	largeOnce sync.Once
	largeErr  error
}

var errNotInstalled = errors.New("PostgreSQL is not installed")

func startedServer(tb testing.TB) *server {
	tb.Helper()
	s, err := start()
	if errors.Is(err, errNotInstalled) && os.Getenv("AGENTD_TEST_REQUIRE_POSTGRES") != "1" {
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

// guard runs the server until its standard input ends.
const guard = `"$1" -D "$2/data" -k "$2" -c listen_addresses= -c port=5432 \
	-c fsync=off -c synchronous_commit=off -c full_page_writes=off \
	-c shared_buffers=64MB -c max_connections=500 -c log_min_messages=fatal >"$2/log" 2>&1 &
cat >/dev/null
kill -QUIT $!
wait $!
rm -rf "$2"`

var start = sync.OnceValues(func() (*server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(fastest(), "agentd-pg-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
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
	cmd.Dir, cmd.SysProcAttr = dir, attr
	if s.alive, err = cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.prepare(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		s.alive.Close()
		return nil, fmt.Errorf("start PostgreSQL: %w\n%s", err, log)
	}
	return s, nil
})

// prepare waits until the server answers, and makes the template.
func (s *server) prepare() error {
	deadline := time.Now().Add(30 * time.Second)
	err := s.check()
	for err != nil && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
		err = s.check()
	}
	if err != nil {
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
		RawQuery: url.Values{"host": {s.dir}, "port": {"5432"}}.Encode()}
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
		return "", errNotInstalled
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
		return nil, errNotInstalled
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
	dir, err := binaries()
	if err != nil {
		tb.Fatal(err)
	}
	if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}
