// Package session implements conversations: runs of one agent that follow each
// other in turns, on branches that can fork.
//
// The messages of a session are not stored. They are read from its runs and
// their steps, along a branch. What is stored is which run is which turn of
// which branch. A run is stored together with its turn, under a lock on the
// session, so that at most one run of a branch is under way at a time, however
// many nodes accept messages, and the others follow in the order in which they
// were accepted.
//
// Service assembles the parts, each of which has only the ports that it needs:
//
//	lifecycle          creates, lists, updates, closes and expires sessions
//	turnQueue          admits runs to a session and starts the next turn
//	messageService     sends messages and lists the history
//	branchService      forks, activates and deletes branches
//	streamer           serves the event stream of a session
//	todoService        keeps todos and starts runs for those that are due
//	annotationService  keeps the annotations of messages
//	shareService       makes public links, and serves what they show
//	exporter           exports a conversation as Markdown or JSON
package session

import (
	"strconv"
	"time"
	"unicode/utf8"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/model"
)

// Status is the status of a session.
type Status string

// The statuses. Only an active session accepts messages. A closed or expired
// session never becomes active again.
const (
	Active  Status = "active"
	Closed  Status = "closed"
	Expired Status = "expired"
)

// Queue modes: what happens to a message while a run of its branch is under way.
const (
	Allow  = "allow"  // it waits for its turn
	Reject = "reject" // it is refused with 409 SESSION_BUSY
)

// Root is the id and name of the branch that every session begins with.
const Root = "main"

// Session is a session as the API shows it.
type Session struct {
	SessionID        string         `json:"session_id" format:"uuid" required:"true"`
	TenantID         string         `json:"tenant_id" required:"true"`
	AgentID          string         `json:"agent_id" format:"uuid" required:"true"`
	Status           Status         `json:"status" enum:"active,closed,expired" required:"true"`
	History          []Entry        `json:"conversation_history" doc:"The newest 100 messages of the active branch, oldest first. Empty in lists."`
	HistoryTruncated bool           `json:"history_truncated,omitzero" doc:"There are older messages; the list of messages has them, in pages."`
	Metadata         schema.Object  `json:"metadata"`
	Runs             []string       `json:"runs" doc:"Run ids of all branches, in the order of their turns. Empty in lists."`
	CreatedAt        time.Time      `json:"created_at"`
	UpdatedAt        time.Time      `json:"updated_at"`
	ExpiresAt        *time.Time     `json:"expires_at"`
	TeamID           *string        `json:"team_id" format:"uuid"`
	Branches         []Branch       `json:"branches" doc:"Branches of the conversation, root first. Empty in lists."`
	ActiveBranch     string         `json:"active_branch" doc:"The branch that new messages go to."`
	QueueMode        string         `json:"queue_mode" enum:"allow,reject"`
	ExternalID       string         `json:"external_id,omitzero" doc:"The id that a front end has for the conversation; unique among the sessions of the agent."`
	ModelOverride    *ModelOverride `json:"model_override" doc:"Used instead of the agent's model."`
	LastEventID      string         `json:"last_event_id,omitzero" doc:"The event up to which this is the state: follow the stream of events after it. Not in lists."`
}

// Editable implements route.Editable.
func (s *Session) Editable() any {
	return struct {
		Metadata  schema.Object
		QueueMode string
		Model     *ModelOverride
	}{s.Metadata, s.QueueMode, s.ModelOverride}
}

// ModelOverride is the model that the runs of a session use instead of their
// agent's.
type ModelOverride struct {
	_ struct{} `json:"-" name:"SessionModel"`

	Provider      string        `json:"provider" required:"true" enum:"openai_compat,custom" doc:"openai_compat: a model of the catalogue, or of endpoint_url; custom: a model of endpoint_url, or a builtin one."`
	ModelRef      string        `json:"model_ref" required:"true" minLength:"1" maxLength:"300" doc:"A name that the endpoint knows, or <provider>/<model> of the catalogue."`
	EndpointURL   string        `json:"endpoint_url,omitzero" format:"uri" doc:"An OpenAI-compatible endpoint of your own, up to and with /v1. Default: the deployment's."`
	ModelProvider string        `json:"model_provider,omitzero" readOnly:"true" doc:"The operator's provider of the model, as it was when the model was named. Runs go to no other; where the operator removed it, they fail with model_provider_missing."`
	Capabilities  schema.Object `json:"capabilities,omitzero" doc:"What the model can do. Runs read thinking, reasoning_effort, thinking_budget and max_context_tokens."`
}

// Spec returns the override in the form that runs take; nil if there is none.
func (m *ModelOverride) Spec() *model.Spec {
	if m == nil {
		return nil
	}
	return &model.Spec{Provider: m.Provider, ModelRef: m.ModelRef, EndpointURL: m.EndpointURL, Remembered: m.ModelProvider}
}

// remember notes which provider serves the model of an override, that of before where
// it names the same model.
func (m *ModelOverride) remember(before *ModelOverride, providerOf func(ref string) string) {
	if m == nil {
		return
	}
	m.ModelProvider = ""
	switch {
	case providerOf == nil || m.EndpointURL != "" || m.Provider != model.OpenAICompat:
	case before != nil && before.ModelRef == m.ModelRef && before.Provider == m.Provider && before.EndpointURL == "":
		m.ModelProvider = before.ModelProvider
	default:
		m.ModelProvider = providerOf(m.ModelRef)
	}
}

// addresses returns the endpoint of an override, nothing if it names none.
func (m *ModelOverride) addresses() []egress.Address {
	if m == nil || m.EndpointURL == "" {
		return nil
	}
	return []egress.Address{{Field: "model_override.endpoint_url", URL: m.EndpointURL}}
}

