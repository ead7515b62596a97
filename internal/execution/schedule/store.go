package schedule

import (
	"context"
	"time"

	"agentd/internal/base/txn"
)

// Store is the port to the states of schedules and to their runs that have not
// ended. Every call but ListAll takes the tenant. An absent state is nil, without an error.
type Store interface {
	Get(ctx context.Context, tenant, agentID string) (*State, error)
	// LockTx reads a state and keeps others from changing it until commit.
	LockTx(tx txn.Tx, tenant, agentID string) (*State, error)
	// PutTx creates or replaces a state. The caller has it from LockTx, or has locked
	// the agent where there was none.
	PutTx(tx txn.Tx, st *State) error
	// DeleteTx deletes a state and the list of its runs.
	DeleteTx(tx txn.Tx, tenant, agentID string) error
	// List returns up to limit states in the order of their agents' ids, after a
	// given one.
	List(ctx context.Context, tenant, after string, limit int) ([]State, error)
	// ListAll returns up to limit states of all tenants, in the order of tenants and
	// agents, after a given one.
	ListAll(ctx context.Context, afterTenant, afterAgent string, limit int) ([]State, error)
	Count(ctx context.Context, tenant string) (int, error)

	// CreateRunTx adds a run to those of a schedule that have not ended.
	CreateRunTx(tx txn.Tx, tenant, agentID, runID string, fire time.Time) error
	// DeleteRunTx removes a run from them and returns the agent's id, "" where there
	// was no such run.
	DeleteRunTx(tx txn.Tx, tenant, runID string) (agentID string, err error)
	// ListRuns returns up to limit of them, oldest first.
	ListRuns(ctx context.Context, tenant, agentID string, limit int) ([]string, error)
	// CountRunsTx counts them.
	CountRunsTx(tx txn.Tx, tenant, agentID string) (int, error)
}
