package sqlstore_test

import (
	"testing"

	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/sqlstore"
)

func TestDocuments(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		resourcetest.Backend(t, sqlstore.NewDocuments(db), db)
	})
}
