package apptest

import (
	"testing"

	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// Engines are the databases that a test is played on. What the race detector
// can see it sees on SQLite.
func Engines() []sqldbtest.Engine {
	if RaceEnabled {
		return []sqldbtest.Engine{sqldbtest.SQLite}
	}
	return sqldbtest.Engines
}

// EachEngine runs a subtest on a node with each database, but for the race
// detector, to which one is like the other.
func EachEngine(t *testing.T, test func(t *testing.T, n *Server)) {
	t.Helper()
	for _, engine := range Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			test(t, Start(t, modeltest.New(t, HangingModel), OnEngine(t, engine), Embedding, WebSearch(t), CorpProvider(t)))
		})
	}
}

func OnEngine(tb testing.TB, engine sqldbtest.Engine) func(*config.Config) {
	tb.Helper()
	cfg := sqldbtest.Config(tb, engine)
	return func(c *config.Config) { c.Storage.DatabaseURL = config.NewURL(cfg.URL) }
}

// EachEngineRefusing runs a subtest on a node with each database, and with a model
// that refuses every call.
func EachEngineRefusing(t *testing.T, test func(t *testing.T, n *Server)) {
	t.Helper()
	for _, engine := range Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			test(t, Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Status: 400, Error: "no"})), OnEngine(t, engine)))
		})
	}
}

func EachDatabase(t *testing.T, test func(t *testing.T, adjust func(*config.Config))) {
	t.Helper()
	for _, engine := range Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			test(t, OnEngine(t, engine))
		})
	}
}
