package worksql_test

import (
	"testing"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/kernel/work/worktest"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

func TestWork(t *testing.T) {
	t.Parallel()
	for _, engine := range sqldbtest.Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			worktest.Run(t, func(t *testing.T, clock clock.Clock) (work.Queue, txn.Writer) {
				db := sqldbtest.Open(t, engine)
				return worksql.New(db, clock, nil), db
			})
		})
	}
}
