package teamrun

import (
	"context"
	"reflect"
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
)

type (
	startIn struct {
		TeamID string `path:"teamId"`
		Body   struct {
			_ struct{} `json:"-" name:"TeamRunStart"`

			Input       schema.Any    `json:"input,omitzero" doc:"What the team is to do: a text, or an object with message, addressed_to and chat_mode. The same as these fields themselves."`
			Message     string        `json:"message,omitzero" maxLength:"200000" doc:"What the team is to do. Members are addressed by @ with their id or name."`
			AddressedTo []string      `json:"addressed_to,omitzero" maxItems:"50" maxLength:"36" ref:"agent" doc:"Only these members work on it. Default: those that the message mentions, or all."`
			ChatMode    string        `json:"chat_mode,omitzero" enum:"plan,chat" doc:"plan, the default: the team works on it as its topology says. chat: the members that it is addressed to answer it, or the supervisor; they see the earlier turns of the thread."`
			Metadata    schema.Object `json:"metadata,omitzero" doc:"Data of your own, kept and shown as it is sent."`
		}
	}
	listIn struct {
		TeamID string `path:"teamId"`
		Limit  string `query:"limit" doc:"Runs per page, 1 to 200; 50 if omitted."`
		Cursor string `query:"cursor"`
	}
	runIn struct {
		TeamID    string `path:"teamId"`
		TeamRunID string `path:"teamRunId"`
	}
	streamIn struct {
		TeamID      string `path:"teamId"`
		TeamRunID   string `path:"teamRunId"`
		LastEventID string `header:"Last-Event-ID"`
		After       string `query:"last_event_id" doc:"The same as the header Last-Event-ID."`
	}
)

type (
	accepted struct {
		_ struct{} `json:"-" name:"TeamRunAccepted"`

		TeamRunID string `json:"team_run_id" format:"uuid" required:"true"`
	}
	cancelled struct {
		_ struct{} `json:"-" name:"TeamRunCancelling"`

		Cancelled bool   `json:"cancelled" required:"true" doc:"False where the run had ended."`
		TeamRunID string `json:"team_run_id" format:"uuid" required:"true"`
		Count     int    `json:"cancelled_count" required:"true" doc:"Runs of members that were under way."`
		Stopped   bool   `json:"orchestrator_stopped" required:"true"`
	}
	summary struct {
		_ struct{} `json:"-" name:"TeamRunSummary"`

		TeamRunID   string        `json:"team_run_id" format:"uuid" required:"true"`
		Status      Status        `json:"status" enum:"pending,running,completed,failed,partial_failure,cancelled" required:"true"`
		Message     string        `json:"message" required:"true"`
		Metadata    schema.Object `json:"metadata" required:"true"`
		CreatedAt   time.Time     `json:"created_at" required:"true"`
		CompletedAt *time.Time    `json:"completed_at" required:"true"`
	}
	list struct {
		_ struct{} `json:"-" name:"TeamRunList"`

		TeamID  string    `json:"team_id" required:"true"`
		Runs    []summary `json:"runs" required:"true" doc:"Oldest first."`
		Total   int       `json:"total" required:"true" doc:"On this page."`
		HasMore bool      `json:"has_more" required:"true"`
		Cursor  string    `json:"cursor,omitzero"`
	}
	view struct {
		_ struct{} `json:"-" name:"TeamRun"`

		TeamRunID   string        `json:"team_run_id" format:"uuid" required:"true"`
		TeamID      string        `json:"team_id" format:"uuid" required:"true"`
		Status      Status        `json:"status" enum:"pending,running,completed,failed,partial_failure,cancelled" required:"true"`
		Message     string        `json:"message" required:"true"`
		Output      *string       `json:"output" required:"true" doc:"The answer of the team; null where it has none."`
		Error       string        `json:"error,omitzero" doc:"Why it has no answer, in one sentence."`
		ThreadID    string        `json:"thread_id,omitzero" doc:"Of the chat, where the message was addressed to members."`
		Metadata    schema.Object `json:"metadata" required:"true"`
		Runs        []run.Run     `json:"runs" required:"true" doc:"The newest 200 runs of members, oldest first."`
		TotalRuns   int           `json:"total_runs" required:"true"`
		CreatedAt   time.Time     `json:"created_at" required:"true"`
		CompletedAt *time.Time    `json:"completed_at" required:"true"`
	}
	exchange struct {
		_ struct{} `json:"-" name:"TeamExchange"`

		UserMessage      string  `json:"user_message" required:"true"`
		AssistantMessage *string `json:"assistant_message" required:"true" doc:"Null where there is no answer."`
	}
	protocolMessage struct {
		_ struct{} `json:"-" name:"TeamMessage"`

		MessageID string    `json:"message_id" format:"uuid" required:"true"`
		TeamRunID string    `json:"team_run_id" format:"uuid" required:"true"`
		From      string    `json:"from_agent_id" required:"true" doc:"Empty for the team."`
		To        string    `json:"to_agent_id" required:"true" doc:"Empty for the team."`
		Type      string    `json:"type" enum:"delegation,result,merge_request,question,validation" required:"true"`
		Content   string    `json:"content" required:"true"`
		Round     int       `json:"round" required:"true"`
		Timestamp time.Time `json:"timestamp" required:"true"`
		ParentID  string    `json:"parent_message_id,omitzero" format:"uuid" doc:"Of a result: the message with the task."`
	}
	messages struct {
		_ struct{} `json:"-" name:"TeamRunMessages"`

		TeamID    string            `json:"team_id" format:"uuid" required:"true"`
		TeamRunID string            `json:"team_run_id" format:"uuid" required:"true"`
		Messages  []exchange        `json:"messages" required:"true"`
		Protocol  []protocolMessage `json:"protocol_messages" required:"true"`
		Total     int               `json:"total" required:"true" doc:"Of protocol_messages."`
	}
)

