package session

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

const todoSource = "todo"

func encode(v any) (schema.Object, error) {
	b, err := json.Marshal(v)
	return b, err
}

// delivery is accepted by nobody: this deployment has no channel to deliver by.
type delivery struct {
	_ struct{} `json:"-" name:"TodoDelivery"`

	Channels []string `json:"channels" enum:"email,telegram,whatsapp"`
	Target   string   `json:"target,omitzero"`
}

// TodoFields are the fields that a todo's creation and change have in common.
type TodoFields struct {
	Title          string      `json:"title,omitzero" maxLength:"500"`
	Description    string      `json:"description,omitzero" nullable:"true" maxLength:"10000"`
	Instructions   string      `json:"instructions,omitzero" nullable:"true" maxLength:"10000"`
	DueAt          *time.Time  `json:"due_at,omitzero" nullable:"true" doc:"Left out, with somebody to do it: now, or when the recurrence says. Null: at no time."`
	AgentID        *string     `json:"assign_agent_id,omitzero" nullable:"true" format:"uuid"`
	TeamID         *string     `json:"assign_team_id,omitzero" nullable:"true" format:"uuid"`
	Recurrence     *Recurrence `json:"recurrence"`
	Status         string      `json:"status,omitzero" enum:"pending,pending_confirmation,in_progress,done,completed,cancelled"`
	RequireConfirm *bool       `json:"require_confirmation,omitzero" nullable:"true"`
	Delivery       *delivery   `json:"delivery"`
}

type todoBody struct {
	_ struct{} `json:"-" name:"TodoCreate"`
	TodoFields
}

type todoChange struct {
	_ struct{} `json:"-" name:"TodoUpdate"`
	TodoFields
}

// sent says which fields a body has, null included.
func sent(body jsontext.Value) (map[string]bool, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	has := map[string]bool{}
	for name := range members {
		has[name] = true
	}
	return has, nil
}

