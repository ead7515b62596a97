// Package evaluation measures agents: a dataset has cases, an evaluation starts a run of
// the agent for each of them, and scorers judge what the runs answered.
//
// An evaluation is a row, and each case that it began is one too. What it does next
// follows from these rows alone: it starts as many runs as it may at a time, lets go of
// its worker, and is woken by the commit with which a run ends. Any node takes it over.
package evaluation

import (
	"context"
	"time"

	"agentd/internal/base/page"
	"agentd/internal/base/txn"
)

// WorkKind is the kind of work that drives evaluations; the key is the evaluation's id.
const WorkKind = "evaluation"

// Status is the state of an evaluation.
type Status string

// The states. The last three are final.
const (
	Pending   Status = "pending"
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed" // it ended before all cases were evaluated
	Cancelled Status = "cancelled"
)

// Final reports whether the state is final.
func (s Status) Final() bool { return s == Completed || s == Failed || s == Cancelled }

// Limits of evaluations.
const (
	maxConcurrency     = 64
	defaultConcurrency = 16
	defaultCaseTimeout = 10 * time.Minute
	// maxOpen is how many evaluations of a company may be under way.
	maxOpen = 50
	// maxScorers is how many scorers an agent has, and an evaluation uses.
	maxScorers = 50
)

// Spec is what an evaluation was started with.
type Spec struct {
	Scorers       []NamedConfig `json:"scorers"`
	Concurrency   int           `json:"concurrency"`
	CaseTimeoutMS int64         `json:"case_timeout_ms"`
	MaxCostUSD    float64       `json:"max_cost_usd,omitzero"` // 0: no limit
	Model         *Model        `json:"model,omitzero"`        // in place of the agent's
	Sandbox       bool          `json:"sandbox,omitzero"`
	Baseline      string        `json:"baseline,omitzero"` // the evaluation to compare with; "": the newest that fits
	MaxDrop       float64       `json:"max_drop"`
	AutoRollback  bool          `json:"auto_rollback,omitzero"`
	KeyID         string        `json:"key_id,omitzero"` // that started it; "": none
	UserID        string        `json:"user_id,omitzero"`
}

// Model is a model that an evaluation uses in place of the agent's.
type Model struct {
	_ struct{} `json:"-" name:"EvaluationModel"`

	Provider string `json:"provider" required:"true" minLength:"1" maxLength:"100" doc:"Who serves the model, such as openai-compat or anthropic."`
	ModelRef string `json:"model_ref" required:"true" minLength:"1" maxLength:"300" doc:"What the provider calls the model."`
}

// NamedConfig is a scorer of an evaluation.
type NamedConfig struct {
	Name   string `json:"name"`
	Config Config `json:"config"`
}

// Tally is what is known of the cases that have ended.
type Tally struct {
	Passed     int     `json:"passed"`
	Failed     int     `json:"failed"`
	Errored    int     `json:"errored"`
	DurationMS float64 `json:"duration_ms"`
	Tokens     int64   `json:"tokens"`
	CostUSD    float64 `json:"cost_usd"`
	// Streaks counts the failures of each scorer since it last gave a score.
	Streaks map[string]int `json:"streaks,omitzero"`
}

// Ended returns how many cases have ended.
func (t *Tally) Ended() int { return t.Passed + t.Failed + t.Errored }

// Record is an evaluation as it is stored.
type Record struct {
	TenantID     string
	EvalRunID    string
	AgentID      string
	DatasetID    string
	ExperimentID string // that it is part of; "": none
	Version      int64  // of the agent
	Status       Status
	Spec         Spec
	Total        int // cases
	Next         int // how many cases were begun
	Tally        Tally
	Summary      *Summary // nil: it has not ended
	Error        string   // why it stopped early, as a sentence
	Cancel       bool     // a caller requested its end
	CreatedAt    time.Time
	CompletedAt  time.Time // zero: it has not ended
}

// Result is a case of an evaluation: one that was begun, or has ended.
type Result struct {
	Seq     int    `json:"seq"` // of the case in its dataset, from 0
	CaseID  string `json:"case_id"`
	RunID   string `json:"run_id"`
	Ended   bool   `json:"-"`
	Waiting bool   `json:"waiting,omitzero"` // it was found waiting for a person
	// BeganAt is when its run was started.
	BeganAt time.Time `json:"began_at"`

	Scores     map[string]float64 `json:"scores,omitzero"`
	Reasons    map[string]string  `json:"reasons,omitzero"`
	Passed     bool               `json:"passed,omitzero"`
	Error      string             `json:"error,omitzero"` // why it could not be judged
	Output     string             `json:"output,omitzero"`
	DurationMS float64            `json:"duration_ms,omitzero"`
	Tokens     int64              `json:"tokens,omitzero"`
	CostUSD    float64            `json:"cost_usd,omitzero"`
}

// Store keeps the cases of datasets, evaluations and their results.
type Store interface {
	// AppendCasesTx adds cases to a dataset that has as many as first says. All but the
	// last call for a dataset add a multiple of BlockSize.
	AppendCasesTx(tx txn.Tx, tenant, datasetID string, first int, cases []Case) error
	// ListCases returns up to limit cases from a position on, in order.
	ListCases(ctx context.Context, tenant, datasetID string, from, limit int) ([]Case, error)
	DeleteCasesTx(tx txn.Tx, tenant, datasetID string) error

	CreateTx(tx txn.Tx, r *Record) error
	// UpdateTx stores status, next, tally, summary, error and end. Errors:
	// fault.NotFound.
	UpdateTx(tx txn.Tx, r *Record) error
	// PutResultsTx stores results, or replaces those of the same seq.
	PutResultsTx(tx txn.Tx, tenant, evalRunID string, results []Result) error
	// LockTx locks an evaluation and reports whether its end was requested and whether
	// it has ended. Errors: fault.NotFound.
	LockTx(tx txn.Tx, tenant, evalRunID string) (cancel, ended bool, err error)
	// RequestCancelTx notes that an evaluation is to end. Errors: fault.NotFound.
	RequestCancelTx(tx txn.Tx, tenant, evalRunID string) error
	// CountOpenTx returns how many evaluations of a company have not ended.
	CountOpenTx(tx txn.Tx, tenant string) (int, error)
	// Get returns an evaluation. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, evalRunID string) (*Record, error)
	// List returns a page of evaluations, newest first.
	List(ctx context.Context, tenant string, f Filter, w page.Window) ([]Record, error)
	// ListUnended returns the results of cases that were begun and have not ended.
	ListUnended(ctx context.Context, tenant, evalRunID string) ([]Result, error)
	// ListResults returns up to limit results that have ended, after a seq, in order.
	ListResults(ctx context.Context, tenant, evalRunID string, after, limit int) ([]Result, error)
	// DeleteAgentTx deletes the evaluations of an agent, and returns up to limit of their
	// runs that had not ended.
	DeleteAgentTx(tx txn.Tx, tenant, agentID string, limit int) ([]string, error)
}

// Filter selects evaluations. Exactly one field is set.
type Filter struct {
	AgentID      string
	DatasetID    string
	ExperimentID string
}

// BlockSize is how many cases of a dataset are stored together.
const BlockSize = 100
