package session

import (
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

// todoDelivery is refused: this deployment has no channel to deliver results by.
type todoDelivery struct {
	_ struct{} `json:"-" name:"TodoDelivery"`

	Channels []string `json:"channels" enum:"email,telegram,whatsapp" doc:"The ways to send it."`
	Target   string   `json:"target,omitzero" doc:"Address or number to which it is sent."`
}

// TodoFields are the fields that can be set when a todo is created or updated.
type TodoFields struct {
	Title          string        `json:"title,omitzero" maxLength:"500" doc:"Title of the todo. Required when it is created."`
	Description    string        `json:"description,omitzero" nullable:"true" maxLength:"10000" doc:"What it is about, for people."`
	Instructions   string        `json:"instructions,omitzero" nullable:"true" maxLength:"10000" doc:"What the agent is to do."`
	DueAt          *time.Time    `json:"due_at,omitzero" nullable:"true" doc:"Default with an agent: now, or by the recurrence. Null: never."`
	AgentID        *string       `json:"assign_agent_id,omitzero" nullable:"true" format:"uuid" doc:"The agent that does it when it is due. Null: no agent."`
	TeamID         *string       `json:"assign_team_id,omitzero" nullable:"true" format:"uuid" doc:"The team that does it. Teams do not exist yet: any id is refused with 404."`
	Recurrence     *Recurrence   `json:"recurrence" doc:"When it is due again after each time. Null: never."`
	Status         string        `json:"status,omitzero" enum:"pending,pending_confirmation,in_progress,done,completed,cancelled" doc:"State of the todo; completed is an alias of done."`
	RequireConfirm *bool         `json:"require_confirmation,omitzero" nullable:"true" doc:"Whether a person confirms it before the agent begins. Default: false."`
	Delivery       *todoDelivery `json:"delivery" doc:"How the result is sent. There are no channels yet: anything but null is refused."`
}

type todoBody struct {
	_ struct{} `json:"-" name:"TodoCreate"`
	TodoFields
}

type todoChange struct {
	_ struct{} `json:"-" name:"TodoUpdate"`
	TodoFields
}

// fieldSet holds the names of the fields that a body has, null ones included.
type fieldSet map[string]bool

func fieldsOf(body jsontext.Value) (fieldSet, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	sent := fieldSet{}
	for name := range members {
		sent[name] = true
	}
	return sent, nil
}

// create adds a todo to a session. If it has an agent, and neither a due time nor
// a recurrence, it is due at once.
func (s *todoService) create(ctx context.Context, who authz.Caller, sessionID string, body jsontext.Value) (*Todo, error) {
	in, err := schema.Decode[todoBody](body)
	if err != nil {
		return nil, err
	}
	sent, err := fieldsOf(body)
	if err != nil {
		return nil, err
	}
	if in.Title == "" {
		return nil, fault.BadFields(fault.Field{Field: "title", Message: "required"})
	}
	if _, err := s.sessions.store.Get(ctx, who.TenantID, sessionID); err != nil {
		return nil, err
	}
	if err := s.checkAgent(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	t := newTodo(who, sessionID, s.clock.Now())
	if ptr.Value(in.AgentID) != "" && !sent["due_at"] && in.Recurrence == nil {
		in.DueAt, sent["due_at"] = &t.CreatedAt, true
	}
	if err := s.apply(t, &in.TodoFields, sent, t.CreatedAt); err != nil {
		return nil, err
	}
	if err := s.setAgentName(ctx, t); err != nil {
		return nil, err
	}
	ctx = txn.WithAnswer(ctx, func() any { return t })
	return t, s.writer.Write(ctx, func(tx txn.Tx) error { return s.put(tx, t) })
}

func newTodo(who authz.Caller, sessionID string, now time.Time) *Todo {
	return &Todo{
		TodoID: ident.New(), SessionID: sessionID, TenantID: who.TenantID, Status: TodoPending,
		CreatedAt: now, UpdatedAt: now, CreatedByUserID: who.UserID,
	}
}

// update changes the fields that are sent; null clears a field.
func (s *todoService) update(ctx context.Context, who authz.Caller, sessionID, id string, body jsontext.Value) (*Todo, error) {
	in, err := schema.Decode[todoChange](body)
	if err != nil {
		return nil, err
	}
	sent, err := fieldsOf(body)
	if err != nil {
		return nil, err
	}
	if err := s.checkAgent(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	return s.change(ctx, who.TenantID, sessionID, id, func(t *Todo) error {
		return s.apply(t, &in.TodoFields, sent, t.UpdatedAt)
	})
}

// checkAgent returns an error if the assigned agent does not exist.
func (s *todoService) checkAgent(ctx context.Context, tenant string, id *string) error {
	if ptr.Value(id) == "" {
		return nil
	}
	_, err := s.agents.Get(ctx, tenant, *id)
	return err
}

// apply sets the fields that were sent, and plans the todo's run.
func (s *todoService) apply(t *Todo, in *TodoFields, sent fieldSet, now time.Time) error {
	if err := s.validate(in, sent); err != nil {
		return err
	}
	before := t.Status
	in.copyTo(t, sent)
	if before == TodoInProgress && t.Status == before {
		return nil // its run may be about to be created
	}
	return s.plan(t, now)
}

func (s *todoService) validate(in *TodoFields, sent fieldSet) error {
	var invalid []fault.Field
	add := func(field, message string) { invalid = append(invalid, fault.Field{Field: field, Message: message}) }
	if sent["title"] && strings.TrimSpace(in.Title) == "" {
		add("title", "it is blank")
	}
	if in.Delivery != nil {
		add("delivery", "this deployment has no channel to deliver by")
	}
	if r := in.Recurrence; r != nil {
		if s.cron == nil {
			add("recurrence", "todos cannot recur on this deployment")
		} else if _, err := s.cron(r.Cron, r.Timezone); err != nil {
			add("recurrence.cron", err.Error())
		}
	}
	if invalid != nil {
		return fault.BadFields(invalid...)
	}
	if in.TeamID != nil {
		return fault.NewNotFound("team")
	}
	return nil
}

// copyTo copies the fields that were sent.
func (in *TodoFields) copyTo(t *Todo, sent fieldSet) {
	if sent["title"] {
		t.Title = in.Title
	}
	if sent["description"] {
		t.Description = in.Description
	}
	if sent["instructions"] {
		t.Instructions = in.Instructions
	}
	if sent["due_at"] {
		t.DueAt = in.DueAt
	}
	if sent["assign_agent_id"] {
		t.AgentID = ptr.Value(in.AgentID)
	}
	if sent["recurrence"] {
		t.Recurrence = in.Recurrence
	}
	if sent["require_confirmation"] {
		t.RequireConfirm = ptr.Value(in.RequireConfirm)
	}
	if sent["status"] {
		t.Status = TodoStatus(in.Status)
		if t.Status == "completed" { // another name for done
			t.Status = TodoDone
		}
	}
	if t.DueAt != nil {
		at := t.DueAt.UTC().Truncate(time.Microsecond) // the precision that is stored
		t.DueAt = &at
	}
}
