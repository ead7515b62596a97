// Package policy is the port through which the engine asks before it acts.
// Governance, permissions and guardrails stand behind it; where there is none,
// [AllowAll] answers.
package policy

import "context"

// Run is what a gate is told of the run that asks.
type Run struct {
	TenantID string
	RunID    string
	AgentID  string
}

// Verdict is a gate's answer.
type Verdict struct {
	Refused bool
	Code    string // error_code of the run, or part of what the model is told
	Reason  string // one sentence for a person
}

// Gate decides. An error is not a refusal: the engine tries again later.
type Gate interface {
	// BeforeRun is asked before a run starts; a refusal ends it as rejected.
	BeforeRun(ctx context.Context, r Run) (Verdict, error)
	// BeforeTool is asked before each tool call; the model is told a refusal.
	BeforeTool(ctx context.Context, r Run, tool, arguments string) (Verdict, error)
	// BeforeAnswer is asked before a final text goes out; a refusal ends the
	// run as guardrail_blocked.
	BeforeAnswer(ctx context.Context, r Run, text string) (Verdict, error)
}

// AllowAll is the gate of a deployment without governance.
type AllowAll struct{}

// BeforeRun implements Gate.
func (AllowAll) BeforeRun(context.Context, Run) (Verdict, error) { return Verdict{}, nil }

// BeforeTool implements Gate.
func (AllowAll) BeforeTool(context.Context, Run, string, string) (Verdict, error) {
	return Verdict{}, nil
}

// BeforeAnswer implements Gate.
func (AllowAll) BeforeAnswer(context.Context, Run, string) (Verdict, error) { return Verdict{}, nil }
