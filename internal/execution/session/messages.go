package session

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/model"
)

// messageService sends messages and lists the history.
type messageService struct {
	reader  *reader
	turns   *turnQueue
	runs    Runs
	log     event.Log
	cursors *page.Cursors
	files   run.Files // nil: messages cannot have attachments

	checkWorkspace func(ctx context.Context, tenant, id string) error
}

// newMessage is the body of a message.
type newMessage struct {
	_ struct{} `json:"-" name:"SessionMessage"`

	Content     string   `json:"content" required:"true" maxLength:"1000000" doc:"Text of the message."`
	Command     string   `json:"command,omitzero" maxLength:"200" doc:"Passed in the run's input next to the message."`
	FileIDs     []string `json:"file_ids,omitzero" maxItems:"20" doc:"Uploaded files that the model reads with the message."`
	WorkspaceID string   `json:"workspace_id,omitzero" format:"uuid" doc:"The workspace in which the file tools of the run work, instead of the agent's. Needs the scope files:write."`

	Outcome  schema.NullableOf[judge.Rubric]   `json:"outcome,omitzero" doc:"What makes the answer good enough, as in the creation of a run. Replaces the agent's."`
	Settings schema.NullableOf[model.Settings] `json:"model_settings,omitzero" doc:"How the model answers this message; takes precedence over the agent's, member by member."`
}

// Accepted answers a message.
type Accepted struct {
	_ struct{} `json:"-" name:"SessionMessageAccepted"`

	RunID string `json:"run_id" format:"uuid" required:"true" doc:"The run that answers the message."`
}

// send makes a message the next turn of the active branch. It returns once the
// turn is stored. Errors: NotFound, Invalid; Conflict if the session is not
// active or, with queue_mode reject, busy; Limited if the plan allows no more
// runs (429 here, unlike the 403 of POST /runs). adjust changes the request of the run, if
// it is set.
func (m *messageService) send(
	ctx context.Context, who authz.Caller, id string, in *newMessage, adjust func(*run.Request),
) (Accepted, error) {
	rec, err := m.reader.store.Get(ctx, who.TenantID, id)
	if err != nil {
		return Accepted{}, err
	}
	if strings.TrimSpace(in.Content) == "" && len(in.FileIDs) == 0 {
		return Accepted{}, fault.BadFields(fault.Field{Field: "content", Message: "it is blank, and there are no files"})
	}
	if err := run.CheckSettings(in.Settings); err != nil {
		return Accepted{}, err
	}
	rubric, err := run.RubricOf(in.Outcome)
	if err != nil {
		return Accepted{}, err
	}
	if in.WorkspaceID != "" {
		// What the agent may then read and write is what the caller may.
		if err := who.Check(authz.Developer, "files:write"); err != nil {
			return Accepted{}, err
		}
		if err := m.checkWorkspace(ctx, who.TenantID, in.WorkspaceID); err != nil {
			return Accepted{}, err
		}
	}
	input, err := m.runInput(ctx, who.TenantID, in)
	if err != nil {
		return Accepted{}, err
	}
	answer := func(r *run.Run) any { return Accepted{RunID: r.RunID} }
	req := run.Request{
		AgentID: rec.AgentID, SessionID: &rec.SessionID, Input: input, Answer: answer, Settings: []byte(in.Settings), MediaField: run.FileIDs,
	}
	req.Options.WorkspaceID, req.Options.Outcome = in.WorkspaceID, rubric
	if err := m.turns.join(ctx, who.TenantID, &req); err != nil {
		return Accepted{}, err
	}
	if len(in.FileIDs) > 0 {
		req.Options.Sources = []string{model.SourceFile}
	}
	if adjust != nil {
		adjust(&req)
	}
	r, err := m.runs.Create(ctx, who, req)
	if err != nil {
		return Accepted{}, planLimited(err)
	}
	return Accepted{RunID: r.RunID}, nil
}

// runInput returns the input of the run that answers a message.
func (m *messageService) runInput(ctx context.Context, tenant string, in *newMessage) ([]byte, error) {
	input := struct {
		Message     string           `json:"message"`
		Parts       []jsontext.Value `json:"parts,omitzero"`
		Command     string           `json:"command,omitzero"`
		Attachments []run.Attachment `json:"attachments,omitzero"`
	}{Message: in.Content, Command: in.Command}
	if len(in.FileIDs) > 0 {
		if in.Content != "" {
			input.Parts = []jsontext.Value{model.TextPart(in.Content)}
		}
		var err error
		if input.Parts, input.Attachments, err = run.Attach(ctx, m.files, tenant, "file_ids", input.Parts, in.FileIDs); err != nil {
			return nil, err
		}
	}
	return json.Marshal(input)
}

// planRetryAfter is the Retry-After of a message that the plan does not allow.
// Every 429 names a time, although waiting does not help here: the plan must
// change, or its period must end.
const planRetryAfter = time.Hour

// planLimited makes the error of an exhausted plan a Limited one.
func planLimited(err error) error {
	f := fault.From(err)
	if f.Code != "limit_reached" || f.Kind != fault.Forbidden {
		return err
	}
	limited := *f
	limited.Kind, limited.RetryAfter = fault.Limited, planRetryAfter
	return &limited
}

