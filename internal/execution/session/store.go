package session

import (
	"context"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// Store is the port to the tables of sessions. Every call takes the tenant; a
// session of another tenant is fault.NotFound.
type Store interface {
	CreateTx(tx txn.Tx, r *Record) error
	Get(ctx context.Context, tenant, id string) (*Record, error)
	// LockTx reads a session and keeps others from changing it, or from taking a
	// turn in it, until commit.
	LockTx(tx txn.Tx, tenant, id string) (*Record, error)
	// UpdateTx writes what can change of a session that is locked.
	UpdateTx(tx txn.Tx, r *Record) error
	// List gives up to limit sessions after an id, newest first; of one agent
	// where agent is not empty.
	List(ctx context.Context, tenant, agent, after string, limit int) ([]Record, error)

	CreateBranchTx(tx txn.Tx, tenant, session string, b *Branch) error
	DeleteBranchTx(tx txn.Tx, tenant, session, branch string) error
	// ListBranches gives a session's branches but the root, oldest first. They have
	// no runs.
	ListBranches(ctx context.Context, tenant, session string) ([]Branch, error)
	ListBranchesTx(tx txn.Tx, tenant, session string) ([]Branch, error)

	// CreateTurnTx and the calls below are for who has the session locked.
	CreateTurnTx(tx txn.Tx, tenant string, t Turn) error
	// FinishTurnTx marks a run's turn as over, and says whether it was not yet.
	FinishTurnTx(tx txn.Tx, tenant, runID string) (Turn, bool, error)
	// ListUnfinishedTx gives the turns of a branch, or of all where branch is empty,
	// that are not over, in their order.
	ListUnfinishedTx(tx txn.Tx, tenant, session, branch string) ([]Turn, error)
	DeleteTurnsTx(tx txn.Tx, tenant, session, branch string) (int64, error)

	// ListTurns gives a session's turns after one, in order, with the moments of
	// their runs.
	ListTurns(ctx context.Context, tenant, session string, after int64) ([]TimedTurn, error)
	// ListJournals reads runs with their steps, in the order in which they are named.
	ListJournals(ctx context.Context, tenant string, runs []string) ([]Told, error)
}

// TimedTurn is a turn with what its run says of itself.
type TimedTurn struct {
	Turn
	Status      run.Status
	CreatedAt   time.Time
	CompletedAt time.Time // zero: not yet
}

// Told is a run with its steps.
type Told = run.Journal
