package run

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/model"
)

// Filter narrows a list of runs. Its fields are the filters of listRuns: as query
// parameters, as conditions on rows and with the index of each; see sqldb.Filter.
type Filter struct {
	page.Created

	SessionID string   `query:"session_id" doc:"Only runs of this session." filter:"session_id = ?" index:"runs_session"`
	AgentID   string   `query:"agent_id" doc:"Only runs of this agent." filter:"agent_id = ?" index:"runs_agent"`
	Status    []Status `query:"status" doc:"Only runs in one of these states." enum:"queued,running,completed,failed,cancelled,timeout,guardrail_blocked,paused,awaiting_approval,auth_required,rejected" filter:"status IN (?)" index:"runs_status"`
	ErrorCode string   `query:"error_code" doc:"Only runs that ended with this error." maxLength:"100" filter:"error_code <> '' AND error_code = ?" index:"runs_error"`

	ParentRunID string `query:"parent_run_id" doc:"Only runs that this run started." filter:"started_by = 'run:' || ?" index:"runs_started_by"`
	RootRunID   string `query:"root_run_id" doc:"Only runs that descend from this run." filter:"root_run_id = ?" index:"runs_root"`
	StartedBy   string `query:"started_by" doc:"Only runs that this started: the type and id of started_by, such as key:ID or member:ID." filter:"started_by = ?" index:"runs_started_by"`

	Metadata map[string]string `query:"metadata" doc:"Only runs whose metadata has these members: metadata[key]=value, up to 3 keys. Texts must be equal, numbers and booleans are compared by their JSON text. Values of the first 64 keys of a run are found."`
}

// Update has the columns of a run's row that change. It replaces all of them.
type Update struct {
	Status      Status
	Output      schema.Nullable
	Metrics     Metrics
	Error       *string
	ErrorCode   string
	StartedAt   *time.Time
	CompletedAt *time.Time
	StepSeq     int64
	EventSeq    int64
	Outcome     *Outcome // as Stored returns it
	Pending     []PendingStep
	Wait        Wait
	Pause       PauseMode
	// Answer is the step of the same transaction from whose output that of the run
	// was made; nil if there is none. A store need not keep its text twice.
	Answer *Step
}

// PauseMode is what an update does if a pause was requested.
type PauseMode int

// The modes. An update that ends or suspends a run clears the request. One whose
// result must be stored in any case keeps it for the next update.
const (
	PauseAborts  PauseMode = iota // the update fails with ErrPausing
	PauseKept                     // the update is made, the request stays
	PauseCleared                  // the update is made, the request is removed
)

// UpdateOf returns the update that stores a record.
func UpdateOf(r *Record) Update {
	return Update{
		Status: r.Status, Output: r.Output, Metrics: r.Metrics, Error: r.Error, ErrorCode: r.ErrorCode,
		StartedAt: r.StartedAt, CompletedAt: r.CompletedAt, StepSeq: r.StepSeq, EventSeq: r.EventSeq,
		Pending: r.Pending, Wait: r.Wait, Outcome: r.Outcome.Stored(),
	}
}

// ApprovalFilter narrows a list of approvals, as [Filter] does one of runs. There
// is no index of agents: all approvals of the tenant are read for one.
type ApprovalFilter struct {
	RunID   string         `query:"run_id" doc:"Only approvals of this run." filter:"run_id = ?" index:"approvals_run"`
	AgentID string         `query:"agent_id" doc:"Only approvals of this agent." filter:"agent_id = ?" index:"approvals_agent"`
	Status  ApprovalStatus `query:"status" doc:"Only approvals in this state." enum:"pending,approved,rejected,expired,cancelled" filter:"status = ?" index:"approvals_status"`
}

