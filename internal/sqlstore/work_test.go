package sqlstore_test

import (
	"testing"

	"agentd/internal/clock"
	"agentd/internal/sqldb/sqldbtest"
	"agentd/internal/sqlstore"
	"agentd/internal/txn"
	"agentd/internal/work"
	"agentd/internal/work/worktest"
)

func TestWork(t *testing.T) {
	t.Parallel()
	for _, engine := range sqldbtest.Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			worktest.Run(t, func(t *testing.T, clock clock.Clock) (work.Queue, txn.Writer) {
				db := sqldbtest.Open(t, engine)
				return sqlstore.NewWork(db, clock, nil), db
			})
		})
	}
}
