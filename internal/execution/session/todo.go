package session

import (
	"context"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/work"
)

// TodoStatus is where a todo stands.
type TodoStatus string

// The states of todos (behaviours 4).
const (
	TodoPending    TodoStatus = "pending"
	TodoUnasked    TodoStatus = "pending_confirmation" // it is due, and a person is to say yes
	TodoInProgress TodoStatus = "in_progress"
	TodoDone       TodoStatus = "done"
	TodoCancelled  TodoStatus = "cancelled"
)

// Finished says whether nothing is to be done any more.
func (s TodoStatus) Finished() bool { return s == TodoDone || s == TodoCancelled }

// waits says whether the todo can be set going.
func (s TodoStatus) waits() bool { return s == TodoPending || s == TodoUnasked }

// Recurrence makes a todo due again and again.
type Recurrence struct {
	_ struct{} `json:"-" name:"TodoRecurrence"`

	Cron     string `json:"cron" required:"true" maxLength:"200"`
	Timezone string `json:"timezone,omitzero" maxLength:"100"`
}

// A Todo is something to do in a session, for an agent at a time or for whoever
// looks at the list.
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
	RunID           string      `json:"run_id,omitzero" doc:"The run that does it, or did it last."`
	Recurrence      *Recurrence `json:"recurrence,omitzero"`
	NextFireAt      *time.Time  `json:"next_fire_at,omitzero" doc:"When the agent is set to it."`
	LastFiredAt     *time.Time  `json:"last_fired_at,omitzero"`
	LastRunStatus   run.Status  `json:"last_run_status,omitzero"`
	RequireConfirm  bool        `json:"require_confirmation,omitzero" doc:"A person confirms it before the agent begins."`
	ParentTaskID    string      `json:"parent_task_id,omitzero"`
	CreatedByUserID string      `json:"created_by,omitzero"`
}

// TodoStore is the port to the table of todos.
type TodoStore interface {
	PutTodoTx(tx txn.Tx, t *Todo) error // inserts or replaces
	LockTodoTx(tx txn.Tx, tenant, id string) (*Todo, error)
	DeleteTodoTx(tx txn.Tx, tenant, id string) error
	// ListTodos lists: those that are not finished by when they are due, then the
	// finished ones, the newest first; and counts them all.
	ListTodos(ctx context.Context, tenant string, f TodoFilter) ([]Todo, int, error)
}

// TodoFilter narrows a list of todos. Empty fields do not. From and Until leave
// out what has no due time.
type TodoFilter struct {
	SessionID, AgentID string
	Status             TodoStatus
	From, Until        time.Time
	Limit              int
}

const (
	// TodoWorkKind is the kind of the items by which todos become due; the key
	// is the todo's id.
	TodoWorkKind = "todo"

	// late is how long ago a todo may have been due for its agent to be set to
	// it all the same.
	late = 5 * time.Minute
)

// CronFunc reads a cron expression in a time zone and gives the function that
// finds the next time after one. Its error says what is wrong.
type CronFunc func(cron, zone string) (next func(time.Time) time.Time, err error)

// plan sets when the todo's agent is set to it, from what the todo says. Times
// that are long over, and todos that nobody is to do, are never.
func (s *Service) plan(t *Todo, now time.Time) error {
	t.NextFireAt = nil
	if t.AgentID == "" || t.Status != TodoPending {
		return nil
	}
	due := t.DueAt
	if t.Recurrence != nil && s.Cron != nil && (due == nil || !due.After(now)) {
		next, err := s.Cron(t.Recurrence.Cron, t.Recurrence.Timezone)
		if err != nil {
			return fault.BadFields(fault.Field{Field: "recurrence.cron", Message: err.Error()})
		}
		at := next(now)
		if at.IsZero() {
			return nil
		}
		due = &at
		t.DueAt = due
	}
	if due != nil && due.After(now.Add(-late)) {
		t.NextFireAt = due
	}
	return nil
}

// putTodo stores a todo and the work that follows from it.
func (s *Service) putTodo(tx txn.Tx, t *Todo) error {
	if err := s.Todos.PutTodoTx(tx, t); err != nil {
		return err
	}
	return s.rouse(tx, t)
}