// Store is the port to the tables of runs and steps. Every call takes the
// tenant; a run of another tenant is fault.NotFound.
type Store interface {
	// Create stores a new run. Errors: fault.Conflict with ALREADY_EXISTS for an id
	// that the tenant has already.
	Create(r *Record) txn.Op
	// Update is fenced by the caller, who holds the run's lease in tx, or has the
	// row from LockTx.
	Update(tenant, id string, u Update) txn.Op
	// LockTx reads a run and keeps others from changing it until commit.
	LockTx(tx txn.Tx, tenant, id string) (*Record, error)
	Get(ctx context.Context, tenant, id string) (*Record, error)
	// List returns a page of runs: fewer than the window's limit where their size
	// reaches page.Weight.
	List(ctx context.Context, tenant string, f Filter, w page.Window) ([]Run, error)
	// ListSummaries returns what List does, with the beginnings of input and output in
	// place of them, and without metadata.
	ListSummaries(ctx context.Context, tenant string, f Filter, w page.Window) ([]Run, error)
	// CountStatus counts the runs in a state, up to limit.
	CountStatus(ctx context.Context, tenant string, status Status, limit int) (int, error)
	// ListUnfinished returns the ids of an agent's runs that have not ended.
	ListUnfinished(ctx context.Context, tenant, agent string, limit int) ([]string, error)

	// HasUnfinishedTx reports whether a run that has not ended uses a version of an
	// agent.
	HasUnfinishedTx(tx txn.Tx, tenant, agent string, version int64) (bool, error)

	// CountUnfinishedTx returns how many of the runs exist and have not ended. It locks
	// none of them.
	CountUnfinishedTx(tx txn.Tx, tenant string, ids []string) (int, error)
	// ListUnfinishedChildrenTx returns runs that steps of a run started and that have
	// not ended.
	ListUnfinishedChildrenTx(tx txn.Tx, tenant, parent string, limit int) ([]string, error)

	// AppendStep stores a step that has ended.
	AppendStep(s *Step) txn.Op
	// ListSteps returns up to limit steps after a seq, in order. limit 0: all.
	ListSteps(ctx context.Context, tenant, id string, after int64, limit int) ([]Step, error)
	// GetStep returns a step that has ended, or nil.
	GetStep(ctx context.Context, tenant, id, stepID string) (*Step, error)
	Families
	Budgets

	// RequestPauseTx stores that the run is to pause at its next step boundary.
	RequestPauseTx(tx txn.Tx, tenant, id string) error
	// ListWaiting returns the ids of runs in auth_required that wait for a server.
	ListWaiting(ctx context.Context, tenant, server string, limit int) ([]string, error)

	// AppendInheritedTx makes a run begin with the steps of one that failed: those whose
	// result a model may read. It stores with the other that this run continues it.
	// Errors: fault.Conflict with ALREADY_CONTINUED if a run does already.
	AppendInheritedTx(tx txn.Tx, tenant, from, to string) error
	// AppendForkedTx makes a run begin with the steps of another before a seq: those
	// whose result a model may read.
	AppendForkedTx(tx txn.Tx, tenant, from, to string, before int64) error

	// CreateModelWait stores that a run waits for an endpoint, and for no other.
	CreateModelWait(w ModelWait) txn.Op
	// DeleteModelWait removes what CreateModelWait stored, if anything.
	DeleteModelWait(tenant, id string) txn.Op
	// ConsumeModelWaitTx deletes the wait of a run for an endpoint, and reports whether
	// there was one.
	ConsumeModelWaitTx(tx txn.Tx, w ModelWait) (bool, error)
	// ListLimitWaits returns runs of a tenant that wait for an endpoint, oldest first.
	ListLimitWaits(ctx context.Context, endpoint, tenant string, limit int) ([]ModelWait, error)
	// ListLimitWaiters returns one run for each tenant and account whose limit runs
	// wait for.
	ListLimitWaiters(ctx context.Context, limit int) ([]ModelWait, error)
	// ListModelWaits returns runs of all tenants that wait for an endpoint, oldest
	// first.
	ListModelWaits(ctx context.Context, endpoint string, limit int) ([]ModelWait, error)

	// CreateApproval stores a pending approval.
	CreateApproval(a *Approval) txn.Op
	// UpdateApproval stores the status and the decision. The run's row is locked,
	// or its lease held.
	UpdateApproval(a *Approval) txn.Op
	// ListApprovalsByRun returns a run's approvals, oldest first, in the caller's
	// transaction if tx is not nil.
	ListApprovalsByRun(ctx context.Context, tx txn.Tx, tenant, id string) ([]Approval, error)
	GetApproval(ctx context.Context, tenant, approvalID string) (*Approval, error)
	// ListApprovals returns a page of approvals, newest first.
	ListApprovals(ctx context.Context, tenant string, f ApprovalFilter, w page.Window) ([]Approval, error)

	// GetLastSeqTx returns the highest seq in a run's event log, drafts included.
	GetLastSeqTx(tx txn.Tx, tenant, id string) (int64, error)
}

