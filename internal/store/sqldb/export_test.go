package sqldb

import (
	"context"
	"testing"
)

// Queued is how many closures wait for the writer.
func Queued(db *DB) int {
	db.writer.mu.Lock()
	defer db.writer.mu.Unlock()
	return len(db.writer.queue)
}

// EndContext ends the context of a transaction, as its time limit does, for what
// database/sql is asked next.
func EndContext(tx *Tx) {
	ctx, cancel := context.WithCancel(tx.ctx)
	cancel()
	tx.ctx = ctx
}

// ReadersInUse is how many connections are reading.
func ReadersInUse(db *DB) int { return db.pool.Stats().InUse }

// MigrateSteps migrates an empty database without the text of its schema.
func MigrateSteps(ctx context.Context, db *DB) error { return db.migrateSteps(ctx) }

// SchemaTitle is the first line of the text of a schema.
var SchemaTitle = schemaTitle

// Described describes all migrations.
func Described(t *testing.T, postgres bool) []Pending {
	t.Helper()
	all, err := pendingOf(nil, postgres)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