// MessageList is the history of the active branch. The paging fields are set
// only if the request has a limit.
type MessageList struct {
	_ struct{} `json:"-" name:"SessionMessageList"`

	Messages          []Entry    `json:"messages" required:"true"`
	Items             []Entry    `json:"items" required:"true" doc:"The same as messages."`
	Total             int        `json:"total" required:"true" doc:"Number of messages on all pages. Of a page it is exact up to 1,000."`
	TotalIsLowerBound bool       `json:"total_is_lower_bound,omitzero" doc:"There are more messages than total, which is 1,000 then."`
	HasMore           *bool      `json:"has_more,omitzero"`
	Cursor            string     `json:"cursor,omitzero"`
	LastEventID       string     `json:"last_event_id,omitzero" doc:"The event up to which these are the messages: follow the stream of events after it."`
	ActiveRunID       string     `json:"active_run_id,omitzero" doc:"The run that is under way."`
	ActiveStatus      run.Status `json:"active_run_status,omitzero"`
	ActivePartial     string     `json:"active_run_partial_content,omitzero" doc:"What it has answered so far."`
}

const maxMessages = 500

// list reads the history. Pages count back from the newest message; within a page
// the oldest comes first.
func (m *messageService) list(ctx context.Context, tenant string, in *messagesIn) (*MessageList, error) {
	rec, err := m.reader.store.Get(ctx, tenant, in.SessionID)
	if err != nil {
		return nil, err
	}
	scope := page.ScopeOf(tenant, "messages", in).With("branch", rec.ActiveBranch)
	position, err := m.cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	p, err := m.reader.path(ctx, tenant, rec.SessionID, rec.ActiveBranch)
	if err != nil {
		return nil, err
	}
	out := &MessageList{}
	if out.LastEventID, err = lastEventID(ctx, m.reader.store, m.runs, rec); err != nil { // before the messages are read
		return nil, err
	}
	if in.Limit == "" && in.Cursor == "" {
		all, err := p.page(ctx, "", math.MaxInt)
		if err != nil {
			return nil, err
		}
		out.Messages = all.entries()
		out.Total = len(out.Messages)
	} else if err := m.addPage(ctx, out, p, scope, position, in.Limit); err != nil {
		return nil, err
	}
	out.Items = out.Messages
	active, err := m.reader.store.GetUnfinished(ctx, tenant, rec.SessionID, rec.ActiveBranch)
	if fault.Is(err, fault.NotFound) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	return out, m.addActiveRun(ctx, tenant, active.RunID, out)
}

// addPage adds the page that ends at a position, and the paging fields.
func (m *messageService) addPage(ctx context.Context, out *MessageList, p *path, scope page.Scope, position, limit string) error {
	found, err := p.page(ctx, position, page.Limit(limit, maxMessages, maxMessages))
	if err != nil {
		return err
	}
	out.Messages = found.entries()
	more := found.next != ""
	out.HasMore = &more
	if more {
		out.Cursor = m.cursors.Seal(scope, found.next)
	}
	out.Total, out.TotalIsLowerBound, err = p.total(ctx)
	return err
}

// addActiveRun adds the run that is under way, and the text of its unfinished
// answer.
func (m *messageService) addActiveRun(ctx context.Context, tenant, runID string, out *MessageList) error {
	r, err := m.runs.Get(ctx, tenant, runID)
	if err != nil {
		return err
	}
	if r.Status.Final() { // it ended after the turns were read
		return nil
	}
	out.ActiveRunID, out.ActiveStatus = runID, r.Status
	out.ActivePartial, err = m.partialAnswer(ctx, tenant, runID)
	return err
}

// partialAnswer returns the text of the model call that is under way, read from
// the events of the run.
func (m *messageService) partialAnswer(ctx context.Context, tenant, runID string) (string, error) {
	var text strings.Builder
	for after := int64(0); ; {
		events, err := m.log.Read(ctx, tenant, runID, after, logPage)
		if err != nil {
			return "", err
		}
		for _, e := range events {
			after = e.Seq
			switch e.Name {
			case "step.started", "step.completed", "step.draft_void":
				text.Reset()
			case "llm.chunk":
				var chunk struct {
					Text string `json:"text"`
				}
				if json.Unmarshal(e.Data, &chunk) == nil {
					text.WriteString(chunk.Text)
				}
			}
		}
		if len(events) < logPage {
			return text.String(), nil
		}
	}
}

type messageIn struct {
	SessionID string `path:"sessionId"`
	Body      newMessage
}

type messagesIn struct {
	SessionID string `path:"sessionId"`
	Limit     string `query:"limit" doc:"Messages per page, 1 to 500, counted back from the newest; default: all."`
	Cursor    string `query:"cursor"`
}

func (m *messageService) routes() []route.Route {
	const messages = "/{sessionId}/messages"
	send := with(write("POST", messages, "sendSessionMessage", "Send a message", talkers), 202, 409, 503)
	send.Doc = "The message becomes the next turn of the active branch. It is stored before the response is sent; " +
		"the runs of one branch follow each other in the order of their messages."
	return []route.Route{
		route.Action(send, m.sendRoute),
		route.Action(read(messages, "listSessionMessages", "List the messages of the active branch"), m.listRoute),
	}
}

func (m *messageService) sendRoute(ctx context.Context, who authz.Caller, in *messageIn) (Accepted, error) {
	return m.send(ctx, who, in.SessionID, &in.Body, nil)
}

func (m *messageService) listRoute(ctx context.Context, who authz.Caller, in *messagesIn) (*MessageList, error) {
	return m.list(ctx, who.TenantID, in)
}