// Routes returns the operations on runs of teams.
func (s *Service) Routes() []route.Route {
	const all, one, chat = "/api/v1/teams/{teamId}/runs", "/api/v1/teams/{teamId}/runs/{teamRunId}", "/api/v1/teams/{teamId}/chat"
	read, write := []authz.Scope{"agents:read"}, []authz.Scope{"agents:write"}
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: all, ID: "listTeamRuns", Tag: "Teams", Summary: "List the runs of a team", Scopes: read, Errors: []int{404, 422},
		}, s.list),
		route.Action(route.Row{
			Method: "POST", Path: all, ID: "startTeamRun", Tag: "Teams", Summary: "Have a team do something", Scopes: write, Role: authz.Developer,
			Status: 202, Errors: []int{404},
			Doc: "The run goes on after the answer. If the company has as many runs of teams as its plan allows at a time, the answer is 429.",
		}, s.start),
		route.Action(route.Row{
			Method: "GET", Path: one, ID: "getTeamRun", Tag: "Teams", Summary: "Get a run of a team", Scopes: read, Errors: []int{404},
		}, s.show),
		route.Action(route.Row{
			Method: "GET", Path: one + "/messages", ID: "getTeamRunMessages", Tag: "Teams", Summary: "Get the messages of a run of a team",
			Scopes: read, Errors: []int{404},
		}, s.messages),
		route.Action(route.Row{
			Method: "POST", Path: one + "/cancel", ID: "cancelTeamRun", Tag: "Teams", Summary: "Cancel a run of a team", Scopes: write,
			Role: authz.Developer, Errors: []int{404},
		}, func(ctx context.Context, who authz.Caller, in *runIn) (cancelled, error) {
			return s.cancel(ctx, who.TenantID, in.TeamID, in.TeamRunID)
		}),
		route.Stream(route.Row{
			Method: "GET", Path: one + "/events", ID: "streamTeamRunEvents", Tag: "Teams", Summary: "Follow a run of a team",
			Scopes: read, Errors: []int{404},
		}, s.stream),
		route.Action(route.Row{
			Method: "GET", Path: chat, ID: "getTeamChat", Tag: "Teams", Summary: "Get the chat of a team",
			Scopes: read, Errors: []int{404, 422},
		}, s.chat),
		route.Stream(route.Row{
			Method: "GET", Path: chat + "/events", ID: "streamTeamChatEvents", Tag: "Teams", Summary: "Follow the chat of a team",
			Scopes: read, Errors: []int{404}, AnswerOf: reflect.TypeFor[idleChat](),
			Doc: "While runs of the team are under way: their events, one run after another. " +
				"Otherwise the answer is JSON with the state of the chat.",
		}, s.streamChat),
	}
}

func (s *Service) start(ctx context.Context, who authz.Caller, in *startIn) (accepted, error) {
	req, err := in.request()
	if err != nil {
		return accepted{}, err
	}
	r, err := s.create(ctx, who, in.TeamID, req)
	if err != nil {
		return accepted{}, err
	}
	return accepted{TeamRunID: r.TeamRunID}, nil
}

