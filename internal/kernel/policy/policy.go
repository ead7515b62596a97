// Package policy is the port through which the engine asks before it acts.
// Governance, permissions and guardrails stand behind it; where there is none,
// [AllowAll] answers.
package policy

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"
)

// Run is what a gate is told of the run that asks.
type Run struct {
	TenantID   string
	RunID      string
	AgentID    string
	Guardrails jsontext.Value // the agent's guardrails field; nil where it has none
}

// Stage is when a text is checked.
type Stage string

// The stages of a run.
const (
	Input  Stage = "input"  // the message, before the first model call
	Output Stage = "output" // the final text, before anybody sees it
	Tool   Stage = "tool"   // the arguments of a call before it, its result after it
)

// Action is what happened because of a violation.
type Action string

// The actions. Flag lets a text pass and tells of it.
const (
	Block  Action = "block"
	Redact Action = "redact"
	Flag   Action = "flag"
)

// Violation is one rule that a text broke. It is data of the event
// guardrail.violated (decisions.md D9).
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
	Code    string // error_code of the run, or part of what the model is told
	Reason  string // one sentence for a person

	Changed    bool   // Text goes on instead of what was asked about
	Text       string // redacted
	Checks     int    // guardrails that were asked
	Violations []Violation
}

// Watch says which stages anything watches.
type Watch struct {
	Input, Output, Tool bool
}

// Gate decides. An error is not a refusal: the engine tries again later.
type Gate interface {
	// BeforeRun is asked before a run starts; a refusal ends it as rejected.
	BeforeRun(ctx context.Context, r Run) (Verdict, error)
	// Watches is asked when a run starts and must be quick. The stages that
	// nothing watches are not asked about, and text streams as it comes where
	// nothing watches the output.
	Watches(ctx context.Context, r Run) (Watch, error)
	// BeforeInput is asked about the message; a refusal ends the run as
	// guardrail_blocked.
	BeforeInput(ctx context.Context, r Run, text string) (Verdict, error)
	// BeforeTool is asked before each tool call, whatever is watched; the model
	// is told a refusal. Changed arguments are called with.
	BeforeTool(ctx context.Context, r Run, tool, arguments string) (Verdict, error)
	// AfterTool is asked about a call's result; a refusal withholds it.
	AfterTool(ctx context.Context, r Run, tool, output string) (Verdict, error)
	// BeforeAnswer is asked before a final text goes out, whatever is watched; a
	// refusal ends the run as guardrail_blocked.
	BeforeAnswer(ctx context.Context, r Run, text string) (Verdict, error)
}

// AllowAll is the gate of a deployment without governance. Embed it to
// implement only some of the questions.
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
