package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
)

// fileName is the database in its directory; SQLite puts -wal and -shm beside.
const fileName = "agentd.db"

// params of every connection. busy_timeout comes first, since the others can
// meet another process that starts. Memory maps stay off: an I/O error in one
// is a signal and not an error, and their pages count as ours.
//
// mode is SQLite's: "rwc" makes the file where there is none, "rw" does not.
func params(mode string, busy time.Duration, pragmas []string) url.Values {
	return url.Values{"mode": {mode}, "_pragma": append([]string{
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
	create, err := newConnector(path, params("rwc", cfg.BusyTimeout, writerPragmas))
	if err != nil {
		return nil, err
	}
	write, err := newConnector(path, params("rw", cfg.BusyTimeout, writerPragmas))
	if err != nil {
		return nil, err
	}
	read, err := newConnector(path, params("rw", cfg.BusyTimeout, readerPragmas))
	if err != nil {
		return nil, err
	}
	s := session{connector: create, path: path}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	s.connector = write // from now on a file that is missing is an error
	pool := sql.OpenDB(read)
	pool.SetMaxOpenConns(cfg.Readers)
	pool.SetMaxIdleConns(cfg.Readers)
	return &DB{cfg: cfg, pool: pool, writer: newWriter(s, cfg.Metrics), schema: schema{
		dialect: goose.DialectSQLite3,
		open:    func() *sql.DB { return sql.OpenDB(write.Connector) },
	}}, nil
}
