// Package tool has the tools that agents can use: a tool with a JSON Schema for
// its arguments, a registry of them, and the calls that models make.
//
// Mistakes of the model and failures of the tool do not become Go errors: they
// are results that explain to the model what went wrong and how to go on.
package tool

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

// Tool is a function that a model can call. It is immutable.
type Tool struct {
	Name        string         // letters, digits, "_" and "-", up to 64
	Description string         // for the model
	Parameters  jsontext.Value // JSON Schema of the arguments, an object

	// After a crash a call whose outcome is unknown is repeated only if its tool
	// is read-only or idempotent (rule D6-in-flight).
	ReadOnly   bool
	Idempotent bool

	// Source is the untrusted source that every result has content of, such as web;
	// "": none.
	Source string

	Timeout time.Duration // of one call; 0 means the registry's

	// Run executes a call, whose arguments are valid according to the schema. A
	// problem that the model can fix is a failed Result. An error means that the
	// tool is defective: the model receives the Detail of a *fault.Error, and a
	// general sentence for any other. Run returns when its context ends, at the
	// latest after the timeout.
	Run func(context.Context, Call) (Result, error)
}

// Call is a model's call of a tool, and the run that it belongs to.
type Call struct {
	TenantID  string
	AgentID   string
	RunID     string
	SessionID string
	// WorkspaceID is the workspace of the run; "": the agent's.
	WorkspaceID string
	// KnowledgeBases are ids of bases that the run may search beside those of the agent.
	KnowledgeBases []string
	ID             string // the model's tool_call_id, which endpoints may use again in a later step
	StepID         string // of the journal; the same when the call is repeated after a crash
	Name           string
	Arguments      string // as the model wrote them; "" is {}
	// Sources are the untrusted sources that the run has read. What the call creates
	// has content of them.
	Sources []string
	// Awaits is what an earlier try of the call waits for; nil in the first.
	Awaits *Await
}

// Await is what a call waits for without a worker: the end of a run that it
// started.
type Await struct {
	RunID string    `json:"run_id"`
	Until time.Time `json:"until"` // the call is made again then, at the latest
}

// Result is the outcome of a call, as the model receives it.
type Result struct {
	Output string // text or JSON
	Failed bool   // Output explains the failure
	Cause  error  // of a failure, for logs; nil if Output has all of it

	// Sources are the untrusted sources that the result has content of, beside that of
	// the tool.
	Sources []string
	// Citations are the passages of documents that the result has.
	Citations []model.Citation

	Files []File // become artifacts of the run, with the step's commit
	// Authorize, if not nil, means that the call was not made and had no effect,
	// because a person must authorize it first. The run waits for that and then
	// makes the call.
	Authorize *Authorization
	// Await, if not nil, means that the call goes on without a worker. It is made
	// again when that has ended, with Call.Awaits. The tool must be idempotent.
	Await *Await
}

// File is a file that a call produced, to be kept with the run.
type File struct {
	Name     string
	MimeType string
	Data     []byte
}

// Authorization is what a call needs from a person before it can be made.
type Authorization struct {
	ServerID string `json:"server_id"` // runs wait for it by this id
	Name     string `json:"name"`      // of the server, for people
	URL      string `json:"url"`       // where to authorize
}

// Failure returns a failed result with an explanation for the model.
func Failure(sentence string) Result { return Result{Output: sentence, Failed: true} }

// Repeatable reports whether a call may be made again if it is unknown whether it
// took effect.
func (t Tool) Repeatable() bool { return t.ReadOnly || t.Idempotent }

func (t Tool) spec() model.ToolSpec {
	return model.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
}
