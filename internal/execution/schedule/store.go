package schedule

import (
	"context"
	"time"

	"agentd/internal/base/txn"
)

// Store is the port to the states of schedules and to their runs that have not
// ended. Every call takes the tenant. What is absent is nil, and no error.
type Store interface {
	Get(ctx context.Context, tenant, agentID string) (*State, error)
	// LockTx reads a state and keeps others from changing it until commit.
	LockTx(tx txn.Tx, tenant, agentID string) (*State, error)
	// PutTx stores a state, whether there was one or not. The caller has it from
	// Lock, or has locked the agent where there was none.
	PutTx(tx txn.Tx, st *State) error
	// DeleteTx forgets a state and which runs it has.
	DeleteTx(tx txn.Tx, tenant, agentID string) error
	// List gives up to limit states in the order of their agents' ids, from
	// behind one of them.
	List(ctx context.Context, tenant, after string, limit int) ([]State, error)
	Count(ctx context.Context, tenant string) (int, error)

	// CreateRunTx notes that a run has not ended.
	CreateRunTx(tx txn.Tx, tenant, agentID, runID string, fire time.Time) error
	// DeleteRunTx takes the note back. It gives the agent's id, "" where there was
	// no such note.
	DeleteRunTx(tx txn.Tx, tenant, runID string) (agentID string, err error)
	// ListRuns gives up to limit runs of a schedule that have a note, oldest first.
	ListRuns(ctx context.Context, tenant, agentID string, limit int) ([]string, error)
	// CountRunsTx counts them.
	CountRunsTx(tx txn.Tx, tenant, agentID string) (int, error)
}
