package client

import (
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Run is what the command line shows of a run. Times that are not yet known
// are zero.
type Run struct {
	RunID       string         `json:"run_id"`
	AgentID     string         `json:"agent_id"`
	SessionID   string         `json:"session_id"`
	Status      string         `json:"status"`
	Input       jsontext.Value `json:"input"`
	Metadata    jsontext.Value `json:"metadata"`
	Output      jsontext.Value `json:"output"`
	Metrics     Metrics        `json:"metrics"`
	Error       string         `json:"error"`
	ErrorCode   string         `json:"error_code"`
	ContinuedBy string         `json:"continued_by_run_id"`
	ParentRunID string         `json:"parent_run_id"`
	RootRunID   string         `json:"root_run_id"`
	CreatedAt   time.Time      `json:"created_at"`
	StartedAt   time.Time      `json:"started_at"`
	CompletedAt time.Time      `json:"completed_at"`
	Pending     []Approval     `json:"pending_approvals"`
	Question    Question       `json:"pending_input"`
	Auth        Authorization  `json:"pending_auth"`
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

// Question is what a run asks a person; an empty one is none.
type Question struct {
	InputID  string `json:"input_id"`
	Question string `json:"question"`
}

// Authorization is a server that a person has to authorize; an empty one is none.
type Authorization struct {
	Name string `json:"name"`
	URL  string `json:"authorization_url"`
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

// Cancelled is the answer to Cancel. Message says why a run was not cancelled.
type Cancelled struct {
	Cancelled bool   `json:"cancelled"`
	Message   string `json:"message"`
}

// AgentsPath, RunsPath and SessionsPath are the lists of the API that the command
// line uses most.
const (
	AgentsPath   = "/api/v1/agents"
	RunsPath     = "/api/v1/runs"
	SessionsPath = "/api/v1/sessions"
)

// Path joins a path and further elements, escaped.
func Path(path string, elements ...string) string {
	for _, e := range elements {
		path += "/" + url.PathEscape(e)
	}
	return path
}

// member reads a string member of a JSON object of unknown shape.
func member(object jsontext.Value, name string) string {
	var members map[string]jsontext.Value
	var text string
	if json.Unmarshal(object, &members) != nil || json.Unmarshal(members[name], &text) != nil {
		return ""
	}
	return text
}
