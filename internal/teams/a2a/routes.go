package a2a

import (
	"context"
	"iter"

	"agentd/internal/base/authz"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

type (
	createIn struct {
		Body struct {
			_ struct{} `json:"-" name:"A2ATaskCreate"`

			AgentID   string        `json:"agent_id" required:"true" format:"uuid" ref:"agent" doc:"The agent that does the task."`
			Messages  []Message     `json:"messages" required:"true" minItems:"1" maxItems:"50" doc:"What it is to do: the last one, of the user. Those before are the conversation so far."`
			ContextID string        `json:"context_id,omitzero" maxLength:"200" doc:"A conversation: the agent knows the completed tasks of it. Default: a new one."`
			Metadata  schema.Object `json:"metadata,omitzero" doc:"Data of your own, kept and shown as it is sent."`
		}
	}
	listIn struct {
		Limit  string `query:"limit" doc:"Tasks per page, 1 to 200; 50 if omitted."`
		Cursor string `query:"cursor"`
	}
	taskIn struct {
		TaskID string `path:"taskId"`
	}
	streamIn struct {
		TaskID      string `path:"taskId"`
		LastEventID string `header:"Last-Event-ID" query:"last_event_id"`
	}
	taskList struct {
		_ struct{} `json:"-" name:"A2ATaskList"`

		Tasks   []Task `json:"tasks" required:"true" doc:"Newest first, without artifacts."`
		Total   int    `json:"total" required:"true" doc:"On this page."`
		Limit   int    `json:"limit" required:"true"`
		HasMore bool   `json:"has_more" required:"true"`
		Cursor  string `json:"cursor,omitzero"`
	}
	cancelled struct {
		_ struct{} `json:"-" name:"A2ATaskCanceled"`

		Cancelled bool   `json:"cancelled" required:"true"`
		TaskID    string `json:"task_id" format:"uuid" required:"true"`
	}
)

// Routes returns the operations on tasks.
func (s *Service) Routes() []route.Route {
	const all, one = "/api/v1/a2a/tasks", "/api/v1/a2a/tasks/{taskId}"
	read, write := []authz.Scope{"agents:read"}, []authz.Scope{"agents:write"}
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: all, ID: "listA2ATasks", Tag: "A2A", Summary: "List the tasks of other systems' agents", Scopes: read,
			Errors: []int{400},
		}, s.list),
		route.Action(route.Row{
			Method: "POST", Path: all, ID: "createA2ATask", Tag: "A2A", Summary: "Have an agent do a task", Scopes: write, Role: authz.Developer,
			Status: 202, Errors: []int{404, 409},
			Doc: "The task is a run with the same id. It is answered as soon as it is stored.",
		}, s.create),
		route.Action(route.Row{
			Method: "GET", Path: one, ID: "getA2ATask", Tag: "A2A", Summary: "Get a task", Scopes: read, Errors: []int{404},
		}, func(ctx context.Context, who authz.Caller, in *taskIn) (*Task, error) {
			return s.Get(ctx, who.TenantID, in.TaskID)
		}),
		route.Action(route.Row{
			Method: "POST", Path: one + "/cancel", ID: "cancelA2ATask", Tag: "A2A", Summary: "Cancel a task", Scopes: write,
			Role: authz.Developer, Errors: []int{404, 409},
		}, func(ctx context.Context, who authz.Caller, in *taskIn) (cancelled, error) {
			answer := cancelled{Cancelled: true, TaskID: in.TaskID}
			return answer, s.Cancel(txn.WithAnswer(ctx, func() any { return answer }), who.TenantID, in.TaskID)
		}),
		route.Stream(route.Row{
			Method: "GET", Path: one + "/events", ID: "streamA2ATaskEvents", Tag: "A2A", Summary: "Follow a task", Scopes: read, Errors: []int{404},
			Doc: "Server-sent events: task.status and task.artifact, then done and a bare [DONE]. Last-Event-ID resumes right after an event.",
		}, func(ctx context.Context, who authz.Caller, in *streamIn) (iter.Seq2[route.Frame, error], error) {
			return s.stream(ctx, who.TenantID, in.TaskID, in.LastEventID)
		}),
	}
}

func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (*Task, error) {
	b := &in.Body
	return s.Do(ctx, who, Request{AgentID: b.AgentID, Messages: b.Messages, ContextID: b.ContextID, Metadata: b.Metadata})
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*taskList, error) {
	scope := page.ScopeOf(who.TenantID, "a2a_tasks", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	limit := page.Limit(in.Limit, 50, 200)
	found, err := s.List(ctx, who.TenantID, page.Window{After: after, Limit: limit + 1})
	if err != nil {
		return nil, err
	}
	l := &taskList{Tasks: found, Limit: limit, HasMore: len(found) > limit}
	if l.HasMore {
		l.Tasks = found[:limit]
		l.Cursor = s.Cursors.Seal(scope, found[limit-1].ID)
	}
	l.Total = len(l.Tasks)
	return l, nil
}
