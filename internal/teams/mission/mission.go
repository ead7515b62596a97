// Package mission runs missions: a goal, a plan of objectives that wait for each other,
// and agents that work on them, verified by a judge. A mission is a row, and holds a
// worker only while it is decided what comes next; see package objective.
package mission

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/teams/objective"
)

// WorkKind is the kind of work that drives missions; the key is the mission's id.
const WorkKind = "mission"

// The states. The last three are final.
const (
	Planning  = "planning"
	Awaiting  = "awaiting_authorization"
	Executing = "executing"
	Paused    = "paused"
	Verifying = "verifying" // what is left is the judge's
	Completed = "completed"
	Failed    = "failed"
	Aborted   = "aborted"
)

func final(status string) bool { return status == Completed || status == Failed || status == Aborted }

// How a mission came out.
const (
	Success   = "success"
	Partial   = "partial"
	Unreached = "failed"
	Stopped   = "aborted"
)

// Plan is a plan of a mission.
type Plan struct {
	_ struct{} `json:"-" name:"PlannedMission"`

	Goal           string              `json:"goal,omitzero" maxLength:"50000" doc:"What the plan is for. Default: the goal of the mission."`
	Classification string              `json:"classification,omitzero" enum:"quick_reply,mission" doc:"What the goal was found to be."`
	Objectives     []objective.Planned `json:"objectives" required:"true" maxItems:"500" doc:"What is to be reached, at least one. Which objectives wait for which must have no circles."`
	Authorization  bool                `json:"requires_authorization,omitzero" doc:"The mission waits for POST …/authorize before anything is done. Default: false."`
	Deadline       *time.Time          `json:"deadline,omitzero" format:"date-time" doc:"When the mission fails if it has not ended. Default: that of the mission."`
}

// Available is an agent that may work on a mission.
type Available struct {
	_ struct{} `json:"-" name:"MissionAgent"`

	AgentID     string `json:"agent_id" required:"true" minLength:"1" maxLength:"36" ref:"agent" doc:"The agent."`
	Name        string `json:"name" required:"true" maxLength:"200" doc:"What the planner is told that it is called."`
	Description string `json:"description,omitzero" maxLength:"2000" doc:"What the planner is told that it can do."`
}

// Classification is whether a goal needs a plan.
type Classification struct {
	_ struct{} `json:"-" name:"MissionAssessment"`

	Classification string  `json:"classification" enum:"quick_reply,mission" required:"true"`
	Score          float64 `json:"score" required:"true" doc:"0 to 1: how much the goal looks like several things to do."`
	Confidence     float64 `json:"confidence" required:"true" doc:"0 to 1."`
}

// Spec is what a mission was started with.
type Spec struct {
	Goal           string         `json:"goal"`
	Classification Classification `json:"classification"`
	Agents         []Available    `json:"agents,omitzero"`
	PlannerID      string         `json:"planner_id,omitzero"`
	JudgeID        string         `json:"judge_id"`
	WorkerID       string         `json:"worker_id"`
	Authorize      bool           `json:"authorize,omitzero"`
	Deadline       *time.Time     `json:"deadline,omitzero"`
	MaxCostUSD     *float64       `json:"max_cost_usd,omitzero"`
	MaxConcurrency int            `json:"max_concurrency"`
	MaxStrikes     int            `json:"max_strikes"`
}

// Phase is a part of the time of a mission.
type Phase struct {
	_ struct{} `json:"-" name:"MissionPhase"`

	Phase       string     `json:"phase" enum:"recon,plan,authorize,execute,verify" required:"true"`
	StartedAt   time.Time  `json:"started_at" required:"true"`
	CompletedAt *time.Time `json:"completed_at" required:"true"`
	DurationMS  int64      `json:"duration_ms" required:"true"`
}

// State is how far a mission is. Only the worker that holds it changes it.
type State struct {
	TaskSeq      int        `json:"task_seq,omitzero"`
	ObjectiveIDs []string   `json:"objective_ids,omitzero"`
	Checkpoints  []string   `json:"checkpoints,omitzero"`
	FailedIDs    []string   `json:"failed_ids,omitzero"`
	Deadline     *time.Time `json:"deadline,omitzero"`
	Sources      []string   `json:"sources,omitzero"` // untrusted ones that the planner has read
	PlanError    string     `json:"plan_error,omitzero"`
	Outcome      string     `json:"outcome,omitzero"`
	Summary      string     `json:"summary,omitzero"`
	Code         string     `json:"code,omitzero"`
	Verified     int        `json:"verified,omitzero"`
	StartedAt    *time.Time `json:"started_at,omitzero"`
	Phases       []Phase    `json:"phases,omitzero"`
	Tokens       int64      `json:"tokens,omitzero"`
	CostUSD      float64    `json:"cost_usd,omitzero"`
	Calls        int64      `json:"calls,omitzero"`
	Retries      int64      `json:"retries,omitzero"`
}

// Record is a mission as it is stored.
type Record struct {
	TenantID    string
	MissionID   string
	SessionID   string
	Status      string
	Spec        Spec
	State       State
	KeyID       string // that started it; "": none
	UserID      string // who started it; "": none
	EventSeq    int64
	CreatedAt   time.Time
	UpdatedAt   time.Time
	CompletedAt time.Time
	Report      jsontext.Value // after action; nil: none yet

	Ask
}

// Ask is what callers asked of a mission.
type Ask struct {
	Hold       bool   // it is to be paused
	Abort      bool   // it is to end
	Authorized bool   // it may begin
	Reason     string // of the abortion
	Asked      int64  // how often callers asked for something
}

// Store keeps missions.
type Store interface {
	CreateTx(tx txn.Tx, r *Record) error
	// UpdateTx stores what the worker of a mission changes. Errors: fault.NotFound.
	UpdateTx(tx txn.Tx, r *Record) error
	// RequestTx locks a mission, calls change to set what callers asked for, and stores that.
	// Errors: fault.NotFound, those of change.
	RequestTx(tx txn.Tx, tenant, id string, change func(*Record) error) (*Record, error)
	// CountRequestsTx returns how often callers asked for something. Errors: fault.NotFound.
	CountRequestsTx(tx txn.Tx, tenant, id string) (int64, error)
	// LockTx locks a mission that has not ended. Errors: objective.ErrOver.
	LockTx(tx txn.Tx, tenant, id string) error
	// Get returns a mission. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (*Record, error)
	// List returns a page of missions, newest first, of all sessions if session is "".
	List(ctx context.Context, tenant, session string, w page.Window) ([]Record, error)
}
