package session

import (
	"context"
	"iter"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

type idIn struct {
	SessionID string `path:"sessionId"`
}

type createIn struct{ Body newSession }

type listIn struct {
	AgentID string `query:"agent_id" doc:"Only sessions of this agent."`
	Limit   string `query:"limit" doc:"Sessions per page, 1 to 100; 50 if it is left out."`
	Cursor  string `query:"cursor"`
}

type updateIn struct {
	SessionID string `path:"sessionId"`
	Body      jsontext.Value
}

// sessionChange is the body of an update. What is left out stays.
type sessionChange struct {
	_ struct{} `json:"-" name:"SessionUpdate"`

	Metadata      schema.Object  `json:"metadata,omitzero" doc:"Merged one level deep; null takes a member out."`
	QueueMode     string         `json:"queue_mode,omitzero" enum:"allow,reject"`
	ModelOverride *ModelOverride `json:"model_override" doc:"Null goes back to the agent's model."`
}

type messageIn struct {
	SessionID string `path:"sessionId"`
	Body      newMessage
}

type messagesIn struct {
	SessionID string `path:"sessionId"`
	Limit     string `query:"limit" doc:"Messages per page, 1 to 500, counted back from the newest; all of them if it is left out."`
	Cursor    string `query:"cursor"`
}

type eventsIn struct {
	SessionID   string `path:"sessionId"`
	LastEventID string `header:"Last-Event-ID" query:"last_event_id"`
}

type branchIn struct {
	SessionID string `path:"sessionId"`
	Body      newBranch
}

type branchIDIn struct {
	SessionID string `path:"sessionId"`
	BranchID  string `path:"branchId" format:"any"`
}

const tag = "Sessions"

var (
	readers = []authz.Scope{"sessions:read"}
	writers = []authz.Scope{"sessions:write"}
	// talkers may do what a conversation needs: who may run agents may also talk
	// with them (behaviours 4).
	talkers = []authz.Scope{"sessions:write", "runs:create"}
)

func read(path, id, summary string) route.Row {
	return route.Row{Method: "GET", Path: "/api/v1/sessions" + path, ID: id, Tag: tag, Summary: summary, Scopes: readers, Role: authz.Viewer}
}

func write(method, path, id, summary string, scopes []authz.Scope) route.Row {
	return route.Row{Method: method, Path: "/api/v1/sessions" + path, ID: id, Tag: tag, Summary: summary, Scopes: scopes, Role: authz.Developer}
}

// with completes a row: its success, and what else it refuses.
func with(row route.Row, status int, refusals ...int) route.Row {
	row.Status, row.Errors = status, refusals
	return row
}

func documented(row route.Row, doc string) route.Row {
	row.Doc = doc
	return row
}

// Routes of the area Sessions.
func (s *Service) Routes() []route.Route {
	const one, branch = "/{sessionId}", "/{sessionId}/branches/{branchId}"
	follow := documented(read(one+"/events", "streamSessionEvents", "Stream the events of a session"),
		"Server-sent events of all runs, with ids of the form <runId>:<seq>. Stored events come first; Last-Event-ID resumes exactly "+
			"after an event, also of another run. Ends with session_closed.")
	follow.Events = &events
	update := with(write("PUT", one, "updateSession", "Change a session", writers), 200)
	update.BodyOf = reflect.TypeFor[sessionChange]()
	forking := with(write("POST", one+"/branch", "createSessionBranch", "Fork the conversation", writers), 201, 409)
	forking.Optional = true
	export := read(one+"/export", "exportSession", "Take a conversation elsewhere")
	export.AnswerOf = reflect.TypeFor[exported]()
	routes := []route.Route{
		route.Action(with(write("POST", "", "createSession", "Begin a conversation with an agent", talkers), 201, 404), s.create),
		route.Action(read("", "listSessions", "List sessions, newest first"), s.list),
		route.Action(read(one, "getSession", "Read a session and its conversation"), s.get),
		route.Action(update, s.update),
		route.Action(documented(write("DELETE", one, "closeSession", "Close a session", writers),
			"It stays readable and takes no more messages. The run that is under way goes on to its end; those that wait their turn are cancelled."), s.close),
		route.Action(documented(with(write("POST", one+"/messages", "sendSessionMessage", "Say something", talkers), 202, 409, 503),
			"The message is the next turn of the active branch. It is stored before the answer is sent; runs of one branch follow each other in the order of their messages."), s.send),
		route.Action(read(one+"/messages", "listSessionMessages", "Read what was said on the active branch"), s.messages),
		route.Stream(follow, s.events),
		route.Action(documented(forking, "The branch shares the conversation up to the fork, and goes its own way from there. Activate it to have new messages go to it."), s.fork),
		route.Action(read(one+"/branches", "listSessionBranches", "List a session's branches"), s.branches),
		route.Action(with(write("PUT", branch+"/activate", "activateSessionBranch", "Have new messages go to a branch", writers), 200), s.activate),
		route.Action(with(write("DELETE", branch, "deleteSessionBranch", "Take a branch out of a session", writers), 200, 409), s.deleteBranch),
		route.Action(documented(export, "The active branch: format md gives Markdown to read, json the whole as JSON."), s.export),
		route.Action(documented(write("POST", "/bulk-delete", "bulkDeleteSessions", "Close several sessions", talkers),
			"Up to 200. Each is closed as DELETE does it."), s.closeMany),
	}
	return slices.Concat(routes, s.shareRoutes(), s.annotationRoutes(), s.todoRoutes())
}

func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (*Session, error) {
	return s.Create(ctx, who, &in.Body)
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	return s.List(ctx, who.TenantID, in.AgentID, in.Limit, in.Cursor)
}

func (s *Service) get(ctx context.Context, who authz.Caller, in *idIn) (*Session, error) {
	return s.Get(ctx, who.TenantID, in.SessionID)
}

func (s *Service) update(ctx context.Context, who authz.Caller, in *updateIn) (*Session, error) {
	body := new(sessionChange)
	if err := schema.Of[sessionChange]().DecodeInto(in.Body, body, false); err != nil {
		return nil, err
	}
	var sent struct {
		Model jsontext.Value `json:"model_override"`
	}
	if err := json.Unmarshal(in.Body, &sent); err != nil {
		return nil, err
	}
	return s.Update(ctx, who.TenantID, in.SessionID, change{
		Metadata: body.Metadata, QueueMode: body.QueueMode, SetModel: sent.Model != nil, Model: body.ModelOverride,
	})
}

func (s *Service) close(ctx context.Context, who authz.Caller, in *idIn) (Deleted, error) {
	return s.Close(ctx, who, in.SessionID)
}

func (s *Service) send(ctx context.Context, who authz.Caller, in *messageIn) (Accepted, error) {
	return s.Send(ctx, who, in.SessionID, &in.Body)
}

func (s *Service) messages(ctx context.Context, who authz.Caller, in *messagesIn) (*Transcript, error) {
	return s.Messages(ctx, who.TenantID, in.SessionID, in.Limit, in.Cursor)
}

func (s *Service) events(ctx context.Context, who authz.Caller, in *eventsIn) (iter.Seq2[route.Frame, error], error) {
	return s.Stream(ctx, who.TenantID, in.SessionID, in.LastEventID)
}

func (s *Service) fork(ctx context.Context, who authz.Caller, in *branchIn) (*Branch, error) {
	return s.Fork(ctx, who.TenantID, in.SessionID, &in.Body)
}

func (s *Service) branches(ctx context.Context, who authz.Caller, in *idIn) (*BranchList, error) {
	return s.Branches(ctx, who.TenantID, in.SessionID)
}

func (s *Service) activate(ctx context.Context, who authz.Caller, in *branchIDIn) (Activated, error) {
	return s.Activate(ctx, who.TenantID, in.SessionID, in.BranchID)
}

func (s *Service) deleteBranch(ctx context.Context, who authz.Caller, in *branchIDIn) (BranchDeleted, error) {
	return s.DeleteBranch(ctx, who.TenantID, in.SessionID, in.BranchID)
}
