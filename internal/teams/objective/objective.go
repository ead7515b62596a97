// Package objective pursues objectives: what missions and initiatives have in common. An
// objective is a row, and each thing that an agent or a team is to do for it is a task: a
// row too, with a run. What comes next follows from these rows alone (see Set), so that a
// worker is held only while that is decided, and any worker goes on where one was killed.
package objective

import (
	"context"
	"errors"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// The states of an objective. The last three are final.
const (
	Pending    = "pending"
	InProgress = "in_progress"
	Blocked    = "blocked" // it waits for a decision of another objective
	Completed  = "completed"
	Failed     = "failed"
	Skipped    = "skipped" // a decision was for others
)

// Why an objective was given up.
const (
	BudgetExhausted  = "budget_exhausted"
	DependencyFailed = "dependency_failed"
	VerifierError    = "verifier_error"
	DeadlinePassed   = "deadline_passed"
	Ended            = "ended" // what it is part of ended before it
)

// Max is how many objectives a mission or an initiative may have.
const Max = 500

// Bounds of what is kept of a run's answer.
const (
	maxResult  = 16 << 10
	maxSummary = 500
	maxNotes   = 50
)

// Budget bounds what the runs for one objective may use.
type Budget struct {
	_ struct{} `json:"-" name:"ObjectiveBudget"`

	MaxRuns    *int64   `json:"max_runs,omitzero" minimum:"1" maximum:"1000000" doc:"Attempts at it; a verdict is none."`
	MaxTokens  *int64   `json:"max_tokens,omitzero" minimum:"1" doc:"Tokens that its runs read and write, verdicts included."`
	MaxCostUSD *float64 `json:"max_cost_usd,omitzero" minimum:"0" maximum:"1000000000" doc:"US dollars for its runs, as far as prices are known, verdicts and what its runs delegate included."`
}

// Rules are what an agent may do by itself while it works on an objective.
type Rules struct {
	_ struct{} `json:"-" name:"ObjectiveRules"`

	Autonomous []string `json:"autonomous_actions,omitzero" maxItems:"50" maxLength:"500" doc:"What it may do without asking."`
	Approval   []string `json:"requires_approval,omitzero" maxItems:"50" maxLength:"500" doc:"What it has to ask a person about first."`
	Prohibited []string `json:"prohibited,omitzero" maxItems:"50" maxLength:"500" doc:"What it must not do."`
}

// Decision is a point at which the judge chooses how to go on after an objective.
type Decision struct {
	_ struct{} `json:"-" name:"ObjectiveDecisionPoint"`

	Condition string   `json:"condition" required:"true" minLength:"1" maxLength:"2000" doc:"What is to be decided by the result of the objective."`
	Branches  []Branch `json:"branches" required:"true" minItems:"1" maxItems:"20" doc:"The ways to go on. Objectives that are not chosen are skipped."`
	Fallback  string   `json:"fallback_objective_id,omitzero" maxLength:"36" doc:"The objective to go on with where no branch fits; none: all are skipped."`
}

// Branch is one way to go on.
type Branch struct {
	_ struct{} `json:"-" name:"ObjectiveBranch"`

	When        string `json:"when" required:"true" minLength:"1" maxLength:"2000" doc:"When this is the way."`
	ObjectiveID string `json:"objective_id" required:"true" maxLength:"36" doc:"The objective that follows."`
}

// Plan is what is to be reached, and how. Callers change it; see State.
type Plan struct {
	Title        string     `json:"title"`
	Description  string     `json:"description,omitzero"`
	Criteria     []string   `json:"success_criteria,omitzero"`
	Priority     string     `json:"priority"`
	Dependencies []string   `json:"dependencies,omitzero"` // ids
	ParentID     string     `json:"parent_id,omitzero"`
	GoalID       string     `json:"goal_id,omitzero"` // of an initiative
	Root         bool       `json:"root,omitzero"`    // of a goal: nothing is done for it itself
	AgentID      string     `json:"agent_id,omitzero"`
	TeamID       string     `json:"team_id,omitzero"`
	Budget       Budget     `json:"budget"`
	Intent       string     `json:"intent,omitzero"`
	Rules        *Rules     `json:"rules,omitzero"`
	Decisions    []Decision `json:"decisions,omitzero"`
	Deadline     *time.Time `json:"deadline,omitzero"`
}

// State is how far an objective is. Only the worker that holds what it is part of
// changes it.
type State struct {
	Status    string    `json:"status"`
	Strikes   int       `json:"strikes,omitzero"`
	Runs      int64     `json:"runs,omitzero"`
	Tokens    int64     `json:"tokens,omitzero"`
	CostUSD   float64   `json:"cost_usd,omitzero"`
	Result    string    `json:"result,omitzero"`
	Sources   []string  `json:"sources,omitzero"` // untrusted ones that the result has content of
	Notes     []string  `json:"notes,omitzero"`
	Feedback  string    `json:"feedback,omitzero"` // what was wrong with the last attempt
	Abort     string    `json:"abort,omitzero"`
	Category  string    `json:"category,omitzero"` // of the last failure
	Details   string    `json:"details,omitzero"`
	Code      string    `json:"code,omitzero"`
	Verified  bool      `json:"verified,omitzero"`
	Decided   int       `json:"decided,omitzero"` // decisions that were made after it
	Chosen    bool      `json:"chosen,omitzero"`  // by a decision of another one
	AgentID   string    `json:"agent_id,omitzero"`
	TeamID    string    `json:"team_id,omitzero"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Objective is one thing to be reached.
type Objective struct {
	ID        string
	Seq       int // from 1, in the order of their creation
	CreatedAt time.Time
	Plan      Plan
	State     State
}

// Over reports whether the objective is completed, failed or skipped.
func (o *Objective) Over() bool {
	return o.State.Status == Completed || o.State.Status == Failed || o.State.Status == Skipped
}

// What a task is for.
const (
	Work   = "work"   // an agent or a team works on an objective
	Judge  = "judge"  // an agent verifies the result
	Decide = "decide" // an agent chooses a branch
)

// Task is one thing that an agent or a team is to do, with a run.
type Task struct {
	Seq          int        `json:"seq"` // from 1
	ObjectiveID  string     `json:"objective_id,omitzero"`
	Purpose      string     `json:"purpose"`
	Attempt      int        `json:"attempt"` // from 1
	RunID        string     `json:"run_id"`  // or that of the team's run
	AgentID      string     `json:"agent_id,omitzero"`
	TeamID       string     `json:"team_id,omitzero"`
	Message      string     `json:"message,omitzero"` // until its run was started
	Instructions string     `json:"instructions,omitzero"`
	MaxTokens    int64      `json:"max_tokens,omitzero"` // 0: no limit
	Budgets      []string   `json:"budgets,omitzero"`    // that it spends from
	Started      bool       `json:"started,omitzero"`
	Status       run.Status `json:"status,omitzero"` // of the run, once it has ended
	Text         string     `json:"text,omitzero"`   // the answer, until it was applied
	Error        string     `json:"error,omitzero"`
	ErrorCode    string     `json:"error_code,omitzero"`
	Applied      bool       `json:"applied,omitzero"` // what follows from its end is stored
	Inherited    []string   `json:"inherited,omitzero"`
	Sources      []string   `json:"sources,omitzero"`
	Tokens       int64      `json:"tokens,omitzero"`
	Calls        int64      `json:"calls,omitzero"` // of models
	CostUSD      float64    `json:"cost_usd,omitzero"`
	At           time.Time  `json:"at"` // when it was planned, then when it was started
	EndedAt      time.Time  `json:"ended_at,omitzero"`
}

// Ended reports whether the run of the task has ended.
func (t *Task) Ended() bool { return t.Status != "" }

// Done reports whether the task has an answer.
func (t *Task) Done() bool { return t.Status == run.Completed }

// ErrOver is the error of a task that is started for what has ended or is gone.
var ErrOver = errors.New("objective: what the task is part of is over")

// Store keeps objectives and their tasks, of one owner each: a mission or an initiative.
type Store interface {
	CreateTx(tx txn.Tx, tenant, owner string, objectives []Objective) error
	// UpdateStatesTx stores the states of objectives, and nothing else of them.
	UpdateStatesTx(tx txn.Tx, tenant, owner string, objectives []Objective) error
	// UpdatePlanTx locks an objective, calls change to edit its plan, and stores that.
	// Errors: fault.NotFound, those of change.
	UpdatePlanTx(tx txn.Tx, tenant, owner, id string, change func(*Objective) error) error
	// List returns the objectives of an owner, in the order of their seq.
	List(ctx context.Context, tenant, owner string) ([]Objective, error)
	// PutTasksTx stores tasks, or replaces those of the same seq.
	PutTasksTx(tx txn.Tx, tenant, owner string, tasks []Task) error
	// ListOpenTasks returns the tasks that are not applied, in the order of their seq.
	ListOpenTasks(ctx context.Context, tenant, owner string) ([]Task, error)
	// ListTasks returns up to limit tasks before a seq, newest first; 0: the newest.
	ListTasks(ctx context.Context, tenant, owner string, before, limit int) ([]Task, error)
	// DeleteTx deletes the objectives and tasks of an owner, and returns the tasks whose
	// runs had not ended.
	DeleteTx(tx txn.Tx, tenant, owner string) ([]Task, error)
	// DeleteObjectivesTx deletes single objectives.
	DeleteObjectivesTx(tx txn.Tx, tenant, owner string, ids []string) error
}

// Purse is the port to the budgets of runs; amounts are billionths of a dollar.
type Purse interface {
	PutBudgetTx(tx txn.Tx, tenant, id string, limit int64) error
	// Spent returns what was spent, what is reserved for calls under way included.
	Spent(ctx context.Context, tenant, id string) (int64, error)
	DeleteBudgetTx(tx txn.Tx, tenant, id string) error
}
