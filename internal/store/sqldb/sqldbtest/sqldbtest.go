// Package sqldbtest creates a database for each test on every engine:
// SQLite in the test's temporary directory, and PostgreSQL, where it is
// installed, on one temporary server for the whole test process.
//
// Where PostgreSQL is not installed its subtests are skipped, or fail if
// AGENTD_TEST_REQUIRE_POSTGRES=1.
package sqldbtest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"agentd/internal/store/sqldb"
)

// Engine is a database engine; its value names the subtest.
type Engine string

// The engines.
const (
	SQLite   Engine = "sqlite"
	Postgres Engine = "postgres"
)

// Engines are all of them, in the order in which tests run.
var Engines = []Engine{SQLite, Postgres}

// Each runs a parallel subtest on a migrated database of every engine.
func Each(t *testing.T, test func(t *testing.T, db *sqldb.DB)) {
	t.Helper()
	for _, engine := range Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			test(t, Open(t, engine))
		})
	}
}

// Open returns a migrated database that lives as long as the test.
func Open(tb testing.TB, engine Engine) *sqldb.DB {
	tb.Helper()
	return open(tb, Migrated(tb, engine))
}

// OpenWith is Open with a configuration that configure has changed.
func OpenWith(tb testing.TB, engine Engine, configure func(*sqldb.Config)) *sqldb.DB {
	tb.Helper()
	cfg := Migrated(tb, engine)
	configure(&cfg)
	return open(tb, cfg)
}

// Migrated returns where a migrated database is that lives as long as the test.
// It is a copy, which is much faster than to migrate an empty one.
func Migrated(tb testing.TB, engine Engine) sqldb.Config {
	tb.Helper()
	if engine == Postgres {
		server := startedServer(tb)
		return server.database(tb, templateName)
	}
	cfg := Config(tb, SQLite)
	template, err := sqliteTemplate()
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, "agentd.db"), template, 0o600); err != nil {
		tb.Fatal(err)
	}
	return cfg
}

// Config returns where an empty database is that lives as long as the test.
func Config(tb testing.TB, engine Engine) sqldb.Config {
	tb.Helper()
	if engine == Postgres {
		return startedServer(tb).database(tb, "template1")
	}
	return sqldb.Config{Dir: tb.TempDir()}
}

func open(tb testing.TB, cfg sqldb.Config) *sqldb.DB {
	tb.Helper()
	checkPlans := watchPlans(tb, &cfg)
	db, err := sqldb.Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		checkPlans()
		if err := db.Close(); err != nil {
			tb.Errorf("close the database: %v", err)
		}
	})
	return db
}

// sqliteTemplate is the file of a migrated, empty database.
var sqliteTemplate = sync.OnceValues(func() (file []byte, err error) {
	dir, err := os.MkdirTemp("", "agentd-sqlite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := migrate(sqldb.Config{Dir: dir}); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, "agentd.db"))
})

var databases atomic.Int64

// database makes a database as a copy of another, by files: with fsync off that is
// faster than through the log.
func (s *server) database(tb testing.TB, template string) sqldb.Config {
	tb.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	if err := s.admin(fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY FILE_COPY", name, template)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.admin("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
	})
	return sqldb.Config{URL: s.url(name), MaxConns: 16}
}
