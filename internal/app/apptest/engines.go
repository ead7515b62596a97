package apptest

import (
	"testing"
	"time"

	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// Engines are the databases that a test runs on. Under the race detector it is
// SQLite alone: there is no data race that only shows on PostgreSQL.
func Engines() []sqldbtest.Engine {
	if RaceEnabled {
		return []sqldbtest.Engine{sqldbtest.SQLite}
	}
	return sqldbtest.Engines
}

// EachEngine runs a subtest on a server with each database (Engines), a model
// that hangs, and everything configured that is optional.
func EachEngine(t *testing.T, test func(t *testing.T, n *Server), adjust ...func(*config.Config)) {
	t.Helper()
	for _, engine := range Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			all := append([]func(*config.Config){OnEngine(t, engine), Embedding, WebSearch(t), CorpProvider(t), patient}, adjust...)
			test(t, Start(t, modeltest.New(t, HangingModel), all...))
		})
	}
}

// patient keeps runs whose model says nothing from trying again during a test.
func patient(c *config.Config) { c.Models.StartTimeout = time.Hour }

// OnEngine configures a database of the test's own.
func OnEngine(tb testing.TB, engine sqldbtest.Engine) func(*config.Config) {
	tb.Helper()
	cfg := sqldbtest.Migrated(tb, engine)
	return func(c *config.Config) { c.Storage.DatabaseURL = config.NewURL(cfg.URL) }
}

// EachEngineRefusing runs a subtest on a server with each database, and with a
// model that refuses every call.
func EachEngineRefusing(t *testing.T, test func(t *testing.T, n *Server)) {
	t.Helper()
	for _, engine := range Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			test(t, Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Status: 400, Error: "no"})), OnEngine(t, engine)))
		})
	}
}

// EachDatabase runs a subtest with the configuration of each database, for tests
// that start several servers.
func EachDatabase(t *testing.T, test func(t *testing.T, adjust func(*config.Config))) {
	t.Helper()
	for _, engine := range Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			test(t, OnEngine(t, engine))
		})
	}
}