// take puts the fields of a body onto a todo, and plans it.
func (s *Service) take(t *Todo, in *TodoFields, has map[string]bool, now time.Time) error {
	was := t.Status
	var wrong []fault.Field
	add := func(field, message string) { wrong = append(wrong, fault.Field{Field: field, Message: message}) }
	if has["title"] {
		if t.Title = in.Title; strings.TrimSpace(in.Title) == "" {
			add("title", "it is blank")
		}
	}
	if in.Delivery != nil {
		add("delivery", "nothing can be delivered on this deployment")
	}
	if r := in.Recurrence; r != nil {
		if s.Cron == nil {
			add("recurrence", "todos cannot recur on this deployment")
		} else if _, err := s.Cron(r.Cron, r.Timezone); err != nil {
			add("recurrence.cron", err.Error())
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	if in.TeamID != nil {
		return fault.NoSuch("team")
	}
	for name, set := range map[string]func(){
		"description": func() { t.Description = in.Description }, "instructions": func() { t.Instructions = in.Instructions },
		"due_at": func() { t.DueAt = in.DueAt }, "assign_agent_id": func() { t.AgentID = deref(in.AgentID) },
		"recurrence": func() { t.Recurrence = in.Recurrence }, "require_confirmation": func() { t.RequireConfirm = deref(in.RequireConfirm) },
		"status": func() {
			if t.Status = TodoStatus(in.Status); t.Status == "completed" {
				t.Status = TodoDone
			}
		},
	} {
		if has[name] {
			set()
		}
	}
	if t.DueAt != nil {
		at := t.DueAt.UTC().Truncate(time.Microsecond)
		t.DueAt = &at
	}
	if was == TodoInProgress && t.Status == was {
		return nil // its run may be about to be made
	}
	return s.plan(t, now)
}

func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// AddTodo puts a todo on a session's list. One that somebody is to do, with no
// word of when, is due at once.
func (s *Service) AddTodo(ctx context.Context, who authz.Caller, sessionID string, body jsontext.Value) (*Todo, error) {
	in, err := schema.Decode[todoBody](body)
	if err != nil {
		return nil, err
	}
	has, err := sent(body)
	if err != nil {
		return nil, err
	}
	if in.Title == "" {
		return nil, fault.BadFields(fault.Field{Field: "title", Message: "required"})
	}
	if _, err := s.Store.Get(ctx, who.TenantID, sessionID); err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	t := &Todo{TodoID: ident.New(), SessionID: sessionID, TenantID: who.TenantID, Status: TodoPending, CreatedAt: now, UpdatedAt: now, CreatedByUserID: who.UserID}
	if deref(in.AgentID) != "" {
		if _, err := s.Agents.Get(ctx, who.TenantID, *in.AgentID); err != nil {
			return nil, err
		}
		if !has["due_at"] && in.Recurrence == nil {
			in.DueAt, has["due_at"] = &now, true
		}
	}
	if err := s.take(t, &in.TodoFields, has, now); err != nil {
		return nil, err
	}
	if err := s.nameAgent(ctx, t); err != nil {
		return nil, err
	}
	ctx = txn.Promise(ctx, func() any { return t })
	return t, s.Writer.Write(ctx, func(tx txn.Tx) error { return s.putTodo(tx, t) })
}

// PatchTodo changes the fields that are sent; null clears.
func (s *Service) PatchTodo(ctx context.Context, who authz.Caller, sessionID, id string, body jsontext.Value) (*Todo, error) {
	in, err := schema.Decode[todoChange](body)
	if err != nil {
		return nil, err
	}
	has, err := sent(body)
	if err != nil {
		return nil, err
	}
	if deref(in.AgentID) != "" {
		if _, err := s.Agents.Get(ctx, who.TenantID, *in.AgentID); err != nil {
			return nil, err
		}
	}
	return s.changeTodo(ctx, who.TenantID, sessionID, id, func(_ txn.Tx, t *Todo) error {
		return s.take(t, &in.TodoFields, has, t.UpdatedAt)
	})
}

// TodoList answers a list of todos.
type TodoList struct {
	_ struct{} `json:"-" name:"TodoList"`

	Items []Todo `json:"items" required:"true"`
	Todos []Todo `json:"todos" required:"true" doc:"The same as items."`
	Total int    `json:"total" required:"true" doc:"How many there are, listed or not."`
}

func (s *Service) listTodos(ctx context.Context, tenant string, f TodoFilter) (*TodoList, error) {
	list := &TodoList{Items: []Todo{}, Todos: []Todo{}}
	if f.AgentID != "" && !ident.Valid(f.AgentID) || f.Status != "" && !slices.Contains([]TodoStatus{TodoPending, TodoUnasked, TodoInProgress, TodoDone, TodoCancelled}, f.Status) {
		return list, nil
	}
	found, total, err := s.Todos.ListTodos(ctx, tenant, f)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for i := range found {
		if found[i].AgentID == "" {
			continue
		}
		if found[i].AgentName, err = s.agentName(ctx, names, tenant, found[i].AgentID); err != nil {
			return nil, err
		}
	}
	list.Items, list.Todos, list.Total = found, found, total
	return list, nil
}

type (
	todoIn struct {
		SessionID string `path:"sessionId"`
		Body      jsontext.Value
	}
	todoIDIn struct {
		SessionID string `path:"sessionId"`
		TodoID    string `path:"todoId"`
	}
	todoChangeIn struct {
		SessionID string `path:"sessionId"`
		TodoID    string `path:"todoId"`
		Body      jsontext.Value
	}
	todoConfirmIn struct {
		SessionID string `path:"sessionId"`
		TodoID    string `path:"todoId"`
		Body      struct {
			_ struct{} `json:"-" name:"TodoConfirm"`

			Execute bool `json:"execute" required:"true" doc:"True: do it. False: leave it."`
		}
	}
	todosIn struct {
		SessionID string `path:"sessionId"`
		From      string `query:"from" doc:"Only what is due from then on: a date-time."`
		To        string `query:"to" doc:"Only what is due before then: a date-time."`
	}
	allTodosIn struct {
		Status  string `query:"status"`
		AgentID string `query:"agent_id"`
		Limit   string `query:"limit" doc:"1 to 500; 200 if it is left out."`
	}
	taskIn struct{ Body newTask }

	todoDeleted struct {
		_ struct{} `json:"-" name:"TodoDeleted"`

		Deleted   bool   `json:"deleted" required:"true"`
		TodoID    string `json:"todo_id" required:"true"`
		SessionID string `json:"session_id" required:"true"`
	}
)

// newTask is a todo for one or more agents, each in a session of its own.
type newTask struct {
	_ struct{} `json:"-" name:"TaskCreate"`

	Title          string      `json:"title" required:"true" minLength:"1" maxLength:"500"`
	Instructions   string      `json:"instructions,omitzero" maxLength:"10000"`
	DueAt          *time.Time  `json:"due_at,omitzero" nullable:"true" doc:"Left out: now."`
	Recurrence     *Recurrence `json:"recurrence"`
	RequireConfirm bool        `json:"require_confirmation,omitzero"`
	Delivery       *delivery   `json:"delivery"`
	AgentID        string      `json:"agent_id,omitzero" format:"uuid" doc:"Who is to do it: this, agent_ids or team_id."`
	AgentIDs       []string    `json:"agent_ids,omitzero" maxItems:"50"`
	TeamID         string      `json:"team_id,omitzero" format:"uuid"`
}

// Task answers the creation of one.
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

// AddTask gives agents something to do.
func (s *Service) AddTask(ctx context.Context, who authz.Caller, in *newTask) (*Task, error) {
	ids := in.AgentIDs
	named := 0
	for _, has := range []bool{in.AgentID != "", len(ids) > 0, in.TeamID != ""} {
		if has {
			named++
		}
	}
	if named != 1 {
		return nil, fault.BadFields(fault.Field{Field: "agent_id", Message: "exactly one of agent_id, agent_ids and team_id says who is to do it"})
	}
	if in.TeamID != "" {
		return nil, fault.NoSuch("team")
	}
	if in.AgentID != "" {
		ids = []string{in.AgentID}
	}
	now := s.Clock.Now()
	task := &Task{TaskID: ident.New(), Title: in.Title, Items: []TaskItem{}}
	fields := TodoFields{Title: in.Title, Instructions: in.Instructions, DueAt: in.DueAt, Recurrence: in.Recurrence, RequireConfirm: &in.RequireConfirm, Delivery: in.Delivery}
	if fields.DueAt == nil && in.Recurrence == nil {
		fields.DueAt = &now
	}
	has := map[string]bool{"title": true, "instructions": true, "due_at": true, "recurrence": true, "require_confirmation": true}
	var todos []*Todo
	var sessions []*Record
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		if !ident.Valid(id) {
			return nil, fault.BadFields(fault.Field{Field: "agent_ids", Message: "expected ids"})
		}
		g, err := s.Agents.Get(ctx, who.TenantID, id)
		if err != nil {
			return nil, err
		}
		t := &Todo{
			TodoID: ident.New(), SessionID: ident.New(), TenantID: who.TenantID, AgentID: g.ID, Status: TodoPending,
			CreatedAt: now, UpdatedAt: now, ParentTaskID: task.TaskID, CreatedByUserID: who.UserID,
		}
		if err := s.take(t, &fields, has, now); err != nil {
			return nil, err
		}
		rec := &Record{
			TenantID: who.TenantID, SessionID: t.SessionID, AgentID: g.ID, Status: Active, QueueMode: Allow, ActiveBranch: Root,
			CreatedAt: now, UpdatedAt: now, // it lives as long as its todo may need it
		}
		todos, sessions, task.DueAt = append(todos, t), append(sessions, rec), t.DueAt
		task.Items = append(task.Items, TaskItem{SessionID: t.SessionID, TodoID: t.TodoID, AgentID: g.ID, Status: t.Status})
	}
	ctx = txn.Promise(ctx, func() any { return task })
	return task, s.Writer.Write(ctx, func(tx txn.Tx) error {
		for i := range todos {
			if err := s.insert(tx, sessions[i]); err != nil {
				return err
			}
			if err := s.putTodo(tx, todos[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// moment reads a time out of a query; zero where there is none.
func moment(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter %s is not a date-time such as 2026-09-10T12:00:00Z.", name)
	}
	return at, nil
}

// todoRoutes lists the operations on todos.
func (s *Service) todoRoutes() []route.Route {
	const list, one = "/{sessionId}/todos", "/{sessionId}/todos/{todoId}"
	add := with(write("POST", list, "createSessionTodo", "Put something to do on a session's list", writers), 201)
	add.BodyOf = reflect.TypeFor[todoBody]()
	change := write("PATCH", one, "updateSessionTodo", "Change a todo", writers)
	change.BodyOf = reflect.TypeFor[todoChange]()
	all := read("", "listTodos", "List todos of all sessions, those that are due soonest first")
	all.Path = "/api/v1/todos"
	task := with(write("POST", "", "createTask", "Give agents something to do, each in a session of its own", talkers), 201, 404)
	task.Path = "/api/v1/todos"
	return []route.Route{
		route.Action(read(list, "listSessionTodos", "List a session's todos"), func(ctx context.Context, who authz.Caller, in *todosIn) (*TodoList, error) {
			if _, err := s.Store.Get(ctx, who.TenantID, in.SessionID); err != nil {
				return nil, err
			}
			f := TodoFilter{SessionID: in.SessionID, Limit: 500}
			var err error
			if f.From, err = moment("from", in.From); err != nil {
				return nil, err
			}
			if f.Until, err = moment("to", in.To); err != nil {
				return nil, err
			}
			return s.listTodos(ctx, who.TenantID, f)
		}),
		route.Action(add, func(ctx context.Context, who authz.Caller, in *todoIn) (*Todo, error) {
			return s.AddTodo(ctx, who, in.SessionID, in.Body)
		}),
		route.Action(change, func(ctx context.Context, who authz.Caller, in *todoChangeIn) (*Todo, error) {
			return s.PatchTodo(ctx, who, in.SessionID, in.TodoID, in.Body)
		}),
		route.Action(write("DELETE", one, "deleteSessionTodo", "Take a todo off the list", writers), func(ctx context.Context, who authz.Caller, in *todoIDIn) (todoDeleted, error) {
			return todoDeleted{Deleted: true, TodoID: in.TodoID, SessionID: in.SessionID}, s.DeleteTodo(ctx, who.TenantID, in.SessionID, in.TodoID)
		}),
		route.Action(with(write("POST", one+"/confirm", "confirmSessionTodo", "Say whether a todo that waits for it is to be done", writers), 200, 409), func(ctx context.Context, who authz.Caller, in *todoConfirmIn) (*Todo, error) {
			return s.ConfirmTodo(ctx, who, in.SessionID, in.TodoID, in.Body.Execute)
		}),
		route.Action(with(write("POST", one+"/run", "runSessionTodoNow", "Have a todo done now", writers), 200, 400, 409), func(ctx context.Context, who authz.Caller, in *todoIDIn) (*Todo, error) {
			return s.RunTodo(ctx, who, in.SessionID, in.TodoID)
		}),
		route.Action(all, func(ctx context.Context, who authz.Caller, in *allTodosIn) (*TodoList, error) {
			return s.listTodos(ctx, who.TenantID, TodoFilter{Status: TodoStatus(in.Status), AgentID: in.AgentID, Limit: page.Limit(in.Limit, 200, 500)})
		}),
		route.Action(task, func(ctx context.Context, who authz.Caller, in *taskIn) (*Task, error) {
			return s.AddTask(ctx, who, &in.Body)
		}),
	}
}
