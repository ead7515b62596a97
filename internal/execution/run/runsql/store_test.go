package runsql_test

import (
	"testing"
	"time"

	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/run/runtest"
	"agentd/internal/kernel/event/eventtest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestRuns(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { runtest.Store(t, runsql.New(db), db) })
}

func TestEvents(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		runs := runsql.New(db)
		eventtest.Log(t, runsql.NewEvents(db), db, func(tx txn.Tx, tenant, stream string, seq int64, id, output string) error {
			now := time.Now()
			return runs.AppendStep(&run.Step{
				StepID: id, TenantID: tenant, RunID: stream, Seq: seq, Type: run.StepLLM, Status: run.StepCompleted,
				CompletedAt: &now, Output: schema.Nullable(output),
			})(tx)
		})
	})
}
