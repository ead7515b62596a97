package session

import (
	"context"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
)

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

			Execute bool `json:"execute" default:"true" doc:"True runs the agent, false cancels the todo."`
		}
	}
	todosIn    struct{ ListedTodos }
	allTodosIn struct {
		TaskFilter

		Limit string `query:"limit" doc:"1 to 500; default 200."`
	}
	taskIn struct{ Body newTask }

	todoDeleted struct {
		_ struct{} `json:"-" name:"TodoDeleted"`

		Deleted   bool   `json:"deleted" required:"true"`
		TodoID    string `json:"todo_id" required:"true"`
		SessionID string `json:"session_id" required:"true"`
	}
)

// routes returns the operations on todos.
func (s *todoService) routes() []route.Route {
	const list, one = "/{sessionId}/todos", "/{sessionId}/todos/{todoId}"
	create := with(write("POST", list, "createSessionTodo", "Create a todo in a session", writers), 201)
	create.BodyOf = reflect.TypeFor[todoBody]()
	update := write("PATCH", one, "updateSessionTodo", "Update a todo", writers)
	update.BodyOf = reflect.TypeFor[todoChange]()
	all := read("", "listTodos", "List todos of all sessions, by due time")
	all.Path = "/api/v1/todos"
	task := with(write("POST", "", "createTask", "Create a todo for one or more agents, each in a new session", talkers), 201, 404)
	task.Path = "/api/v1/todos"
	confirm := with(write("POST", one+"/confirm", "confirmSessionTodo", "Confirm or cancel a todo", writers), 200, 409)
	confirm.Optional = true
	return []route.Route{
		route.Action(read(list, "listSessionTodos", "List the todos of a session"), s.listRoute),
		route.Action(create, s.createRoute),
		route.Action(update, s.updateRoute),
		route.Action(destroys(write("DELETE", one, "deleteSessionTodo", "Delete a todo", writers)), s.deleteRoute),
		route.Action(confirm, s.confirmRoute),
		route.Action(with(write("POST", one+"/run", "runSessionTodoNow", "Run a todo now", writers), 200, 400, 409), s.startRoute),
		route.Action(all, s.listAllRoute),
		route.Action(task, s.createTaskRoute),
	}
}

func (s *todoService) listRoute(ctx context.Context, who authz.Caller, in *todosIn) (*TodoList, error) {
	if _, err := s.sessions.store.Get(ctx, who.TenantID, in.SessionID); err != nil {
		return nil, err
	}
	return s.list(ctx, who, TodoFilter{ListedTodos: in.ListedTodos}, maxTodos)
}

func (s *todoService) createRoute(ctx context.Context, who authz.Caller, in *todoIn) (*Todo, error) {
	return s.create(ctx, who, in.SessionID, in.Body)
}

func (s *todoService) updateRoute(ctx context.Context, who authz.Caller, in *todoChangeIn) (*Todo, error) {
	return s.update(ctx, who, in.SessionID, in.TodoID, in.Body)
}

func (s *todoService) deleteRoute(ctx context.Context, who authz.Caller, in *todoIDIn) (todoDeleted, error) {
	answer := todoDeleted{Deleted: true, TodoID: in.TodoID, SessionID: in.SessionID}
	return answer, s.delete(ctx, who.TenantID, in.SessionID, in.TodoID)
}

func (s *todoService) confirmRoute(ctx context.Context, who authz.Caller, in *todoConfirmIn) (*Todo, error) {
	return s.confirm(ctx, who.TenantID, in.SessionID, in.TodoID, in.Body.Execute)
}

func (s *todoService) startRoute(ctx context.Context, who authz.Caller, in *todoIDIn) (*Todo, error) {
	return s.start(ctx, who.TenantID, in.SessionID, in.TodoID)
}

func (s *todoService) listAllRoute(ctx context.Context, who authz.Caller, in *allTodosIn) (*TodoList, error) {
	return s.list(ctx, who, TodoFilter{TaskFilter: in.TaskFilter}, page.Limit(in.Limit, 200, maxTodos))
}

func (s *todoService) createTaskRoute(ctx context.Context, who authz.Caller, in *taskIn) (*Task, error) {
	return s.createTask(ctx, who, &in.Body)
}