// rouse makes the todo's work due when the todo is. Its handler asks the todo
// again, so that an item too many does no harm.
func (s *Service) rouse(tx txn.Tx, t *Todo) error {
	if t.NextFireAt == nil {
		return nil
	}
	return s.Queue.EnqueueTx(tx, work.Item{Kind: TodoWorkKind, Key: t.TodoID, TenantID: t.TenantID, Due: *t.NextFireAt})
}

// changeTodo changes a todo of a session in one transaction.
func (s *Service) changeTodo(ctx context.Context, tenant, sessionID, id string, do func(txn.Tx, *Todo) error) (*Todo, error) {
	var t *Todo
	err := s.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		if t, err = s.Todos.LockTodoTx(tx, tenant, id); err != nil {
			return err
		}
		if t.SessionID != sessionID {
			return fault.NoSuch("todo")
		}
		t.UpdatedAt = s.Clock.Now()
		if err := do(tx, t); err != nil {
			return err
		}
		return s.putTodo(tx, t)
	})
	if err != nil {
		return nil, err
	}
	return t, s.nameAgent(ctx, t)
}

func (s *Service) nameAgent(ctx context.Context, t *Todo) (err error) {
	if t.AgentID != "" {
		t.AgentName, err = s.agentName(ctx, map[string]string{}, t.TenantID, t.AgentID)
	}
	return err
}

// DeleteTodo takes a todo off the list. A run that does it goes on.
func (s *Service) DeleteTodo(ctx context.Context, tenant, sessionID, id string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		t, err := s.Todos.LockTodoTx(tx, tenant, id)
		if err != nil {
			return err
		}
		if t.SessionID != sessionID {
			return fault.NoSuch("todo")
		}
		return s.Todos.DeleteTodoTx(tx, tenant, id)
	})
}

// ConfirmTodo answers the question whether a todo is to be done.
func (s *Service) ConfirmTodo(ctx context.Context, who authz.Caller, sessionID, id string, execute bool) (*Todo, error) {
	return s.changeTodo(ctx, who.TenantID, sessionID, id, func(_ txn.Tx, t *Todo) error {
		if t.Status != TodoUnasked {
			return fault.WrongState("todo", string(t.Status), "a confirmation")
		}
		if !execute {
			t.Status, t.NextFireAt = TodoCancelled, nil
			return nil
		}
		return s.dispatch(t)
	})
}

// RunTodo sets the agent to a todo now.
func (s *Service) RunTodo(ctx context.Context, who authz.Caller, sessionID, id string) (*Todo, error) {
	return s.changeTodo(ctx, who.TenantID, sessionID, id, func(_ txn.Tx, t *Todo) error {
		if !t.Status.waits() {
			return fault.WrongState("todo", string(t.Status), "running it")
		}
		return s.dispatch(t)
	})
}

// dispatch gives the todo its run. The run is made by the todo's work item,
// which is due at once: it is made exactly once, whatever dies meanwhile.
func (s *Service) dispatch(t *Todo) error {
	if t.AgentID == "" {
		return fault.New(fault.Malformed, "MISSING_FIELD", "Nobody is to do this todo: set assign_agent_id first.")
	}
	now := s.Clock.Now()
	t.Status, t.RunID, t.LastFiredAt, t.NextFireAt = TodoInProgress, ident.New(), &now, &now
	return nil
}

