package run

import (
	"slices"

	"agentd/internal/kernel/model"
)

// Status is the state of a run.
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

// transitions has the legal transitions; a final state has no row.
// docs/states/run.md draws it, and a test compares the two.
var transitions = map[Status][]Status{
	Queued:           {Running, Cancelled, Rejected, TimedOut},
	Running:          {Completed, Failed, Cancelled, TimedOut, GuardrailBlocked, Paused, AwaitingApproval, AuthRequired},
	Paused:           {Running, Cancelled, TimedOut},
	AwaitingApproval: {Running, Rejected, Cancelled, TimedOut},
	AuthRequired:     {Running, Cancelled, TimedOut, Failed},
}

// Final reports whether the state is final.
func (s Status) Final() bool { return len(transitions[s]) == 0 }

// Failure reports whether a run in this state did not end as it should; one that was
// cancelled is none.
func (s Status) Failure() bool { return s.Final() && s != Completed && s != Cancelled }

// Waits reports whether a run in this state waits for a person and holds no
// worker.
func (s Status) Waits() bool { return s == Paused || s == AwaitingApproval || s == AuthRequired }

// May reports whether a run in state s may move to next.
func (s Status) May(next Status) bool { return slices.Contains(transitions[s], next) }

// Valid reports whether s is a state.
func (s Status) Valid() bool { return slices.Contains(Statuses, s) }

// EventName returns the name of the event of arriving in the state.
func (s Status) EventName() string {
	if s == Running {
		return "run.started"
	}
	return "run." + string(s)
}

// Error codes of runs that did not complete.
const (
	CodeModelError       = "model_error"
	CodeModelRateLimited = "model_rate_limited"
	CodeAgentDeleted     = "agent_deleted"
	CodePolicyBlocked    = "policy_blocked"
	CodeInternalError    = "internal_error"
	CodeStepCrashed      = "step_crashed"
	CodeCancelled        = "RUN_CANCELLED"
	CodeGuardrailBlocked = "guardrail_blocked"
	CodeMaxDuration      = "MAX_DURATION_EXCEEDED"
	CodeApprovalRejected = "approval_rejected"
	CodeApprovalExpired  = "approval_expired"
	CodeInputTimeout     = "run_input_timeout"
	CodeAuthExpired      = "authorization_expired"
	CodeBudgetExceeded   = "budget_exceeded"
	CodePricing          = "PRICING_UNAVAILABLE"
	CodeOutputMismatch   = "output_schema_mismatch"
	CodeNotReached       = "outcome_not_reached"
	CodeNotJudged        = "outcome_not_judged"
	CodeModelRefused     = model.CodeRefused
	CodeContentFiltered  = model.CodeFiltered
	CodeMachineSilent    = "machine_silent" // the machine of the agent did not report in time
	CodeMachineFailed    = "machine_failed" // it reported that the task failed, without a code
	CodeMachineRunaway   = "machine_runaway"
	CodeQuotaExceeded    = "quota_exceeded" // the tenant's plan allows no more
)
