// Package tool is what agents can do beside talking: tools with a schema for
// their arguments, a registry of them, and the calls that models make.
//
// A call never fails for the model's mistakes or the tool's: what went wrong
// comes back as a result that tells the model how to go on.
package tool

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

// Tool is something that a model can ask for. It does not change.
type Tool struct {
	Name        string         // letters, digits, "_" and "-", up to 64
	Description string         // for the model
	Parameters  jsontext.Value // JSON Schema of the arguments, an object

	// After a crash a call whose outcome is unknown is repeated only if the
	// tool is one of these (decisions.md D6).
	ReadOnly   bool
	Idempotent bool

	Timeout time.Duration // of one call; 0: the registry's

	// Run does the work. The call's arguments fit the schema. An error is for
	// what is wrong with the tool: of a *fault.Error the model sees the
	// Detail, of any other a general sentence. What the model can mend is a
	// failed result. Run heeds its context, which ends with the timeout.
	Run func(context.Context, Call) (Result, error)
}

// Call is a model's call of a tool, and on whose behalf.
type Call struct {
	TenantID  string
	AgentID   string
	RunID     string
	SessionID string
	ID        string // the model's tool_call_id, which endpoints may use again in a later step
	StepID    string // of the journal; the same when the call is repeated after a crash
	Name      string
	Arguments string // as the model wrote them; "" is {}
}

// Result is what the model gets to see of a call.
type Result struct {
	Output string // text or JSON
	Failed bool   // Output says what went wrong
	Cause  error  // of a failure, for logs; nil where Output says it all

	Files []File // become artifacts of the run, with the step's commit
	// Authorize says that the call was not made and had no effect, because
	// somebody must authorize it first. The run waits, and makes it then.
	Authorize *Authorization
}

// File is what a call made, to be kept with the run.
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

// Failure is a failed result with a sentence for the model.
func Failure(sentence string) Result { return Result{Output: sentence, Failed: true} }

// Repeatable says whether a call may be made again when nobody knows whether
// it took effect.
func (t Tool) Repeatable() bool { return t.ReadOnly || t.Idempotent }

func (t Tool) spec() model.ToolSpec {
	return model.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
}
