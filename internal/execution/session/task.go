package session

import (
	"context"
	"slices"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
)

// newTask is the body of a task: a todo for one or more agents, each in a session
// of its own.
type newTask struct {
	_ struct{} `json:"-" name:"TaskCreate"`

	Title          string        `json:"title" required:"true" minLength:"1" maxLength:"500" doc:"Title of the task."`
	Instructions   string        `json:"instructions,omitzero" maxLength:"10000" doc:"What the agent is to do."`
	DueAt          *time.Time    `json:"due_at,omitzero" nullable:"true" doc:"Default: now."`
	Recurrence     *Recurrence   `json:"recurrence" doc:"When it is due again after each time. Null: never."`
	RequireConfirm bool          `json:"require_confirmation,omitzero" doc:"Whether a person confirms it before the agent begins. Default: false."`
	Delivery       *todoDelivery `json:"delivery" doc:"How the result is sent. There are no channels yet: anything but null is refused."`
	AgentID        string        `json:"agent_id,omitzero" format:"uuid" doc:"The agent to assign. Send exactly one of agent_id, agent_ids and team_id."`
	AgentIDs       []string      `json:"agent_ids,omitzero" maxItems:"50" doc:"Several agents to assign; each gets a todo of its own."`
	TeamID         string        `json:"team_id,omitzero" format:"uuid" doc:"The team to assign. Teams do not exist yet: any id is refused with 404."`
}

// Task answers the creation of a task.
type Task struct {
	_ struct{} `json:"-" name:"Task"`

	TaskID string     `json:"task_id" format:"uuid" required:"true"`
	Title  string     `json:"title" required:"true"`
	DueAt  *time.Time `json:"due_at,omitzero"`
	Items  []TaskItem `json:"items" required:"true"`
}

// TaskItem is one agent's part of a task.
type TaskItem struct {
	_ struct{} `json:"-" name:"TaskItem"`

	SessionID string     `json:"session_id" required:"true"`
	TodoID    string     `json:"todo_id" required:"true"`
	AgentID   string     `json:"agent_id"`
	Status    TodoStatus `json:"status" required:"true"`
}

// createTask creates a todo for each agent, each in a new session.
func (s *todoService) createTask(ctx context.Context, who authz.Caller, in *newTask) (*Task, error) {
	agentIDs, err := in.agents()
	if err != nil {
		return nil, err
	}
	task := &Task{TaskID: ident.New(), Title: in.Title, Items: []TaskItem{}}
	now := s.clock.Now()
	fields := in.fields(now)
	var todos []*Todo
	for _, id := range agentIDs {
		t, err := s.taskTodo(ctx, who, task.TaskID, id, fields, now)
		if err != nil {
			return nil, err
		}
		todos, task.DueAt = append(todos, t), t.DueAt
		task.Items = append(task.Items, TaskItem{SessionID: t.SessionID, TodoID: t.TodoID, AgentID: t.AgentID, Status: t.Status})
	}
	ctx = txn.WithAnswer(ctx, func() any { return task })
	return task, s.writer.Write(ctx, func(tx txn.Tx) error {
		for _, t := range todos {
			if err := s.sessions.insert(tx, t.session()); err != nil {
				return err
			}
			if err := s.put(tx, t); err != nil {
				return err
			}
		}
		return nil
	})
}

// agents returns the ids of the agents to assign, each once.
func (in *newTask) agents() ([]string, error) {
	targets := 0
	for _, set := range []bool{in.AgentID != "", len(in.AgentIDs) > 0, in.TeamID != ""} {
		if set {
			targets++
		}
	}
	switch {
	case targets != 1:
		return nil, fault.BadFields(fault.Field{Field: "agent_id", Message: "send exactly one of agent_id, agent_ids and team_id"})
	case in.TeamID != "":
		return nil, fault.NewNotFound("team")
	case in.AgentID != "":
		return []string{in.AgentID}, nil
	}
	return slices.Compact(slices.Sorted(slices.Values(in.AgentIDs))), nil
}

// taskFields are the fields of a todo that a task sets.
var taskFields = fieldSet{"title": true, "instructions": true, "due_at": true, "recurrence": true, "require_confirmation": true}

func (in *newTask) fields(now time.Time) *TodoFields {
	f := &TodoFields{
		Title: in.Title, Instructions: in.Instructions, DueAt: in.DueAt, Recurrence: in.Recurrence,
		RequireConfirm: &in.RequireConfirm, Delivery: in.Delivery,
	}
	if f.DueAt == nil && f.Recurrence == nil {
		f.DueAt = &now
	}
	return f
}

// taskTodo returns the todo of a task for one agent, in a new session.
func (s *todoService) taskTodo(ctx context.Context, who authz.Caller, taskID, agentID string, f *TodoFields, now time.Time) (*Todo, error) {
	if !ident.Valid(agentID) {
		return nil, fault.BadFields(fault.Field{Field: "agent_ids", Message: "expected ids"})
	}
	g, err := s.agents.Get(ctx, who.TenantID, agentID)
	if err != nil {
		return nil, err
	}
	t := newTodo(who, ident.New(), now)
	t.AgentID, t.ParentTaskID = g.ID, taskID
	return t, s.apply(t, f, taskFields, now)
}

// session returns the new session of a task's todo. It does not expire, because
// the todo may need it at any time.
func (t *Todo) session() *Record {
	return &Record{
		TenantID: t.TenantID, SessionID: t.SessionID, AgentID: t.AgentID, Status: Active, QueueMode: Allow, ActiveBranch: Root,
		CreatedAt: t.CreatedAt, UpdatedAt: t.CreatedAt,
	}
}
