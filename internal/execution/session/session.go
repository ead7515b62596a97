// Package session is what conversations are: runs of one agent that follow
// each other in turns, on branches that may part (interface.md section 2,
// Session; decisions.md D8).
//
// What is said in a session is not stored: it is read from its runs and their
// steps, along the branch. What is stored is which run is which turn of which
// branch. A run is stored together with its turn, under a lock of the session,
// so that however many nodes take messages, one run of a branch is under way
// at a time, and the others follow in the order in which they came in.
package session

import (
	"time"

	"agentd/internal/base/schema"
	"agentd/internal/kernel/model"
)

// Status is the state of a session.
type Status string

// The states. Only an active one takes messages; nothing leads back.
const (
	Active  Status = "active"
	Closed  Status = "closed"
	Expired Status = "expired"
)

// Queue modes: what becomes of a message while a run of its branch is under way.
const (
	Allow  = "allow"  // it waits its turn
	Reject = "reject" // it is refused, 409 SESSION_BUSY
)

// Root is the branch that every session begins with.
const Root = "main"

// Session is a session as callers see it (interface.md section 2, Session).
type Session struct {
	SessionID     string         `json:"session_id" format:"uuid" required:"true"`
	TenantID      string         `json:"tenant_id" required:"true"`
	AgentID       string         `json:"agent_id" format:"uuid" required:"true"`
	Status        Status         `json:"status" enum:"active,closed,expired" required:"true"`
	History       []Entry        `json:"conversation_history" doc:"What was said on the active branch, oldest first. Empty in lists."`
	Metadata      schema.Object  `json:"metadata"`
	Runs          []string       `json:"runs" doc:"Ids of the runs of all branches, in the order of their turns. Empty in lists."`
	CreatedAt     time.Time      `json:"created_at"`
	UpdatedAt     time.Time      `json:"updated_at"`
	ExpiresAt     *time.Time     `json:"expires_at"`
	TeamID        *string        `json:"team_id" format:"uuid"`
	Branches      []Branch       `json:"branches" doc:"Forks of the conversation, the root first. Empty in lists."`
	ActiveBranch  string         `json:"active_branch" doc:"The branch that new messages go to."`
	QueueMode     string         `json:"queue_mode" enum:"allow,reject"`
	ModelOverride *ModelOverride `json:"model_override" doc:"Used instead of the agent's model."`
}

// ModelOverride is the model of a session's runs (interface.md section 2).
type ModelOverride struct {
	_ struct{} `json:"-" name:"SessionModel"`

	Provider     string        `json:"provider" required:"true" enum:"openai_compat,custom"`
	ModelRef     string        `json:"model_ref" required:"true" minLength:"1" maxLength:"300"`
	EndpointURL  string        `json:"endpoint_url,omitzero" format:"uri"`
	Capabilities schema.Object `json:"capabilities,omitzero"`
}

// Spec is the override as runs take it; nil for none.
func (m *ModelOverride) Spec() *model.Spec {
	if m == nil {
		return nil
	}
	return &model.Spec{Provider: m.Provider, ModelRef: m.ModelRef, EndpointURL: m.EndpointURL}
}

// Entry is one thing that was said (interface.md section 2, ConversationEntry;
// decisions.md D8).
type Entry struct {
	_ struct{} `json:"-" name:"ConversationEntry"`

	MessageID       string       `json:"message_id" doc:"Stays the same for as long as the session is there."`
	Role            string       `json:"role" enum:"user,assistant,system,tool_result" required:"true"`
	Content         string       `json:"content" required:"true"`
	RunID           string       `json:"run_id"`
	Timestamp       time.Time    `json:"timestamp"`
	Compacted       bool         `json:"compacted" doc:"The model gets a summary in place of it."`
	Thinking        string       `json:"thinking,omitzero"`
	ToolCalls       []ToolCall   `json:"tool_calls,omitzero"`
	OutputTruncated bool         `json:"output_truncated,omitzero"`
	CostUSD         *float64     `json:"cost_usd,omitzero" doc:"Of the run, with its last reply."`
	Attachments     []Attachment `json:"attachments,omitzero"`
	FromTodo        string       `json:"from_todo,omitzero" doc:"The todo that sent the message."`

	step int64 // of the run; 0: its message
}

// Roles of entries.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleSystem    = "system"
	roleTool      = "tool_result"
)

// ToolCall is a call that an assistant made and that has a result.
type ToolCall struct {
	_ struct{} `json:"-" name:"ConversationToolCall"`

	ID         string  `json:"id" required:"true"`
	Name       string  `json:"name" required:"true"`
	Status     string  `json:"status" enum:"done,error" required:"true"`
	Input      string  `json:"input,omitzero"`
	Output     string  `json:"output,omitzero"`
	DurationMS int64   `json:"duration_ms"`
	Error      *string `json:"error,omitzero"`
}

// Branch is a line of the conversation (decisions.md D8).
type Branch struct {
	_ struct{} `json:"-" name:"SessionBranch"`

	BranchID  string    `json:"branch_id" required:"true"`
	ParentID  string    `json:"parent_branch_id,omitzero"`
	Name      string    `json:"name" required:"true"`
	ForkRunID string    `json:"fork_point_run_id" required:"true" doc:"The last run that the branch shares with its parent; empty where it shares none."`
	ForkStep  int64     `json:"fork_point_step_seq" required:"true" doc:"The last step of that run that is shared; 0: all of them; -1: none, only the run's message."`
	Runs      []string  `json:"runs" required:"true" doc:"The branch's own runs."`
	Status    string    `json:"status" enum:"active,abandoned,merged" required:"true"`
	CreatedAt time.Time `json:"created_at" required:"true"`
}

const branchActive = "active"

// Record is a session as it is stored.
type Record struct {
	TenantID, SessionID, AgentID string
	TeamID                       *string
	Status                       Status
	QueueMode                    string
	Model                        *ModelOverride
	Metadata                     schema.Object
	ActiveBranch                 string
	Turns                        int64 // the last one that was given out
	Summary                      Summary
	CreatedAt, UpdatedAt         time.Time
	ExpiresAt                    time.Time // zero: never
}

// Summary is what lists tell of a conversation without reading it.
type Summary struct {
	First string `json:"first,omitzero"` // message of the user, cut
	Last  string `json:"last,omitzero"`  // message of anybody, cut
	Count int64  `json:"count,omitzero"` // messages of users, and answers
}

// Turn says which run is which turn.
type Turn struct {
	SessionID string
	Turn      int64 // from 1, over all branches
	BranchID  string
	RunID     string
	Finished  bool
}

// status is the record's at a moment: one whose time is over has expired,
// whether or not that is stored already.
func (r *Record) status(now time.Time) Status {
	if r.Status == Active && !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt) {
		return Expired
	}
	return r.Status
}

// show is the session without what is read from runs.
func (r *Record) show(now time.Time) Session {
	s := Session{
		SessionID: r.SessionID, TenantID: r.TenantID, AgentID: r.AgentID, TeamID: r.TeamID,
		Status: r.status(now), Metadata: r.Metadata, QueueMode: r.QueueMode, ModelOverride: r.Model,
		ActiveBranch: r.ActiveBranch, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		History: []Entry{}, Runs: []string{}, Branches: []Branch{},
	}
	if !r.ExpiresAt.IsZero() {
		s.ExpiresAt = &r.ExpiresAt
	}
	return s
}
