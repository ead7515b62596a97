package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Run is what the command line shows of a run. Times that are not yet known
// are zero.
type Run struct {
	RunID       string         `json:"run_id"`
	AgentID     string         `json:"agent_id"`
	Status      string         `json:"status"`
	Input       jsontext.Value `json:"input"`
	Output      jsontext.Value `json:"output"`
	Metrics     Metrics        `json:"metrics"`
	Error       string         `json:"error"`
	ErrorCode   string         `json:"error_code"`
	CreatedAt   time.Time      `json:"created_at"`
	StartedAt   time.Time      `json:"started_at"`
	CompletedAt time.Time      `json:"completed_at"`
	Pending     []Approval     `json:"pending_approvals"`
}

// Message is what the run was asked; "" where its input has another shape.
func (r Run) Message() string { return member(r.Input, "message") }

// Text is the run's final text; "" where there is none.
func (r Run) Text() string { return member(r.Output, "text") }

// Metrics counts what a run took.
type Metrics struct {
	DurationMS   float64  `json:"duration_ms"`
	Steps        int      `json:"steps_count"`
	InputTokens  int      `json:"input_tokens"`
	OutputTokens int      `json:"output_tokens"`
	LLMCalls     int      `json:"llm_calls_count"`
	CostUSD      *float64 `json:"total_cost_usd"`
}

// Approval is a tool call that waits for a decision.
type Approval struct {
	ApprovalID string         `json:"approval_id"`
	ToolName   string         `json:"tool_name"`
	Arguments  jsontext.Value `json:"arguments"`
}

// Step is one step of a run.
type Step struct {
	Seq        int            `json:"seq"`
	Type       string         `json:"type"`
	Status     string         `json:"status"`
	DurationMS float64        `json:"duration_ms"`
	Input      jsontext.Value `json:"input"`
	Error      jsontext.Value `json:"error"`
}

// StartRun starts a run of an agent with a message.
func (c *Client) StartRun(ctx context.Context, agentID, message string) (Doc[Run], error) {
	type input struct {
		Message string `json:"message"`
	}
	return call[Doc[Run]](ctx, c, "POST", "/api/v1/runs", nil, struct {
		AgentID string `json:"agent_id"`
		Input   input  `json:"input"`
	}{agentID, input{message}})
}

// Run reads one run.
func (c *Client) Run(ctx context.Context, id string) (Doc[Run], error) {
	return call[Doc[Run]](ctx, c, "GET", runPath(id), nil, nil)
}

// RunFilter narrows a list of runs; what is empty does not narrow.
type RunFilter struct {
	Status  string
	AgentID string
}

// Runs returns runs, newest first, and requests pages as they are needed. most
// is the largest number that the caller will read.
func (c *Client) Runs(ctx context.Context, f RunFilter, most int) iter.Seq2[Doc[Run], error] {
	query := url.Values{"limit": {strconv.Itoa(min(max(most, 1), pageSize))}}
	if f.Status != "" {
		query.Set("status", f.Status)
	}
	if f.AgentID != "" {
		query.Set("agent_id", f.AgentID)
	}
	return list[Doc[Run]](ctx, c, "/api/v1/runs", query)
}

// Steps reads the steps of a run.
func (c *Client) Steps(ctx context.Context, id string) ([]Doc[Step], error) {
	type steps struct {
		Steps []Doc[Step] `json:"steps"`
	}
	got, err := call[steps](ctx, c, "GET", runPath(id)+"/steps", nil, nil)
	return got.Steps, err
}

// Cancelled is the answer to Cancel. Message says why a run was not cancelled.
type Cancelled struct {
	Cancelled bool   `json:"cancelled"`
	Message   string `json:"message"`
}

// Cancel asks the server to cancel a run.
func (c *Client) Cancel(ctx context.Context, id string) (Doc[Cancelled], error) {
	return call[Doc[Cancelled]](ctx, c, "POST", runPath(id)+"/cancel", nil, nil)
}

func runPath(id string) string { return "/api/v1/runs/" + url.PathEscape(id) }

// member reads a string member of a JSON object of unknown shape.
func member(object jsontext.Value, name string) string {
	var members map[string]jsontext.Value
	var text string
	if json.Unmarshal(object, &members) != nil || json.Unmarshal(members[name], &text) != nil {
		return ""
	}
	return text
}
