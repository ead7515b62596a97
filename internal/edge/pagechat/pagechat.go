// Package pagechat answers front ends that hold a conversation: what they send is compared
// with the session that has their id, and becomes a run, an answer to what a run waits for,
// or nothing new. The edges that stand on it (AG-UI, the AI SDK's UI stream) add their wire
// format.
package pagechat

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/kernel/model"
)

// Runs reads runs and decides what they wait for; *run.Service.
type Runs interface {
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	Cancel(ctx context.Context, tenant, id string) (run.CancelAnswer, error)
	Approve(ctx context.Context, who authz.Caller, id string, in run.ApproveRequest) (run.ApproveAnswer, error)
	Reject(ctx context.Context, who authz.Caller, id string, in run.RejectRequest) (run.RejectAnswer, error)
	Respond(ctx context.Context, tenant, id, response string) error
}

// Sessions finds and extends conversations; *session.Service.
type Sessions interface {
	Chat(ctx context.Context, tenant, agent, externalID string) (*session.Chat, error)
	Extend(c *session.Chat, n session.NextTurn) (run.Request, error)
	State(ctx context.Context, tenant, id string) (jsontext.Value, error)
	KeepState(ctx context.Context, tenant, id string, state jsontext.Value) error
	Talk(ctx context.Context, tenant, id string, limit int) (*session.Talk, error)
}

// Chats continues conversations of front ends.
type Chats struct {
	Runner   *runstream.Runner
	Runs     Runs
	Sessions Sessions
}

// Message is a message of a front end's history.
type Message struct {
	At     string // where it stands in the request, for refusals
	ID     string
	Reply  string // id of the agent's message that it is, or is part of; "": the page wrote it
	Role   model.Role
	Text   string
	Parts  []jsontext.Value // of a message that is more than text
	Calls  []model.ToolCall // of the agent
	CallID string           // of a result: the call that it answers
}

// Page is what a front end sends.
type Page struct {
	AgentID, ChatID string
	Source          string // metadata.source of its runs
	Messages        []Message
	Tools           []run.CallerTool
	Instructions    string
	State           jsontext.Value // nil: none was sent
	SharesState     bool           // the agent may change the state of the session
}

// Chat is a conversation of a front end at one request.
type Chat struct {
	*session.Chat

	UnderWay *run.Run      // the run that has not ended; nil: none
	Place    session.Place // where the page's history goes on
	chats    *Chats
	page     *Page
}

// Open compares what a page sends with the conversation. Errors: refusals.
func (c *Chats) Open(ctx context.Context, tenant string, page *Page) (*Chat, error) {
	known, err := c.Sessions.Chat(ctx, tenant, page.AgentID, page.ChatID)
	if err != nil {
		return nil, err
	}
	chat := &Chat{Chat: known, chats: c, page: page}
	sent := make([]session.SentMessage, len(page.Messages))
	for i := range page.Messages {
		sent[i] = page.Messages[i].sent()
	}
	chat.Place = known.Align(sent)
	if id := known.UnderWay(); id != "" {
		r, err := c.Runs.Get(ctx, tenant, id)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		if err == nil && !r.Status.Final() {
			chat.UnderWay = r
		}
	}
	return chat, nil
}

// New returns the messages that the conversation does not have.
func (c *Chat) New() []Message { return c.page.Messages[c.Place.New:] }

// Waits reports whether the run under way waits for a person.
func (c *Chat) Waits() bool { return c.UnderWay != nil && WaitsForPerson(c.UnderWay) }

// WaitsForPerson reports whether a run waits for a person's answer.
func WaitsForPerson(r *run.Run) bool {
	return r.Status == run.AwaitingApproval || r.Status == run.AuthRequired || r.Status == run.Paused && r.PendingInput != nil
}

// Follow returns the events of the run under way, from its first.
func (c *Chat) Follow(tenant string) *runstream.Stream {
	return c.chats.Runner.Replay(tenant, c.UnderWay)
}

// Reply returns the id of the message under which the last turn is answered; "" if there
// is none.
func (c *Chat) Reply() string {
	turns := c.Turns()
	if len(turns) == 0 {
		return ""
	}
	return c.ReplyOf(turns[len(turns)-1].RunID)
}

// ReplyOf returns the id of the message under which the turn of a run is answered.
func (c *Chat) ReplyOf(runID string) string {
	for _, t := range c.Turns() {
		if t.RunID == runID && t.Reply != "" {
			return t.Reply
		}
	}
	return runID + "-reply"
}

// Start starts the run of the new messages. reply is the id under which the page gets the
// answer. The run's id is runID. Errors: refusals.
func (c *Chat) Start(w http.ResponseWriter, r *http.Request, who authz.Caller, runID, reply string) (*runstream.Stream, error) {
	if c.Waits() {
		return nil, fault.New(fault.Conflict, "INTERRUPT_OPEN",
			"The run %s of this conversation waits for an answer of a person; answer it first.", c.UnderWay.RunID)
	}
	in, err := c.input(r.Context(), who.TenantID)
	if err != nil {
		return nil, err
	}
	req, err := c.request(in, runID)
	if err != nil {
		return nil, err
	}
	next := session.NextTurn{After: c.Place.Turns, Reply: reply, State: c.page.State, Request: req}
	for _, m := range c.New() {
		next.Messages = append(next.Messages, m.sent().ClientMessage)
	}
	if req, err = c.chats.Sessions.Extend(c.Chat, next); err != nil {
		return nil, err
	}
	s, err := c.chats.Runner.StartOnce(w, r, who, req)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.NewNotFound("agent")
	}
	return s, err
}