// AgentSpec is the part of one version of an agent that runs need.
type AgentSpec struct {
	ID        string
	Version   int64
	Suspended bool
	Traffic   *agent.Traffic // of the agent; nil: new runs use its newest version
	Model     model.Spec
	Fallback  *model.Spec
	System    string // the agent's own prompt
	Tools     []string
	Limits    Limits
	// CancelOnDisconnect is the agent's policies.cancel_on_disconnect: a client
	// of the chat routes that leaves a stream cancels its run.
	CancelOnDisconnect bool

	// OnMachine: a machine carries the agent's runs, and this platform calls no model for them.
	OnMachine bool

	ModelRetry ModelRetry
	Settings   []byte // the agent's model_settings

	ToolOverrides    []agent.ToolOverride // go before the rules
	ApprovalRules    []ApprovalRule       // policies.tool_approvals, which go before the lists
	ApprovalTools    []string             // approval_required_tools
	AutoApproveTools []string             // go before a * in ApprovalTools
	ApprovalTimeout  time.Duration        // policies.approval_timeout_ms

	MCP             schema.Object // this and the next ones are the agent's fields, parsed by those who use them
	Memory          schema.Nullable
	Guardrails      schema.Nullable
	Thinking        schema.Nullable
	EffortPolicy    schema.Nullable
	ImageGeneration schema.Nullable
	Outcome         *judge.Rubric // of runs that bring none; nil: they end with their first answer
	Skills          []agent.Skill // those with a name
	ContextStrategy string        // compaction | summarize | truncate | sliding_window
	ContextWindow   int           // messages that sliding_window keeps

	Public *agent.PublicConfig // nil: the agent does not talk with visitors
	// Only, if it is not nil, has the names of the tools that the run may call; no others
	// are offered.
	Only []string
}

// ForVisitors returns the configuration of runs that answer strangers. What the company
// wrote for itself does not reach them: its prompt is replaced if there is one for
// visitors, and without a tool's name in allowed_tools the tool does not exist. Nothing is
// recalled from the agent's memory, which has what others said, and nothing is kept in it.
// Their answers are not judged: the company would pay for each stranger several times.
func (spec *AgentSpec) ForVisitors() *AgentSpec {
	s := *spec
	s.Memory, s.Only, s.Outcome = nil, []string{}, nil
	if p := spec.Public; p != nil {
		s.Only = append(s.Only, p.AllowedTools...)
		if prompt := strings.TrimSpace(p.SystemPrompt); prompt != "" {
			s.System = prompt
		}
	}
	if !s.Offers(agent.SkillTool) {
		s.Skills = nil
	}
	if len(s.Only) == 0 {
		s.MCP = nil // no server is asked for tools that are not offered
	}
	return &s
}

// Offers reports whether runs may call a tool of that name.
func (spec *AgentSpec) Offers(tool string) bool {
	return spec.Only == nil || slices.Contains(spec.Only, tool)
}

// ModelRetry bounds how long a step waits for a model whose failure passes. The
// zero value allows no wait.
type ModelRetry struct {
	MaxElapsed  time.Duration // from the first failure to the last attempt
	MaxAttempts int           // of the step; 0: any number
}

// DefaultModelRetry is the bound of agents that set none.
var DefaultModelRetry = ModelRetry{MaxElapsed: 15 * time.Minute}

// Modes of approval rules.
const (
	ApprovalAlways = "always"
	ApprovalNever  = "never"
	ApprovalWhen   = "when"
)

// Trust returns how far the agent's tool_overrides trust a tool; "" where none is of
// it.
func (spec *AgentSpec) Trust(tool string) string {
	for _, o := range spec.ToolOverrides {
		if o.Tool == tool {
			return o.Trust
		}
	}
	return ""
}

// ApprovalRule defines whether calls of a tool wait for approval: always, never,
// or when a CEL condition on the arguments holds.
type ApprovalRule struct {
	Tool      string `json:"tool_name"`
	Approval  string `json:"approval"`
	Condition string `json:"condition,omitzero"` // of ApprovalWhen, over the variable arguments
}

// Agents is the port to agents. Version 0 is the newest. An agent of another
// tenant is fault.NotFound, as one that does not exist.
type Agents interface {
	Spec(ctx context.Context, tenant, id string, version int64) (*AgentSpec, error)
	// Patched returns the configuration as a merge patch would change it; nothing is
	// stored. Errors: fault.Invalid for a patch that the agent does not take.
	Patched(ctx context.Context, tenant, id string, version int64, patch jsontext.Value) (*AgentSpec, error)
}

// SpecOf returns the configuration that a run uses.
func SpecOf(ctx context.Context, agents Agents, r *Record) (*AgentSpec, error) {
	if s := r.Options.Sandbox; s != nil {
		return agents.Patched(ctx, r.TenantID, r.AgentID, r.AgentVersion, s.Patch)
	}
	spec, err := agents.Spec(ctx, r.TenantID, r.AgentID, r.AgentVersion)
	if err == nil && r.Options.Visitor {
		spec = spec.ForVisitors()
	}
	return spec, err
}

// Starter is the port to the engine: it stores the run, in the state that
// policy and capacity allow, and drives it to its end.
type Starter interface {
	Start(ctx context.Context, r *Record, spec *AgentSpec) error
}
