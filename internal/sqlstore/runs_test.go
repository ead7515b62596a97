package sqlstore_test

import (
	"testing"
	"time"

	"agentd/internal/event/eventtest"
	"agentd/internal/ident"
	"agentd/internal/run"
	"agentd/internal/run/runtest"
	"agentd/internal/schema"
	"agentd/internal/sqldb"
	"agentd/internal/sqldb/sqldbtest"
	"agentd/internal/sqlstore"
	"agentd/internal/txn"
)

func TestRuns(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { runtest.Store(t, sqlstore.NewRuns(db), db) })
}

func TestEvents(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		runs := sqlstore.NewRuns(db)
		eventtest.Log(t, sqlstore.NewEvents(db), db, func(tx txn.Tx, tenant, stream string, seq int64, output string) error {
			now := time.Now()
			return runs.AppendStep(&run.Step{
				StepID: ident.New(), TenantID: tenant, RunID: stream, Seq: seq, Type: run.StepLLM, Status: run.StepCompleted,
				CompletedAt: &now, Output: schema.Nullable(output),
			})(tx)
		})
	})
}