// Entry is one message of a conversation.
type Entry struct {
	_ struct{} `json:"-" name:"ConversationEntry"`

	MessageID       string           `json:"message_id" doc:"Never changes."`
	Role            string           `json:"role" enum:"user,assistant,system,tool_result" required:"true"`
	Content         string           `json:"content" required:"true"`
	RunID           string           `json:"run_id"`
	Timestamp       time.Time        `json:"timestamp"`
	Compacted       bool             `json:"compacted" doc:"The model reads a summary instead of this message."`
	Thinking        string           `json:"thinking,omitzero"`
	ToolCalls       []ToolCall       `json:"tool_calls,omitzero"`
	OutputTruncated bool             `json:"output_truncated,omitzero"`
	CostUSD         *float64         `json:"cost_usd,omitzero" doc:"Cost of the whole run; set on its last reply."`
	Attachments     []run.Attachment `json:"attachments,omitzero"`
	FromTodo        string           `json:"from_todo,omitzero" doc:"Id of the todo that sent the message."`

	step int64 // seq of the run's step; 0: the message that started the run
}

// The roles of entries.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleSystem    = "system"
	roleTool      = "tool_result"
)

// ToolCall is a tool call of an assistant, with its result.
type ToolCall struct {
	_ struct{} `json:"-" name:"ConversationToolCall"`

	ID         string  `json:"id" required:"true"`
	Name       string  `json:"name" required:"true"`
	Status     string  `json:"status" enum:"done,error" required:"true"`
	Input      string  `json:"input,omitzero"`
	Output     string  `json:"output,omitzero"`
	DurationMS int64   `json:"duration_ms"`
	Error      *string `json:"error,omitzero"`
}

// Branch is a branch of the conversation. It shares the history of its parent up
// to the fork point.
type Branch struct {
	_ struct{} `json:"-" name:"SessionBranch"`

	BranchID  string    `json:"branch_id" required:"true"`
	ParentID  string    `json:"parent_branch_id,omitzero"`
	Name      string    `json:"name" required:"true"`
	ForkRunID string    `json:"fork_point_run_id" required:"true" doc:"The last run that the branch shares with its parent; empty if it shares none."`
	ForkStep  int64     `json:"fork_point_step_seq" required:"true" doc:"The last shared step of that run; 0 for all steps, -1 for the run's message only."`
	Runs      []string  `json:"runs" required:"true" doc:"The branch's own runs."`
	Status    string    `json:"status" enum:"active,abandoned,merged" required:"true"`
	CreatedAt time.Time `json:"created_at" required:"true"`
}

const branchActive = "active"

// Record is a session as stored.
type Record struct {
	TenantID, SessionID, AgentID string
	TeamID                       *string
	ExternalID                   string // of the front end that holds the conversation; "": none
	Status                       Status
	QueueMode                    string
	Model                        *ModelOverride
	Metadata                     schema.Object
	ActiveBranch                 string
	Turns                        int64 // number of the last turn
	Summary                      Summary
	CreatedAt, UpdatedAt         time.Time
	ExpiresAt                    time.Time // zero: never
}

// Summary is what lists show of a conversation without reading its runs.
type Summary struct {
	First string `json:"first,omitzero"` // first message of the user, truncated
	Last  string `json:"last,omitzero"`  // last message of either side, truncated
	Count int64  `json:"count,omitzero"` // messages of users, and answers of the agent
	// Rules reports whether system messages came with a turn. They stay for good, so
	// that every turn of such a session reads all turns before it.
	Rules bool `json:"rules,omitzero"`
}

// Turn is the place of a run in a session.
type Turn struct {
	SessionID string
	Turn      int64 // counted from 1 over all branches
	BranchID  string
	RunID     string
	Finished  bool

	Entries    int64 // of a finished run, as the API shows it; uncounted: not known
	Summarized bool  // a finished run has a completed compaction
}

// uncounted are the Entries of a turn that is unfinished, or ended before they
// were counted.
const uncounted = -1

// status returns the status at now. A session past its expiry has expired even
// if that is not stored yet.
func (r *Record) status(now time.Time) Status {
	if r.Status == Active && !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt) {
		return Expired
	}
	return r.Status
}

// show returns the session without the parts that are read from runs.
func (r *Record) show(now time.Time) Session {
	s := Session{
		SessionID: r.SessionID, TenantID: r.TenantID, AgentID: r.AgentID, TeamID: r.TeamID,
		Status: r.status(now), Metadata: r.Metadata, QueueMode: r.QueueMode, ModelOverride: r.Model, ExternalID: r.ExternalID,
		ActiveBranch: r.ActiveBranch, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		History: []Entry{}, Runs: []string{}, Branches: []Branch{},
	}
	if !r.ExpiresAt.IsZero() {
		s.ExpiresAt = &r.ExpiresAt
	}
	return s
}

// checkActive returns a Conflict error unless the session accepts the action.
func (r *Record) checkActive(now time.Time, action string) error {
	if status := r.status(now); status != Active {
		return fault.WrongState("session", string(status), action)
	}
	return nil
}

// summaryTextLimit is how many bytes of a message a list shows, up to the end of
// the character at which it is reached.
const summaryTextLimit = 200

// add counts a message and keeps its beginning.
func (s *Summary) add(text string, user bool) {
	if text == "" {
		return
	}
	s.Count++
	text = truncate(text)
	if user && s.First == "" {
		s.First = text
	}
	s.Last = text
}

func truncate(text string) string {
	for i := range text {
		if i > summaryTextLimit {
			text = text[:i]
			break
		}
	}
	if !utf8.ValidString(text) {
		return strconv.QuoteToASCII(text)
	}
	return text
}
