// Package policy is the port through which the engine asks for permission before
// it acts. Governance, permissions and guardrails implement it; without them
// [AllowAll] answers.
package policy

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"
)

// Run describes the run to a gate.
type Run struct {
	TenantID   string
	RunID      string
	AgentID    string
	StepID     string         // the step that is checked; "" where there is none
	Guardrails jsontext.Value // the agent's guardrails field; nil if it has none
}

// Stage is when a text is checked.
type Stage string

// The stages of a run.
const (
	Input  Stage = "input"  // the message, before the first model call
	Output Stage = "output" // the final text, before it is shown
	Tool   Stage = "tool"   // the arguments of a call before it, its result after it
)

// Action is the consequence of a violation.
type Action string

// The actions. Flag lets a text pass and reports the violation.
const (
	Block  Action = "block"
	Redact Action = "redact"
	Flag   Action = "flag"
)

// Violation is one rule that a text broke. It is data of the event
// guardrail.violated.
type Violation struct {
	GuardrailID string `json:"guardrail_id"`
	Name        string `json:"name"`
	Stage       Stage  `json:"stage"`
	Action      Action `json:"action"`
	Reason      string `json:"reason,omitzero"` // one sentence, without the text that offended
}

// Verdict is a gate's answer. The zero Verdict lets everything pass.
type Verdict struct {
	Refused bool
	Code    string // error_code of the run, or part of the message to the model
	Reason  string // one sentence for a person

	Changed    bool   // Text replaces the text that was checked
	Text       string // redacted
	Checks     int    // how many guardrails ran
	Violations []Violation
}

// Watch is the set of stages that any guardrail checks.
type Watch struct {
	Input, Output, Tool bool
}

// Gate decides what a run may do. An error is not a refusal: the engine retries
// later.
type Gate interface {
	// BeforeRun is called before a run starts; a refusal ends it as rejected.
	BeforeRun(ctx context.Context, r Run) (Verdict, error)
	// Watches is called when a run starts and must be quick. The gate is not
	// called for stages that nothing watches, and text is streamed as it arrives
	// if nothing watches the output.
	Watches(ctx context.Context, r Run) (Watch, error)
	// BeforeInput checks the message; a refusal ends the run as
	// guardrail_blocked.
	BeforeInput(ctx context.Context, r Run, text string) (Verdict, error)
	// BeforeTool is called before each tool call, whatever is watched. A refusal
	// becomes the call's result for the model. Changed arguments replace those of
	// the call.
	BeforeTool(ctx context.Context, r Run, tool, arguments string) (Verdict, error)
	// AfterTool checks a call's result; a refusal withholds it.
	AfterTool(ctx context.Context, r Run, tool, output string) (Verdict, error)
	// BeforeAnswer is called before a final text goes out, whatever is watched; a
	// refusal ends the run as guardrail_blocked.
	BeforeAnswer(ctx context.Context, r Run, text string) (Verdict, error)
}

// AllowAll is the gate of a deployment without governance. Embed it to
// implement only some of the methods.
type AllowAll struct{}

// BeforeRun implements Gate.
func (AllowAll) BeforeRun(context.Context, Run) (Verdict, error) { return Verdict{}, nil }

// Watches implements Gate.
func (AllowAll) Watches(context.Context, Run) (Watch, error) { return Watch{}, nil }

// BeforeInput implements Gate.
func (AllowAll) BeforeInput(context.Context, Run, string) (Verdict, error) { return Verdict{}, nil }

// BeforeTool implements Gate.
func (AllowAll) BeforeTool(context.Context, Run, string, string) (Verdict, error) {
	return Verdict{}, nil
}

// AfterTool implements Gate.
func (AllowAll) AfterTool(context.Context, Run, string, string) (Verdict, error) {
	return Verdict{}, nil
}

// BeforeAnswer implements Gate.
func (AllowAll) BeforeAnswer(context.Context, Run, string) (Verdict, error) { return Verdict{}, nil }
