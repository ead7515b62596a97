package run

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
)

// ErrPausing says that somebody asked for the run to pause since its worker
// last committed. The transaction must be abandoned.
var ErrPausing = errors.New("run: a pause was asked for")

// Wait is what a run that waits is waiting for. A run that waits holds no
// worker; Until is when it has waited long enough and ends as timeout.
type Wait struct {
	Until     time.Time     `json:"until,omitzero"`
	Input     *PendingInput `json:"input,omitzero"` // the question of a paused run
	Auth      *PendingAuth  `json:"auth,omitzero"`
	Approvals int           `json:"asked,omitzero"` // approvals ever asked for, decided or not
	// Woken says that the run goes on with no worker having died.
	Woken bool `json:"woken,omitzero"`
}

// PendingInput is a question of the run's to a person (decisions.md D6,
// ask_user).
type PendingInput struct {
	InputID     string    `json:"input_id" format:"uuid" required:"true"`
	Question    string    `json:"question" required:"true"`
	ToolCallID  string    `json:"tool_call_id"`
	RequestedAt time.Time `json:"requested_at"`
}

// PendingAuth is an authorization that a run's tool call needs first.
type PendingAuth struct {
	ServerID         string `json:"server_id" required:"true"`
	Name             string `json:"name" doc:"What asks for it."`
	AuthorizationURL string `json:"authorization_url" required:"true" doc:"Where a person authorizes it; the run goes on afterwards."`
}

// ApprovalStatus is where an approval stands.
type ApprovalStatus string

// The states of an approval. Only a pending one moves, and only once.
const (
	ApprovalPending   ApprovalStatus = "pending"
	ApprovalApproved  ApprovalStatus = "approved"
	ApprovalRejected  ApprovalStatus = "rejected"
	ApprovalExpired   ApprovalStatus = "expired"
	ApprovalCancelled ApprovalStatus = "cancelled" // the run ended otherwise
)

// Approval is the question whether one tool call may be made, and the answer
// (decisions.md D6). It is bound to the call's arguments by their hash.
type Approval struct {
	ApprovalID    string         `json:"approval_id" format:"uuid" required:"true"`
	RunID         string         `json:"run_id" format:"uuid" required:"true"`
	TenantID      string         `json:"tenant_id"`
	AgentID       string         `json:"agent_id" format:"uuid" required:"true"`
	SessionID     *string        `json:"session_id" format:"uuid"`
	ToolCallID    string         `json:"tool_call_id" required:"true"`
	ToolName      string         `json:"tool_name" required:"true"`
	Arguments     schema.Any     `json:"arguments" doc:"What the model wants to call the tool with."`
	ArgumentsHash string         `json:"arguments_hash" doc:"SHA-256 of the arguments in canonical form, in hex: the approval holds for these and no others."`
	Status        ApprovalStatus `json:"status" enum:"pending,approved,rejected,expired,cancelled" required:"true"`
	RequestedAt   time.Time      `json:"requested_at" required:"true"`
	ExpiresAt     time.Time      `json:"expires_at" required:"true"`

	Decision        ApprovalStatus `json:"decision,omitzero" enum:"approved,rejected" doc:"The status again, where a person decided."`
	DecidedAt       *time.Time     `json:"decided_at,omitzero"`
	DecidedBy       string         `json:"decided_by,omitzero" doc:"The member who decided."`
	Reason          string         `json:"reason,omitzero"`
	Response        string         `json:"response,omitzero" doc:"What the approver told the agent."`
	EditedArguments schema.Any     `json:"edited_arguments,omitzero" doc:"What the tool is called with instead, where the approver changed it."`
}

// PendingApproval is an approval as a run shows it while it waits.
type PendingApproval struct {
	ApprovalID  string     `json:"approval_id" format:"uuid" required:"true"`
	ToolCallID  string     `json:"tool_call_id" required:"true"`
	ToolName    string     `json:"tool_name" required:"true"`
	Arguments   schema.Any `json:"arguments"`
	RequestedAt time.Time  `json:"requested_at" required:"true"`
	ExpiresAt   time.Time  `json:"expires_at" required:"true"`
}

func (a *Approval) pending() PendingApproval {
	return PendingApproval{a.ApprovalID, a.ToolCallID, a.ToolName, a.Arguments, a.RequestedAt, a.ExpiresAt}
}

// EffectiveArguments gives the arguments that an approved call is made with.
func (a *Approval) EffectiveArguments() string {
	if len(a.EditedArguments) > 0 {
		return string(a.EditedArguments)
	}
	return string(a.Arguments)
}

// Covers says whether the approval is about these arguments.
func (a *Approval) Covers(arguments string) bool { return a.ArgumentsHash == HashArguments(arguments) }

// HashArguments is the SHA-256, in hex, of a call's arguments in canonical form
// (RFC 8785); of what is no JSON, of the bytes themselves.
func HashArguments(arguments string) string {
	v := jsontext.Value(arguments)
	if v.IsValid() {
		c := v.Clone()
		if c.Canonicalize() == nil {
			v = c
		}
	}
	sum := sha256.Sum256(v)
	return hex.EncodeToString(sum[:])
}