// request returns what a body asks for, in whichever of its forms.
func (in *startIn) request() (request, error) {
	b := &in.Body
	req := request{message: b.Message, addressed: b.AddressedTo, chat: b.ChatMode == "chat", metadata: b.Metadata}
	if len(b.Input) == 0 || string(b.Input) == "null" {
		if blank(req.message) {
			return req, fault.BadFields(fault.Field{Field: "message", Message: "it is blank, and there is no input"})
		}
		return req, nil
	}
	if b.Message != "" || b.AddressedTo != nil || b.ChatMode != "" {
		return req, fault.BadFields(fault.Field{
			Field: "input", Message: "it says the same as message, addressed_to and chat_mode; send one of the two"})
	}
	if jsontext.Value(b.Input).Kind() == '"' {
		if err := json.Unmarshal(b.Input, &req.message); err != nil {
			return req, err
		}
	} else {
		asked, err := schema.Decode[inputObject](b.Input)
		if err != nil {
			return req, within("input", err)
		}
		req.message, req.addressed, req.chat = asked.Message, asked.AddressedTo, asked.ChatMode == "chat"
	}
	if blank(req.message) {
		return req, fault.BadFields(fault.Field{Field: "input", Message: "its message is blank"})
	}
	if len(req.message) > maxMessage {
		return req, fault.BadFields(fault.Field{Field: "input", Message: "its message is longer than 200000 bytes"})
	}
	return req, nil
}

const maxMessage = 200_000

// inputObject is the input of a run as an object.
type inputObject struct {
	Message     string   `json:"message" required:"true" maxLength:"200000"`
	AddressedTo []string `json:"addressed_to" maxItems:"50" maxLength:"36"`
	ChatMode    string   `json:"chat_mode" enum:"plan,chat" default:"plan"`
}

// within puts the name of a field before those that an error is about.
func within(field string, err error) error {
	f := fault.From(err)
	if f == nil {
		return err
	}
	for i := range f.Fields {
		f.Fields[i].Field = strings.TrimSuffix(field+"."+f.Fields[i].Field, ".")
	}
	return f
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*list, error) {
	if _, err := s.Teams.Store().Get(ctx, who.TenantID, in.TeamID); err != nil {
		return nil, err
	}
	scope := page.ScopeOf(who.TenantID, "team_runs", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	limit := page.Limit(in.Limit, 50, 200)
	found, err := s.Store.List(ctx, who.TenantID, in.TeamID, Filter{}, page.Window{After: after, Limit: limit + 1})
	if err != nil {
		return nil, err
	}
	l := &list{TeamID: in.TeamID, Runs: []summary{}, HasMore: len(found) > limit}
	if l.HasMore {
		found = found[:limit]
		l.Cursor = s.Cursors.Seal(scope, found[limit-1].TeamRunID)
	}
	for i := range found {
		r := &found[i]
		l.Runs = append(l.Runs, summary{
			TeamRunID: r.TeamRunID, Status: r.Status, Message: r.Message, Metadata: r.Metadata, CreatedAt: r.CreatedAt, CompletedAt: r.ended(),
		})
	}
	l.Total = len(l.Runs)
	return l, nil
}

// ended returns when the run ended; nil: it has not.
func (r *Record) ended() *time.Time {
	if r.CompletedAt.IsZero() {
		return nil
	}
	return &r.CompletedAt
}

// answer returns the answer of the team; nil: it has none.
func (r *Record) answer() *string {
	if r.Status == Completed || r.Status == PartialFailure {
		return &r.Output
	}
	return nil
}

// maxRuns is how many runs of members are shown with a run of a team.
const maxRuns = 200

func (s *Service) show(ctx context.Context, who authz.Caller, in *runIn) (*view, error) {
	r, err := s.get(ctx, who.TenantID, in.TeamID, in.TeamRunID)
	if err != nil {
		return nil, err
	}
	tasks, err := s.Store.ListTasks(ctx, who.TenantID, in.TeamRunID)
	if err != nil {
		return nil, err
	}
	v := &view{
		TeamRunID: r.TeamRunID, TeamID: r.TeamID, Status: r.Status, Message: r.Message, Output: r.answer(), Error: r.Error,
		ThreadID: r.Thread, Metadata: r.Metadata, Runs: []run.Run{}, CreatedAt: r.CreatedAt, CompletedAt: r.ended(),
	}
	if tasks, err = s.withDelegated(ctx, r, tasks); err != nil {
		return nil, err
	}
	v.TotalRuns = len(tasks)
	for _, t := range tasks[max(0, len(tasks)-maxRuns):] {
		one, err := s.Runs.Get(ctx, who.TenantID, t.RunID)
		if fault.Is(err, fault.NotFound) { // it was not started, or is deleted
			continue
		}
		if err != nil {
			return nil, err
		}
		v.Runs = append(v.Runs, *one)
	}
	return v, nil
}
