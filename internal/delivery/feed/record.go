package feed

import (
	"time"

	"agentd/internal/base/txn"
)

// Told is an entry that a group of agents tells.
type Told struct {
	TenantID  string
	At        time.Time
	ID        string // the same when its transaction runs again
	Type      string
	CompanyID string
	TeamID    string
	Body      Body
}

// Body is the rest of what is kept of it.
type Body struct {
	Summary string `json:"summary,omitzero"`
	RunID   string `json:"run_id,omitzero"`
	Status  string `json:"status,omitzero"`
}

// Recorder keeps what groups tell.
type Recorder interface {
	AppendTx(tx txn.Tx, t Told) error
}
