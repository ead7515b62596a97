package sqldb

import (
	"context"
	"sync"
	"time"

	"agentd/internal/base/txn"
)

// probeTimeout is how long a database may take to be called ready.
const probeTimeout = 2 * time.Second

// probe is the one question after readiness that is under way.
type probe struct {
	mu      sync.Mutex
	pending *answer
}

type answer struct {
	done chan struct{}
	err  error
}

// Ready returns nil if the database takes writes now, and fault.Unavailable if it
// is locked, gone or a standby. It writes nothing, and returns within two
// seconds; concurrent callers share one query.
func (db *DB) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	db.probe.mu.Lock()
	a := db.probe.pending
	if a == nil {
		a = &answer{done: make(chan struct{})}
		db.probe.pending = a
		go func() {
			// Not ctx: the answer is also for those who ask after this caller.
			ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
			defer cancel()
			a.err = db.ask(ctx)
			db.probe.mu.Lock()
			db.probe.pending = nil
			db.probe.mu.Unlock()
			close(a.done)
		}()
	}
	db.probe.mu.Unlock()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return unavailable("The database does not answer in time.", context.Cause(ctx))
	}
}

func (db *DB) ask(ctx context.Context) error {
	if db.writer != nil {
		// Taking the write lock and giving it back touches no disk.
		_, err := db.writer.write(ctx, func(txn.Tx) error { return nil })
		return err
	}
	var standby bool
	if err := db.pool.QueryRowContext(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return err
	}
	if standby {
		return unavailable("The database is a standby and takes no writes.", errDatabase)
	}
	return nil
}
