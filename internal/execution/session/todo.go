package session

import (
	"context"
	"slices"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/work"
)

// TodoStatus is the status of a todo.
type TodoStatus string

// The statuses of todos.
const (
	TodoPending     TodoStatus = "pending"
	TodoUnconfirmed TodoStatus = "pending_confirmation" // due, and waiting for a person to confirm it
	TodoInProgress  TodoStatus = "in_progress"
	TodoDone        TodoStatus = "done"
	TodoCancelled   TodoStatus = "cancelled"
)

// Finished reports whether the todo needs no more work.
func (s TodoStatus) Finished() bool { return s == TodoDone || s == TodoCancelled }

// startable reports whether a run can be started for the todo.
func (s TodoStatus) startable() bool { return s == TodoPending || s == TodoUnconfirmed }

func (s TodoStatus) valid() bool {
	return slices.Contains([]TodoStatus{TodoPending, TodoUnconfirmed, TodoInProgress, TodoDone, TodoCancelled}, s)
}

// Recurrence makes a todo due repeatedly.
type Recurrence struct {
	_ struct{} `json:"-" name:"TodoRecurrence"`

	Cron     string `json:"cron" required:"true" maxLength:"200" doc:"Five fields: minute, hour, day of the month, name or number of the month, day of the week."`
	Timezone string `json:"timezone,omitzero" maxLength:"100" doc:"IANA name of the time zone of cron, such as Europe/Vienna. Default: UTC."`
}

// A Todo is an item of a session's todo list. An agent may be assigned to it,
// which is then run when the todo is due.
type Todo struct {
	TodoID          string      `json:"todo_id" format:"uuid" required:"true"`
	SessionID       string      `json:"session_id" format:"uuid" required:"true"`
	TenantID        string      `json:"tenant_id" required:"true"`
	Title           string      `json:"title" required:"true"`
	Instructions    string      `json:"instructions,omitzero"`
	Description     string      `json:"description,omitzero"`
	DueAt           *time.Time  `json:"due_at,omitzero"`
	AgentID         string      `json:"assign_agent_id,omitzero"`
	AgentName       string      `json:"agent_name,omitzero"`
	Status          TodoStatus  `json:"status" enum:"pending,pending_confirmation,in_progress,done,cancelled" required:"true"`
	CreatedAt       time.Time   `json:"created_at" required:"true"`
	UpdatedAt       time.Time   `json:"updated_at" required:"true"`
	RunID           string      `json:"run_id,omitzero" doc:"The todo's current or last run."`
	Recurrence      *Recurrence `json:"recurrence,omitzero"`
	NextFireAt      *time.Time  `json:"next_fire_at,omitzero" doc:"When the agent is run."`
	LastFiredAt     *time.Time  `json:"last_fired_at,omitzero"`
	LastRunStatus   run.Status  `json:"last_run_status,omitzero"`
	RequireConfirm  bool        `json:"require_confirmation,omitzero" doc:"A person must confirm the todo before the agent is run."`
	ParentTaskID    string      `json:"parent_task_id,omitzero"`
	CreatedByUserID string      `json:"created_by,omitzero"`
}

// TodoStore is the port to the table of todos.
type TodoStore interface {
	PutTodoTx(tx txn.Tx, t *Todo) error // inserts or replaces
	LockTodoTx(tx txn.Tx, tenant, id string) (*Todo, error)
	DeleteTodoTx(tx txn.Tx, tenant, id string) error
	// ListTodos returns the unfinished todos by due time, then the finished ones,
	// newest first; and how many match the filter in all, counted up to one more than
	// page.MaxCount.
	ListTodos(ctx context.Context, tenant string, f TodoFilter, limit int) ([]Todo, int, error)
}

type (
	// ListedTodos has the filters of listSessionTodos; see sqldb.Filter. From and To
	// exclude todos without a due time.
	ListedTodos struct {
		SessionID string    `path:"sessionId" filter:"session_id = ?" index:"session_todos_session"`
		From      time.Time `query:"from" doc:"Only todos due at or after this time." filter:"due_at <> 0 AND due_at >= ?" index:"session_todos_when"`
		To        time.Time `query:"to" doc:"Only todos due before this time." filter:"due_at <> 0 AND due_at < ?" index:"session_todos_when"`
	}
	// TaskFilter has the filters of listTodos.
	TaskFilter struct {
		AgentID string     `query:"agent_id" doc:"Only todos for this agent." filter:"agent_id = ?" index:"session_todos_agent"`
		Status  TodoStatus `query:"status" doc:"Only todos in this state." filter:"status = ?" index:"session_todos_status"`
	}
	// TodoFilter narrows a list of todos.
	TodoFilter struct {
		ListedTodos
		TaskFilter
	}
)

// maxTodos is how many todos a list shows.
const maxTodos = 500

// CronFunc parses a cron expression in a time zone and returns the function that
// finds the next time after a given one. Its error says what is invalid.
type CronFunc func(cron, zone string) (next func(time.Time) time.Time, err error)

// todoService keeps todos and starts runs for those that are due.
type todoService struct {
	store    TodoStore
	reader   *reader
	sessions *lifecycle
	turns    *turnQueue
	agents   Agents
	runs     Runs
	writer   txn.Writer
	queue    work.Queue
	clock    clock.Clock
	cron     CronFunc
}

// startTolerance is how long ago a todo may have been due for its agent to be run
// all the same.
const startTolerance = 5 * time.Minute

