package run

import "slices"

// Status is the state of a run (interface.md section 3; decisions.md D6).
type Status string

// The states.
const (
	Queued           Status = "queued"
	Running          Status = "running"
	Completed        Status = "completed"
	Failed           Status = "failed"
	Cancelled        Status = "cancelled"
	TimedOut         Status = "timeout"
	GuardrailBlocked Status = "guardrail_blocked"
	Paused           Status = "paused"
	AwaitingApproval Status = "awaiting_approval"
	AuthRequired     Status = "auth_required"
	Rejected         Status = "rejected"
)

// Statuses lists every state, in the order of the specification.
var Statuses = []Status{
	Queued, Running, Completed, Failed, Cancelled, TimedOut, GuardrailBlocked, Paused, AwaitingApproval, AuthRequired, Rejected,
}

// moves is the whole table: what is not in it is illegal, and a final state
// has no row. docs/states/run.md draws it; a test compares the two.
var moves = map[Status][]Status{
	Queued:           {Running, Cancelled, Rejected, TimedOut},
	Running:          {Completed, Failed, Cancelled, TimedOut, GuardrailBlocked, Paused, AwaitingApproval, AuthRequired},
	Paused:           {Running, Cancelled, TimedOut},
	AwaitingApproval: {Running, Rejected, Cancelled, TimedOut},
	AuthRequired:     {Running, Cancelled, TimedOut, Failed},
}

// Final says whether the state is an end.
func (s Status) Final() bool { return len(moves[s]) == 0 }

// Waits says whether a run in this state waits for somebody, and holds no
// worker.
func (s Status) Waits() bool { return s == Paused || s == AwaitingApproval || s == AuthRequired }

// May says whether a run in state s may move to next.
func (s Status) May(next Status) bool { return slices.Contains(moves[s], next) }

// Valid says whether s is a state at all.
func (s Status) Valid() bool { return slices.Contains(Statuses, s) }

// EventName is the event that tells of arriving in a state.
func (s Status) EventName() string {
	if s == Running {
		return "run.started"
	}
	return "run." + string(s)
}

// Error codes of runs that did not complete (decisions.md D6).
const (
	CodeModelError       = "model_error"
	CodeModelRateLimited = "model_rate_limited"
	CodeAgentDeleted     = "agent_deleted"
	CodePolicyBlocked    = "policy_blocked"
	CodeInternalError    = "internal_error"
	CodeCancelled        = "RUN_CANCELLED"
	CodeGuardrailBlocked = "guardrail_blocked"
	CodeMaxDuration      = "MAX_DURATION_EXCEEDED"
	CodeApprovalRejected = "approval_rejected"
	CodeApprovalExpired  = "approval_expired"
	CodeInputTimeout     = "run_input_timeout"
	CodeAuthExpired      = "authorization_expired"
	CodeBudgetExceeded   = "budget_exceeded"
	CodePricing          = "PRICING_UNAVAILABLE"
	CodeQuotaExceeded    = "quota_exceeded" // the tenant's plan allows no more
)
