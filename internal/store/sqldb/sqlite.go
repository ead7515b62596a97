package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"agentd/internal/base/share"
)

// fileName is the database in its directory; SQLite puts -wal and -shm beside.
const fileName = "agentd.db"

// Exists reports whether a directory holds a SQLite database of agentd.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, fileName))
	return err == nil
}

// params of every connection. busy_timeout comes first, since the others can
// meet another process that starts. Memory maps stay off: an I/O error in one
// is a signal and not an error, and their pages count as ours.
//
// A file that is missing is an error (mode rw), not an empty database.
func params(busy time.Duration, pragmas []string) url.Values {
	return url.Values{"mode": {"rw"}, "_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
		"temp_store(MEMORY)",
		"trusted_schema(0)",
	}, pragmas...)}
}

var (
	writerPragmas = []string{
		"journal_mode(WAL)",
		"synchronous(FULL)", // an answer that was given survives a power cut
		"foreign_keys(1)",
		// What is deleted is overwritten. Hot paths append: a run writes as many
		// bytes with it as without.
		"secure_delete(1)",
		"cache_size(-8192)", // KiB
		// Pages are written back from the log every 16 MB rather than every
		// 4 MB: a page that is written often goes back once.
		"wal_autocheckpoint(4000)",
		"journal_size_limit(67108864)", // a log that grew behind a long read shrinks again
	}
	readerPragmas = []string{"cache_size(-2048)", "query_only(1)"}
)

// connector opens connections of one sort.
type connector struct {
	driver.Connector
}

func newConnector(path string, params url.Values) (connector, error) {
	// The path is a URI's, so that a ? or % in it is no parameter.
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: params.Encode()}
	c, err := sqlite.NewConnector(u.String())
	return connector{c}, err
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	dc, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, sqliteError(err)
	}
	return newConn(dc), nil
}

func openSQLite(ctx context.Context, cfg Config) (*DB, error) {
	cfg.Readers = cmp.Or(cfg.Readers, 4)
	cfg.BusyTimeout = cmp.Or(cfg.BusyTimeout, 5*time.Second)
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, fileName)
	// SQLite would create a file that all users can read. Only a new file is
	// opened here: closing a file drops the locks that this process has on it.
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
		if err := f.Close(); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	write, err := newConnector(path, params(cfg.BusyTimeout, writerPragmas))
	if err != nil {
		return nil, err
	}
	read, err := newConnector(path, params(cfg.BusyTimeout, readerPragmas))
	if err != nil {
		return nil, err
	}
	s := session{connector: write, path: path}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	pool := sql.OpenDB(read)
	pool.SetMaxOpenConns(cfg.Readers)
	pool.SetMaxIdleConns(cfg.Readers)
	// One connection is left for requests that write, and for the server's own work.
	shares := share.New(max(1, cfg.Readers-1), max(1, cfg.Readers/2), readTimeout)
	return &DB{cfg: cfg, pool: pool, shares: shares, writer: newWriter(s, &cfg), schema: schema{
		dialect: goose.DialectSQLite3,
		open:    func() *sql.DB { return sql.OpenDB(write.Connector) },
	}}, nil
}
