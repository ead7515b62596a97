// Package teamrun runs teams. A run of a team is a row, and each thing that a member is
// to do in it is a task: a row too, with a run of the member's agent. What a team does
// next follows from its tasks alone (see next). A worker is held only while that is
// decided: the end of a member's run wakes the team run in the same transaction.
package teamrun

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/teams/team"
)

// WorkKind is the kind of work that drives team runs; the key is the run's id.
const WorkKind = "team.run"

// Status is the state of a team run.
type Status string

// The states. The last four are final.
const (
	Pending        Status = "pending"
	Running        Status = "running"
	Completed      Status = "completed"
	Failed         Status = "failed"
	PartialFailure Status = "partial_failure" // it has an answer, and tasks without a result
	Cancelled      Status = "cancelled"
)

// Final reports whether the state is final.
func (s Status) Final() bool { return s != Pending && s != Running }

// Spec is a team as it was when a run of it began.
type Spec struct {
	Topology   string        `json:"topology"`
	Supervisor string        `json:"supervisor,omitzero"`
	Members    []Member      `json:"members"`
	Delegation string        `json:"delegation"`
	Merge      string        `json:"merge"`
	Shared     bool          `json:"shared,omitzero"` // members see the results of others
	Policies   team.Policies `json:"policies"`
	Initial    string        `json:"initial,omitzero"` // of a swarm
	Handoffs   int           `json:"handoffs,omitzero"`
	Summary    bool          `json:"summary,omitzero"`
	Workspace  string        `json:"workspace,omitzero"`
	Mode       string        `json:"mode,omitzero"` // of orchestration; "": team.StrictAddressed
	ToolDriven bool          `json:"tool_driven,omitzero"`
	Goal       *team.Goal    `json:"goal,omitzero"`

	// What the message comes with.
	Chat         bool            `json:"chat,omitzero"` // the members answer it, without the topology
	AddressedTo  []string        `json:"addressed_to,omitzero"`
	History      []model.Message `json:"history,omitzero"` // the turns before it, for all tasks
	Sources      []string        `json:"sources,omitzero"` // untrusted ones that the history has content of
	Instructions string          `json:"instructions,omitzero"`

	// Wakes is the work that the end of the run makes due; the zero value: none. Budgets
	// are what the runs of members spend from beside their own.
	Wakes   run.Wakes `json:"wakes,omitzero"`
	Budgets []string  `json:"budgets,omitzero"`
}

// Member is an agent that takes part.
type Member struct {
	AgentID    string `json:"agent_id"`
	Role       string `json:"role"`
	ReadOthers bool   `json:"read_others,omitzero"`
	MaxTokens  *int64 `json:"max_tokens,omitzero"`
	MaxSteps   *int64 `json:"max_steps,omitzero"`
	// External is how a worker is reached that is not an agent of the company, in the
	// form of the port External; nil: AgentID is an agent.
	External jsontext.Value `json:"external,omitzero"`
}

// What a task is for.
const (
	plan     = "plan"     // the supervisor divides the message
	work     = "work"     // a member does a task
	peer     = "peer"     // a member improves its result, knowing those of others
	ballot   = "ballot"   // a member votes for a result
	merge    = "merge"    // the supervisor makes one answer of the results
	judge    = "judge"    // an agent decides whether the goal is reached
	lead     = "lead"     // the supervisor works, and delegates by its own tool calls
	reply    = "reply"    // a member answers a message of the chat
	validate = "validate" // an agent scores the answer
	revise   = "revise"   // the supervisor improves the answer
)

// Task is one thing that a member is to do, with a run of its agent.
type Task struct {
	Seq          int        `json:"seq"` // from 1
	Slot         int        `json:"slot"`
	Attempt      int        `json:"attempt"` // from 1; the attempts of one thing share a slot
	RunID        string     `json:"run_id"`
	AgentID      string     `json:"agent_id"`
	Purpose      string     `json:"purpose"`
	Round        int        `json:"round"`
	Message      string     `json:"message"`
	Instructions string     `json:"instructions,omitzero"`
	Started      bool       `json:"started,omitzero"`
	Status       run.Status `json:"status,omitzero"` // of the run, once it has ended
	Text         string     `json:"text,omitzero"`   // the answer
	Error        string     `json:"error,omitzero"`
	// Inherited are the untrusted sources that what was answered before the task has
	// content of, and Sources those that its own answer has content of.
	Inherited    []string  `json:"inherited,omitzero"`
	Sources      []string  `json:"sources,omitzero"`
	InputTokens  int64     `json:"input_tokens,omitzero"`
	OutputTokens int64     `json:"output_tokens,omitzero"`
	CostUSD      float64   `json:"cost_usd,omitzero"` // as far as prices are known
	At           time.Time `json:"at"`                // when it was planned, then when it was started
	EndedAt      time.Time `json:"ended_at,omitzero"`
}

func (t *Task) ended() bool { return t.Status != "" }

func (t *Task) done() bool { return t.Status == run.Completed }

// Record is a team run as it is stored.
type Record struct {
	TenantID    string
	TeamRunID   string
	TeamID      string
	Status      Status
	Spec        Spec
	Message     string
	Thread      string // of the team's chat; "": it is not part of a thread
	Metadata    schema.Object
	KeyID       string // that started it; "": none
	UserID      string // the member who started it; "": none
	Output      string
	Error       string
	Cancel      bool // a caller requested its end
	EventSeq    int64
	CreatedAt   time.Time
	CompletedAt time.Time
}

// Store keeps team runs and their tasks.
type Store interface {
	CreateTx(tx txn.Tx, r *Record) error
	// UpdateTx stores status, output, error, seq of events and end of a run. Errors:
	// fault.NotFound.
	UpdateTx(tx txn.Tx, r *Record) error
	// PutTasksTx stores tasks, or replaces those of the same seq.
	PutTasksTx(tx txn.Tx, tenant, teamRunID string, tasks []Task) error
	// RequestCancelTx notes that a run is to end. Errors: fault.NotFound.
	RequestCancelTx(tx txn.Tx, tenant, teamRunID string) error
	// HasCancelRequestTx reports whether a run is to end.
	HasCancelRequestTx(tx txn.Tx, tenant, teamRunID string) (bool, error)
	// DeleteTeamTx deletes the runs of a team, and returns up to limit runs of members
	// that had not ended.
	DeleteTeamTx(tx txn.Tx, tenant, teamID string, limit int) ([]string, error)
	// Get returns a run. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, teamRunID string) (*Record, error)
	ListTasks(ctx context.Context, tenant, teamRunID string) ([]Task, error)
	// List returns a page of a team's runs, oldest first unless the filter says
	// otherwise.
	List(ctx context.Context, tenant, teamID string, f Filter, w page.Window) ([]Record, error)
	// LockTx locks a run that has not ended. Errors: ErrOver where it has, or is gone.
	LockTx(tx txn.Tx, tenant, teamRunID string) error
}

// Filter selects runs of a team.
type Filter struct {
	Thread *string // only those of the thread; nil: all
	Open   bool    // only those that have not ended
	Newest bool    // newest first
}

// ErrOver is the error of a task that is started for a team run that is gone or has ended.
var ErrOver = errors.New("teamrun: the run of the team is over")
