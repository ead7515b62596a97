package sqlstore_test

import (
	"testing"

	"agentd/internal/resource/resourcetest"
	"agentd/internal/sqldb"
	"agentd/internal/sqldb/sqldbtest"
	"agentd/internal/sqlstore"
)

func TestDocuments(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		resourcetest.Backend(t, sqlstore.NewDocuments(db), db)
	})
}