// HandleTodo is the work handler of TodoWorkKind: it sets agents to todos that
// are due.
func (s *Service) HandleTodo(ctx context.Context, held work.Lease) error {
	tenant := held.TenantID
	var t *Todo
	err := s.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		t, err = s.Todos.LockTodoTx(tx, tenant, held.Key)
		if fault.Is(err, fault.NotFound) {
			t = nil
			return s.Queue.FinishTx(tx, held)
		}
		if err != nil {
			return err
		}
		now := s.Clock.Now()
		switch {
		case t.NextFireAt == nil:
			t = nil
			return s.Queue.FinishTx(tx, held)
		case t.NextFireAt.After(now):
			due := *t.NextFireAt
			t = nil
			return s.Queue.RescheduleTx(tx, held, due, nil)
		case t.Status == TodoPending && t.RequireConfirm:
			t.Status, t.NextFireAt, t.UpdatedAt = TodoUnasked, nil, now
			stored := *t
			t = nil
			if err := s.Queue.FinishTx(tx, held); err != nil {
				return err
			}
			return s.putTodo(tx, &stored)
		case t.Status == TodoPending:
			if err := s.dispatch(t); err != nil {
				return err
			}
			t.UpdatedAt = now
			return s.putTodo(tx, t)
		}
		return nil
	})
	if err != nil || t == nil {
		return err
	}
	refusal := s.do(ctx, t)
	if refusal != nil && !refused(refusal) {
		return refusal // it is tried again, with the same run
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		now, err := s.Todos.LockTodoTx(tx, tenant, t.TodoID)
		if fault.Is(err, fault.NotFound) {
			return s.Queue.FinishTx(tx, held)
		}
		if err != nil {
			return err
		}
		if err := s.Queue.FinishTx(tx, held); err != nil {
			return err
		}
		if now.RunID != t.RunID {
			return s.rouse(tx, now)
		}
		if refusal != nil {
			return s.after(tx, now, run.Rejected)
		}
		if now.Status == TodoInProgress { // else its run has ended already
			now.NextFireAt = nil
		}
		return s.putTodo(tx, now)
	})
}

// refused says whether trying again is of no use.
func refused(err error) bool {
	f := fault.From(err)
	return f.Kind != fault.Unavailable && f.Kind != fault.Internal && f.Kind != fault.Limited
}

// do starts a todo's run, if it was not started before: in the session, where
// the session is the agent's and takes messages, and by itself elsewhere.
func (s *Service) do(ctx context.Context, t *Todo) error {
	_, err := s.Runs.Get(ctx, t.TenantID, t.RunID)
	if err == nil || !fault.Is(err, fault.NotFound) {
		return err
	}
	rec, err := s.Store.Get(ctx, t.TenantID, t.SessionID)
	if err != nil {
		return err
	}
	message := t.Title
	for _, more := range []string{t.Description, t.Instructions} {
		if more = strings.TrimSpace(more); more != "" {
			message += "\n\n" + more
		}
	}
	who := authz.Caller{TenantID: t.TenantID, UserID: t.CreatedByUserID}
	req := run.Request{RunID: t.RunID, AgentID: t.AgentID, Parsed: &run.Input{Message: message}}
	if req.Input, err = encode(struct {
		Message string `json:"message"`
	}{message}); err != nil {
		return err
	}
	if req.Metadata, err = encode(struct {
		Source string `json:"source"`
		Todo   string `json:"todo_id"`
	}{todoSource, t.TodoID}); err != nil {
		return err
	}
	if rec.AgentID == t.AgentID && s.open(rec) == nil {
		req.SessionID = &rec.SessionID
		if err := s.Join(ctx, t.TenantID, &req); err != nil {
			return err
		}
	}
	_, err = s.Runs.Create(ctx, who, req)
	return err
}

// todoDone is what sessions do about a run that a todo started and that ended.
func (s *Service) todoDone(tx txn.Tx, r *run.Record) error {
	id := todoOf(r)
	if id == "" {
		return nil
	}
	t, err := s.Todos.LockTodoTx(tx, r.TenantID, id)
	if fault.Is(err, fault.NotFound) || err == nil && t.RunID != r.RunID {
		return nil // deleted, or a caller's metadata
	}
	if err != nil {
		return err
	}
	return s.after(tx, t, r.Status)
}

// after settles a todo whose run came to a status: one that recurs is pending
// again, another is done, or pending without a time where it went wrong.
func (s *Service) after(tx txn.Tx, t *Todo, status run.Status) error {
	now := s.Clock.Now()
	t.LastRunStatus, t.UpdatedAt = status, now
	if t.Status != TodoInProgress { // somebody set it to something else meanwhile
		return s.putTodo(tx, t)
	}
	t.NextFireAt = nil
	switch {
	case t.Recurrence != nil:
		t.Status, t.DueAt = TodoPending, nil
		if err := s.plan(t, now); err != nil {
			return err
		}
	case status == run.Completed:
		t.Status = TodoDone
	default:
		t.Status = TodoPending
	}
	return s.putTodo(tx, t)
}
