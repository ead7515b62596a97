package session

import (
	"context"
	"time"

	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// Filter narrows a list of sessions; see sqldb.Filter.
type Filter struct {
	page.Created

	AgentID string   `query:"agent_id" doc:"Only sessions of this agent." filter:"agent_id = ?" index:"sessions_agent"`
	Status  []Status `query:"status" doc:"Only sessions in one of these states." enum:"active,closed,expired" filter:"status IN (?)" index:"sessions_status"`

	ExternalID string `query:"external_id" doc:"Only the session with this id of a front end." filter:"external_id = ? AND external_id <> ''" index:"sessions_external"`

	Metadata map[string]string `query:"metadata" doc:"Only sessions whose metadata has these members: metadata[key]=value, up to 3 keys. Texts must be equal, numbers and booleans are compared by their JSON text. Values of the first 64 keys of a session are found."`
}

// Store is the port to the tables of sessions. Every method takes the tenant; for
// a session of another tenant it returns fault.NotFound.
type Store interface {
	CreateTx(tx txn.Tx, r *Record) error
	Get(ctx context.Context, tenant, id string) (*Record, error)
	// LockTx reads a session. Until commit, no other transaction can change it or
	// take a turn in it.
	LockTx(tx txn.Tx, tenant, id string) (*Record, error)
	// UpdateLabelsTx stores by which metadata a session is found, after a change.
	UpdateLabelsTx(tx txn.Tx, r *Record) error
	// UpdateTx writes the mutable fields of a locked session.
	UpdateTx(tx txn.Tx, r *Record) error
	// List returns a page of sessions, newest first.
	List(ctx context.Context, tenant string, f Filter, w page.Window) ([]Record, error)

	CreateBranchTx(tx txn.Tx, tenant, session string, b *Branch) error
	DeleteBranchTx(tx txn.Tx, tenant, session, branch string) error
	// ListBranches returns the branches of a session except the root, oldest first,
	// without their runs.
	ListBranches(ctx context.Context, tenant, session string) ([]Branch, error)
	ListBranchesTx(tx txn.Tx, tenant, session string) ([]Branch, error)

	// CreateTurnTx and the methods below require that the session is locked.
	CreateTurnTx(tx txn.Tx, tenant string, t Turn) error
	// PutTurnTx makes another run that of a turn, which is unfinished then, and
	// returns the turn. Errors: NotFound if the run has no turn.
	PutTurnTx(tx txn.Tx, tenant, runID, by string) (Turn, error)
	// GetTurnTx returns the turn of a run. Errors: NotFound if it has none.
	GetTurnTx(tx txn.Tx, tenant, runID string) (Turn, error)
	// FinishTurnTx stores a turn as finished, with what was counted of its run.
	FinishTurnTx(tx txn.Tx, tenant string, t Turn) error
	// ListStepOutlinesTx returns the steps of a run as far as it takes to count their
	// entries: only steps of type llm have an output, others an empty one where they
	// have any.
	ListStepOutlinesTx(tx txn.Tx, tenant, runID string) ([]run.Step, error)
	// ListUnfinishedTx returns the unfinished turns of a branch, or of all branches if
	// branch is empty, in order.
	ListUnfinishedTx(tx txn.Tx, tenant, session, branch string) ([]Turn, error)
	// GetUnfinished returns the first unfinished turn of a branch. Errors: NotFound.
	GetUnfinished(ctx context.Context, tenant, session, branch string) (Turn, error)
	DeleteTurnsTx(tx txn.Tx, tenant, session, branch string) (int64, error)

	// GetTurn returns the turn of a run. Errors: NotFound if it has none.
	GetTurn(ctx context.Context, tenant, runID string) (Turn, error)
	// GetLastTurn returns the turn that was created last, on any branch. Errors: NotFound.
	GetLastTurn(ctx context.Context, tenant, session string) (Turn, error)
	// GetSummarizedTurn returns the newest turn of a branch, up to one, whose run has a
	// summary. Errors: NotFound if there is none. Runs that are under way are left out.
	GetSummarizedTurn(ctx context.Context, tenant, session, branch string, through int64) (Turn, error)
	// ListTurns returns the turns of a session in order.
	ListTurns(ctx context.Context, tenant, session string) ([]Turn, error)
	// ListTurnsBack returns up to limit turns of a branch before one, newest first.
	ListTurnsBack(ctx context.Context, tenant, session, branch string, before int64, limit int) ([]Turn, error)
	// ListTimedTurns returns the turns of a session after one, in order, with the times
	// of their runs.
	ListTimedTurns(ctx context.Context, tenant, session string, after int64) ([]TimedTurn, error)
	// ListJournals reads runs with their steps, in the order of the ids. A run that does
	// not exist is left empty.
	ListJournals(ctx context.Context, tenant string, runs []string) ([]run.Journal, error)
}

// TimedTurn is a turn with the status and times of its run.
type TimedTurn struct {
	Turn
	Status      run.Status
	CreatedAt   time.Time
	CompletedAt time.Time // zero: not yet
}
