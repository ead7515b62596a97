package run

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
)

// ErrPausing reports that a pause was requested since the run's worker last
// committed. The transaction must be abandoned.
var ErrPausing = errors.New("run: a pause was asked for")

// WaitReason is what a running run waits for without a person.
type WaitReason string

// WaitsForModel is the reason of a run whose model call failed for a reason that
// passes, and is made again later.
const WaitsForModel WaitReason = "model"

// WaitsForLimit is the reason of a run whose next model call a limit of the
// provider does not allow yet.
const WaitsForLimit WaitReason = "provider_limit"

// WaitsForRuns is the reason of a run whose tool calls wait for the end of runs
// that they started.
const WaitsForRuns WaitReason = "child_runs"

// WaitsForMachine is the reason of a run that the machine of its agent carries. Wait.Next
// is when it ends unless the machine has reported something by then.
const WaitsForMachine WaitReason = "machine"

// Wait is what a run waits for. A run that waits holds no worker. At Until it
// ends as timeout; zero: it waits without limit.
type Wait struct {
	Until     time.Time     `json:"until,omitzero"`
	Input     *PendingInput `json:"input,omitzero"` // the question of a paused run
	Auth      *PendingAuth  `json:"auth,omitzero"`
	Approvals int           `json:"asked,omitzero"` // approvals that were ever requested, decided or not
	// Woken: the run continues after a wait; no worker has died.
	Woken bool `json:"woken,omitzero"`
	// Released: the last worker released the run in the middle of a step; its
	// process did not die.
	Released bool `json:"released,omitzero"`

	// For, if set, is what a running run waits for. Its step is tried again at
	// Next, at the latest; the time since Since, when the wait began, counts as running.
	For      WaitReason `json:"for,omitzero"`
	Since    time.Time  `json:"since,omitzero"`
	Next     time.Time  `json:"next,omitzero"`
	Attempts int        `json:"attempts,omitzero"` // of the step, that failed
}

// Show sets the fields of the run that are derived from others: its wait, and
// which run it continues or was forked from.
func (r *Record) Show() {
	r.ContinuesRunID, r.ForkedFromRunID = cmp.Or(r.Options.Inherits, r.Options.Continues), r.Options.ForkOf
	if r.ForkedFromRunID != "" {
		r.ContinuesRunID = ""
	}
	w := &r.Wait
	r.PendingInput, r.PendingAuth = w.Input, w.Auth
	r.WaitingFor, r.Attempts, r.NextAttemptAt = w.For, w.Attempts, nil
	if !w.Next.IsZero() {
		r.NextAttemptAt = &w.Next
	}
	r.showOutcome()
}

// ModelWait is a run that waits for a model.
type ModelWait struct {
	TenantID string
	RunID    string
	Endpoint string // identifies endpoint, model and key, or an account; see the engine
	Tokens   int    // that the call needs, where it waits for a limit
}

// PendingInput is the question of a run to a person, asked with ask_user.
type PendingInput struct {
	InputID     string    `json:"input_id" format:"uuid" required:"true"`
	Question    string    `json:"question" required:"true"`
	ToolCallID  string    `json:"tool_call_id"`
	RequestedAt time.Time `json:"requested_at"`
}

// PendingAuth is the authorization that a run's tool call needs first.
type PendingAuth struct {
	ServerID         string `json:"server_id" required:"true"`
	Name             string `json:"name" doc:"What needs the authorization."`
	AuthorizationURL string `json:"authorization_url" required:"true" doc:"Where a person grants it; the run continues afterwards."`
}

// ApprovalStatus is the state of an approval.
type ApprovalStatus string

// The states of an approval. Only a pending one changes, and only once.
const (
	ApprovalPending   ApprovalStatus = "pending"
	ApprovalApproved  ApprovalStatus = "approved"
	ApprovalRejected  ApprovalStatus = "rejected"
	ApprovalExpired   ApprovalStatus = "expired"
	ApprovalCancelled ApprovalStatus = "cancelled" // the run ended otherwise
)

// Approval is a request to allow one tool call, and the decision. It is bound to
// the call's arguments by their hash.
type Approval struct {
	ApprovalID    string         `json:"approval_id" format:"uuid" required:"true"`
	RunID         string         `json:"run_id" format:"uuid" required:"true"`
	TenantID      string         `json:"tenant_id"`
	AgentID       string         `json:"agent_id" format:"uuid" required:"true"`
	SessionID     *string        `json:"session_id" format:"uuid"`
	ToolCallID    string         `json:"tool_call_id" required:"true"`
	ToolName      string         `json:"tool_name" required:"true"`
	Arguments     schema.Any     `json:"arguments" doc:"The arguments that the model wrote. Null in summaries."`
	ArgumentsHash string         `json:"arguments_hash" doc:"SHA-256 of the arguments in canonical form, in hex. The approval is valid for these only."`
	Status        ApprovalStatus `json:"status" enum:"pending,approved,rejected,expired,cancelled" required:"true"`
	RequestedAt   time.Time      `json:"requested_at" required:"true"`
	ExpiresAt     time.Time      `json:"expires_at" required:"true"`

	Decision        ApprovalStatus `json:"decision,omitzero" enum:"approved,rejected" doc:"The decision of a person."`
	DecidedAt       *time.Time     `json:"decided_at,omitzero"`
	DecidedBy       string         `json:"decided_by,omitzero" doc:"Member who decided."`
	Reason          string         `json:"reason,omitzero"`
	Response        string         `json:"response,omitzero" doc:"Message of the approver to the agent."`
	EditedArguments schema.Any     `json:"edited_arguments,omitzero" doc:"Arguments with which the approver replaced those of the model. Not in summaries."`

	AgentName string `json:"agent_name,omitzero" doc:"Only in summaries."`
}

// PendingApproval is a pending approval as it is shown in its run.
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

// EffectiveArguments returns the arguments with which an approved call is made.
func (a *Approval) EffectiveArguments() string {
	if len(a.EditedArguments) > 0 {
		return string(a.EditedArguments)
	}
	return string(a.Arguments)
}

// Covers reports whether the approval is for these arguments.
func (a *Approval) Covers(arguments string) bool { return a.ArgumentsHash == HashArguments(arguments) }

// HashArguments returns the SHA-256, in hex, of a call's arguments in canonical
// form (RFC 8785), or of the bytes themselves if they are not JSON.
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

// Wakes names an item of work; see work.Item.
type Wakes struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
}
