// Package bridge connects machines: programs at other places that carry the runs of agents
// with what is there, such as files and commands. A machine registers and gets an agent of
// its own. Each run of that agent is a task for the machine, with the run's id. The machine
// polls for tasks, or receives them over a socket, and reports what it does as events,
// which go into the run's stream. A task is there until its run has ended, so that neither
// side loses it by a crash, and what is reported twice counts once.
package bridge

import (
	"context"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

// ProtocolVersion is the version of the protocol that machines speak.
const ProtocolVersion = 1

// Limits of what machines may send. They are above what an honest machine needs.
const (
	MaxMachines  = 2000     // of a company
	MaxBody      = 1 << 20  // bytes of a report
	maxEvents    = 500      // of a report
	maxTaskCount = 20_000   // events of a task
	maxTaskBytes = 32 << 20 // of the events of a task
	maxStats     = 32
	maxSpecTools = 200
	maxSpecError = 500
	shownAtOnce  = 50 // connections in a status
)

// How a machine's age since its last sign of life is called.
const (
	Online  = "online"
	Stale   = "stale"
	Offline = "offline"

	onlineFor = 90 * time.Second
	staleFor  = 5 * time.Minute
	// HeartbeatEvery is how often a machine should send a heartbeat.
	HeartbeatEvery = 30 * time.Second
)

// Facts are what a machine says of itself.
type Facts struct {
	MachineName      string          `json:"machine_name,omitzero"`
	OS               string          `json:"os,omitzero"`
	App              string          `json:"app,omitzero"`
	Version          string          `json:"version"`
	Protocol         int             `json:"protocol_version"`
	Capabilities     []string        `json:"capabilities"`
	WorkingDirectory string          `json:"working_directory"`
	Hostname         string          `json:"hostname,omitzero"`
	ParentAgentID    string          `json:"parent_agent_id,omitzero"`
	AttributionOnly  bool            `json:"attribution_only,omitzero"`
	Specs            []InstalledSpec `json:"installed_specs,omitzero"`
	Stats            schema.Object   `json:"stats,omitzero"`
	StatsAt          time.Time       `json:"stats_at,omitzero"`
}

// InstalledSpec is a specification that a machine has installed.
type InstalledSpec struct {
	_ struct{} `json:"-" name:"BridgeInstalledSpec"`

	SpecID     string     `json:"spec_id" required:"true" maxLength:"200" doc:"Name of the specification, with its scope."`
	Version    string     `json:"version,omitzero" maxLength:"100" doc:"The version that is installed."`
	Tools      []string   `json:"tools,omitzero" maxItems:"200" doc:"Names of the tools that it added on the machine."`
	Status     string     `json:"status" required:"true" enum:"installed,failed" doc:"Whether it could be installed."`
	Error      string     `json:"error,omitzero" doc:"Why not; cut at 500 characters."`
	ReportedAt *time.Time `json:"reported_at,omitzero" doc:"When it was so; left out: now."`
}

// Machine is a machine as it is stored.
type Machine struct {
	TenantID     string
	MachineID    string
	AgentID      string
	UserID       string
	Facts        Facts
	RegisteredAt time.Time
	SeenAt       time.Time
	LeftAt       time.Time // zero: it has not deregistered
	DeletedAt    time.Time // zero: its agent is there
}

// Status returns what the machine's age since its last sign of life is called.
func (m *Machine) Status(now time.Time) string {
	switch age := now.Sub(m.SeenAt); {
	case !m.LeftAt.IsZero() || !m.DeletedAt.IsZero() || age > staleFor:
		return Offline
	case age > onlineFor:
		return Stale
	}
	return Online
}

// Task is a run that a machine carries, as it is stored.
type Task struct {
	TenantID string
	TaskID   string
	AgentID  string
	Body     PendingTask
	Taken    bool
	OfferAt  time.Time
	Events   int64
	Bytes    int64
	QueuedAt time.Time
}

// PendingTask is a task as the machine gets it.
type PendingTask struct {
	_ struct{} `json:"-" name:"BridgePendingTask"`

	TaskID    string     `json:"task_id" format:"uuid" required:"true" doc:"Id of the task; its run has the same."`
	AgentID   string     `json:"agent_id" required:"true" doc:"The agent that the machine belongs to."`
	SessionID string     `json:"session_id,omitzero" doc:"The session of the run, if it has one."`
	RunID     string     `json:"run_id,omitzero" doc:"The same as task_id."`
	Input     TaskInput  `json:"input" required:"true" doc:"What is to be done."`
	QueuedAt  time.Time  `json:"queued_at" required:"true" doc:"When the run was created."`
	ExpiresAt time.Time  `json:"expires_at" required:"true" doc:"When the run ends unless the machine has reported something by then."`
	Source    TaskSource `json:"source" required:"true" doc:"Who asked for it."`
}

// TaskInput is what is to be done.
type TaskInput struct {
	_ struct{} `json:"-" name:"BridgeTaskInput"`

	Message string   `json:"message" required:"true" doc:"The message to the agent."`
	History []Turn   `json:"conversation_history,omitzero" doc:"Earlier turns, oldest first."`
	Files   []string `json:"files,omitzero" doc:"Ids of files that belong to the message; GET /api/v1/files/{id} has them."`
}

// Turn is an earlier message of a conversation.
type Turn struct {
	_ struct{} `json:"-" name:"BridgeTurn"`

	Role    string `json:"role" doc:"user or assistant."`
	Content string `json:"content" doc:"What was said."`
}

// TaskSource is who asked for a task.
type TaskSource struct {
	_ struct{} `json:"-" name:"BridgeTaskSource"`

	Type    string `json:"type" enum:"head_agent,user,team" required:"true" doc:"user: a person or a key; team: a run of a team; head_agent: another agent."`
	AgentID string `json:"agent_id,omitzero" doc:"The other agent's run, where one asked."`
	UserID  string `json:"user_id,omitzero" doc:"The key or the member that asked."`
}

// Store keeps machines and their tasks. Every call takes the tenant; what belongs to
// another one is fault.NotFound.
type Store interface {
	// ClaimTx stores a machine unless there is one with its id, and reports whether it did.
	// Others that claim the same id wait until the transaction ends.
	ClaimTx(tx txn.Tx, m *Machine) (bool, error)
	// LockMachineTx reads a machine and keeps others from changing it until commit.
	LockMachineTx(tx txn.Tx, tenant, machineID string) (*Machine, error)
	GetMachine(ctx context.Context, tenant, machineID string) (*Machine, error)
	// ListMachines returns all machines of a tenant, by their ids.
	ListMachines(ctx context.Context, tenant string) ([]Machine, error)
	ListMachinesOfAgent(ctx context.Context, tenant, agentID string) ([]Machine, error)
	CountMachinesTx(tx txn.Tx, tenant string) (int64, error)
	// UpdateMachineTx stores facts and times of a machine.
	UpdateMachineTx(tx txn.Tx, m *Machine) error
	// UpdateSeenTx stores a sign of life of a machine that is registered, and reports whether it
	// is.
	UpdateSeenTx(tx txn.Tx, tenant, machineID string, at time.Time) (bool, error)
	// UpdateDeletedTx stores that the agent of machines was deleted.
	UpdateDeletedTx(tx txn.Tx, tenant, agentID string, at time.Time) error
	DeleteMachineTx(tx txn.Tx, tenant, machineID string) error
	Tasks
}

// Tasks keeps the tasks of machines.
type Tasks interface {
	// CreateTaskTx stores a task, unless it is there.
	CreateTaskTx(tx txn.Tx, t *Task) error
	GetTask(ctx context.Context, tenant, taskID string) (*Task, error)
	// ListTasks returns tasks of an agent, oldest first.
	ListTasks(ctx context.Context, tenant, agentID string, limit int) ([]Task, error)
	// OfferTx stores when a poll may give a task again, and reports whether it may now.
	OfferTx(tx txn.Tx, tenant, taskID string, now, again time.Time) (bool, error)
	// OfferAllTx lets a poll give all tasks of an agent again.
	OfferAllTx(tx txn.Tx, tenant, agentID string) error
	// CountTx adds events to a task, which the machine has taken with that, and returns all
	// that it has now. Errors: fault.NotFound.
	CountTx(tx txn.Tx, tenant, taskID string, events, bytes int64) (Task, error)
	// AddEventTx stores the key of a reported event, and reports whether it is new.
	AddEventTx(tx txn.Tx, tenant, taskID, key string) (bool, error)
	// HasEvent reports whether the key of an event is stored.
	HasEvent(ctx context.Context, tenant, taskID, key string) (bool, error)
	// DeleteTaskTx deletes a task and the keys of its events.
	DeleteTaskTx(tx txn.Tx, tenant, taskID string) error
}

func notMachine() error {
	return fault.New(fault.NotFound, "",
		"No such machine is registered with this key's member. Register it with POST /api/v1/bridge/register.")
}
