// Package a2a has agents work for agents of other systems, in the terms of the
// Agent2Agent protocol. What such an agent asks for is a task. A task is a row and a
// run: both have the same id, and are stored in one transaction. The state of the task
// follows that of the run.
//
// Tasks of one conversation share a context: the model of a later task sees the messages
// and answers of those before it.
//
// The wire formats of the protocol are elsewhere (edge/a2aserver); this package has the
// tasks, their operations by REST, and the notifications of their changes.
package a2a

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// State is the state of a task.
type State string

// The states. The last three are final.
const (
	Submitted     State = "submitted"
	Working       State = "working"
	InputRequired State = "input-required"
	Completed     State = "completed"
	Canceled      State = "canceled"
	Failed        State = "failed"
)

// Final reports whether the state is final.
func (s State) Final() bool { return s == Completed || s == Canceled || s == Failed }

// Settled reports whether the task is over, or goes on only when a person acts.
func (s State) Settled() bool { return s.Final() || s == InputRequired }

// Who wrote a message.
const (
	User  = "user" // the peer
	Agent = "agent"
)

// Message is a message of a task.
type Message struct {
	_ struct{} `json:"-" name:"A2AMessage"`

	Role      string `json:"role" enum:"user,agent" required:"true" doc:"Who wrote it: user is the peer."`
	Parts     []Part `json:"parts" maxItems:"100" required:"true" doc:"What it consists of, in order."`
	MessageID string `json:"message_id,omitzero" maxLength:"200" doc:"Id of the message, of the peer's choice."`
}

// The types of parts.
const (
	TextPart = "text"
	FilePart = "file"
	DataPart = "data"
)

// Part is a piece of a message or of an artifact.
type Part struct {
	_ struct{} `json:"-" name:"A2APart"`

	Type string         `json:"type" enum:"text,file,data" required:"true" doc:"Which of the other fields it has."`
	Text string         `json:"text,omitzero" doc:"The text."`
	File *File          `json:"file,omitzero" doc:"The file."`
	Data jsontext.Value `json:"data,omitzero" doc:"Any JSON."`
}

// File is a file in a part: its bytes, or an address.
type File struct {
	_ struct{} `json:"-" name:"A2AFile"`

	Name     string `json:"name,omitzero" maxLength:"500" doc:"Name of the file."`
	MimeType string `json:"mime_type,omitzero" maxLength:"200" doc:"Its media type."`
	Data     string `json:"data,omitzero" doc:"Its bytes, in base64."`
	URI      string `json:"uri,omitzero" maxLength:"2048" doc:"Where it is. It is not fetched."`
}

// Artifact is something that a task made.
type Artifact struct {
	_ struct{} `json:"-" name:"A2AArtifact"`

	ArtifactID  string `json:"artifact_id" required:"true"`
	Name        string `json:"name" required:"true" doc:"answer, for the answer of the agent; else the name of a file."`
	Description string `json:"description,omitzero"`
	Parts       []Part `json:"parts" required:"true"`
	Index       int    `json:"index" required:"true" doc:"From 0."`
}

// Task is a task as callers see it.
type Task struct {
	_ struct{} `json:"-" name:"A2ATask"`

	ID            string        `json:"id" format:"uuid" required:"true" doc:"Id of the task; its run has the same."`
	TaskID        string        `json:"task_id" format:"uuid" required:"true" doc:"The same as id."`
	RunID         string        `json:"run_id" format:"uuid" required:"true" doc:"The run that does the task."`
	AgentID       string        `json:"agent_id" format:"uuid" required:"true" doc:"The agent that does it."`
	ContextID     string        `json:"context_id" required:"true" doc:"The conversation that it belongs to."`
	Status        State         `json:"status" enum:"submitted,working,input-required,completed,canceled,failed" required:"true"`
	StatusMessage string        `json:"status_message,omitzero" doc:"What it waits for, or why it failed."`
	Messages      []Message     `json:"messages" required:"true" doc:"Oldest first."`
	History       []Message     `json:"history" required:"true" doc:"The same as messages."`
	Artifacts     []Artifact    `json:"artifacts" required:"true" doc:"What it made. Not in lists."`
	Metadata      schema.Object `json:"metadata" required:"true" doc:"As the peer sent it."`
	CreatedAt     time.Time     `json:"created_at" required:"true"`
	UpdatedAt     time.Time     `json:"updated_at" required:"true" doc:"When its status changed last."`
}

// Record is a task as it is stored.
type Record struct {
	TenantID  string
	TaskID    string // and that of its run
	AgentID   string
	ContextID string
	State     State
	Changes   int64 // of the state
	Messages  []Message
	Metadata  schema.Object
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Store keeps tasks, and where their changes are sent.
type Store interface {
	CreateTx(tx txn.Tx, r *Record) error
	// Get returns a task. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, taskID string) (*Record, error)
	// List returns a page of tasks, newest first.
	List(ctx context.Context, tenant string, w page.Window) ([]Record, error)
	// GetLastCompleted returns the newest completed task of a context and an agent; "":
	// there is none.
	GetLastCompleted(ctx context.Context, tenant, agentID, contextID string) (string, error)
	// UpdateStateTx stores the state of a task, and counts the change. It reports false
	// where the task has that state already, or does not exist.
	UpdateStateTx(tx txn.Tx, tenant, taskID string, s State, at time.Time) (bool, error)
	// UpdateMessagesTx stores the messages of a task.
	UpdateMessagesTx(tx txn.Tx, tenant, taskID string, all []Message) error
	// CountChangesTx returns how often the state of a task has changed.
	CountChangesTx(tx txn.Tx, tenant, taskID string) (int64, error)
	Pushes
}

// Pushes keeps where the changes of tasks are sent.
type Pushes interface {
	// PutPushTx stores an address, or replaces the one with its id.
	PutPushTx(tx txn.Tx, p *Push) error
	// GetPush returns an address. Errors: fault.NotFound.
	GetPush(ctx context.Context, tenant, taskID, configID string) (*Push, error)
	// ListPushes returns the addresses of a task, by their ids.
	ListPushes(ctx context.Context, tenant, taskID string) ([]Push, error)
	// ListPushesTx is ListPushes in the caller's transaction.
	ListPushesTx(tx txn.Tx, tenant, taskID string) ([]Push, error)
	// UpdateSentTx stores how far an address has been told, and how often that failed since.
	UpdateSentTx(tx txn.Tx, p *Push) error
	DeletePushTx(tx txn.Tx, tenant, taskID, configID string) error
}

// Runs is the port to runs; *run.Service implements it.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	Cancel(ctx context.Context, tenant, id string) (run.CancelAnswer, error)
	Respond(ctx context.Context, tenant, id, response string) error
}

// Records is the port to runs as they are stored; run.Store implements it.
type Records interface {
	Get(ctx context.Context, tenant, id string) (*run.Record, error)
}

// Chains links the runs of a context; *responsechain.Service implements it.
type Chains interface {
	// Link returns the admission that makes a run the successor of another one, whose
	// conversation it continues; "": of none.
	Link(runID, previous string) run.Admission
}