// plan sets when the todo's agent is run. Todos without an agent, and those whose
// time has passed, are not run by themselves.
func (s *todoService) plan(t *Todo, now time.Time) error {
	t.NextFireAt = nil
	if t.AgentID == "" || t.Status != TodoPending {
		return nil
	}
	if t.Recurrence != nil && s.cron != nil && (t.DueAt == nil || !t.DueAt.After(now)) {
		next, err := s.cron(t.Recurrence.Cron, t.Recurrence.Timezone)
		if err != nil {
			return fault.BadFields(fault.Field{Field: "recurrence.cron", Message: err.Error()})
		}
		at := next(now)
		if at.IsZero() {
			return nil
		}
		t.DueAt = &at
	}
	if t.DueAt != nil && t.DueAt.After(now.Add(-startTolerance)) {
		t.NextFireAt = t.DueAt
	}
	return nil
}

// put stores a todo, and schedules its run if it has one to start.
func (s *todoService) put(tx txn.Tx, t *Todo) error {
	if err := s.store.PutTodoTx(tx, t); err != nil {
		return err
	}
	return s.schedule(tx, t)
}

// schedule makes the todo's work item due when the todo is. The handler reads
// the todo again, so a superfluous item does no harm.
func (s *todoService) schedule(tx txn.Tx, t *Todo) error {
	if t.NextFireAt == nil {
		return nil
	}
	return s.queue.EnqueueTx(tx, work.Item{Kind: TodoWorkKind, Key: t.TodoID, TenantID: t.TenantID, Due: *t.NextFireAt})
}

// lock reads and locks a todo of a session.
func (s *todoService) lock(tx txn.Tx, tenant, sessionID, id string) (*Todo, error) {
	t, err := s.store.LockTodoTx(tx, tenant, id)
	if err != nil {
		return nil, err
	}
	if t.SessionID != sessionID {
		return nil, fault.NewNotFound("todo")
	}
	return t, nil
}

// change changes a todo of a session in one transaction.
func (s *todoService) change(ctx context.Context, tenant, sessionID, id string, apply func(*Todo) error) (*Todo, error) {
	var t *Todo
	err := s.writer.Write(ctx, func(tx txn.Tx) (err error) {
		if t, err = s.lock(tx, tenant, sessionID, id); err != nil {
			return err
		}
		t.UpdatedAt = s.clock.Now()
		if err := apply(t); err != nil {
			return err
		}
		return s.put(tx, t)
	})
	if err != nil {
		return nil, err
	}
	return t, s.setAgentName(ctx, t)
}

func (s *todoService) setAgentName(ctx context.Context, t *Todo) (err error) {
	if t.AgentID != "" {
		t.AgentName, err = s.reader.agentName(ctx, t.TenantID, t.AgentID)
	}
	return err
}

// delete deletes a todo. A run that was started for it continues.
func (s *todoService) delete(ctx context.Context, tenant, sessionID, id string) error {
	return s.writer.Write(ctx, func(tx txn.Tx) error {
		if _, err := s.lock(tx, tenant, sessionID, id); err != nil {
			return err
		}
		return s.store.DeleteTodoTx(tx, tenant, id)
	})
}

// confirm starts or cancels a todo that waits for confirmation.
func (s *todoService) confirm(ctx context.Context, tenant, sessionID, id string, execute bool) (*Todo, error) {
	return s.change(ctx, tenant, sessionID, id, func(t *Todo) error {
		if t.Status != TodoUnconfirmed {
			return fault.WrongState("todo", string(t.Status), "a confirmation")
		}
		if !execute {
			t.Status, t.NextFireAt = TodoCancelled, nil
			return nil
		}
		return s.assignRun(t)
	})
}

// start runs the todo's agent now.
func (s *todoService) start(ctx context.Context, tenant, sessionID, id string) (*Todo, error) {
	return s.change(ctx, tenant, sessionID, id, func(t *Todo) error {
		if !t.Status.startable() {
			return fault.WrongState("todo", string(t.Status), "running it")
		}
		return s.assignRun(t)
	})
}

// assignRun sets the todo's run to the id of its next run. The todo's work item, which is
// due at once, creates the run: exactly once, even if a node crashes.
func (s *todoService) assignRun(t *Todo) error {
	if t.AgentID == "" {
		return fault.New(fault.Malformed, "MISSING_FIELD", "No agent is assigned to this todo; set assign_agent_id first.")
	}
	now := s.clock.Now()
	t.Status, t.RunID, t.LastFiredAt, t.NextFireAt = TodoInProgress, ident.New(), &now, &now
	return nil
}

// TodoList answers a list of todos.
type TodoList struct {
	_ struct{} `json:"-" name:"TodoList"`

	Items []Todo `json:"items" required:"true"`
	Todos []Todo `json:"todos" required:"true" doc:"The same as items."`
	Total int    `json:"total" required:"true" doc:"Number of matching todos, listed or not. Counted up to 1,000."`

	TotalIsLowerBound bool `json:"total_is_lower_bound,omitzero" doc:"Whether more than the 1,000 that are counted match."`
}

// list returns the todos that match a filter, with the names of their agents.
func (s *todoService) list(ctx context.Context, who authz.Caller, f TodoFilter, limit int) (*TodoList, error) {
	list := &TodoList{Items: []Todo{}, Todos: []Todo{}}
	if f.AgentID != "" && !ident.Valid(f.AgentID) || f.Status != "" && !f.Status.valid() {
		return list, nil
	}
	found, total, err := s.store.ListTodos(ctx, who.TenantID, f, limit)
	if err != nil {
		return nil, err
	}
	names := s.reader.agentNames(who.TenantID)
	for i := range found {
		if found[i].AgentID == "" {
			continue
		}
		if found[i].AgentName, err = names.of(ctx, found[i].AgentID); err != nil {
			return nil, err
		}
	}
	list.Items, list.Todos = found, found
	list.Total, list.TotalIsLowerBound = min(total, page.MaxCount), total > page.MaxCount
	return list, nil
}
