package group

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// Teams is the port to runs of teams, which look like runs here.
type Teams interface {
	// Start has a team do a job, unless it was started before.
	Start(ctx context.Context, who authz.Caller, job TeamJob) error
	// Get returns the run of a job, with the untrusted sources that its answer has content
	// of. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (*run.Run, []string, error)
	// CancelTx has a job end. Errors: fault.NotFound.
	CancelTx(tx txn.Tx, tenant, id string) error
}

// TeamJob is what a team is to do.
type TeamJob struct {
	TeamID, ID            string
	Message, Instructions string
	Metadata              schema.Object
	Sources               []string // untrusted ones that the message has content of
	Budgets               []string // that it spends from
	Wakes                 run.Wakes
	Admit                 func(tx txn.Tx) error
}
