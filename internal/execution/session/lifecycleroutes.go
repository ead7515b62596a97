package session

import (
	"context"
	"reflect"

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

type bulkDeleteIn struct{ Body bulkDeleteBody }

type listIn struct {
	Filter

	Limit  string `query:"limit" doc:"Sessions per page, 1 to 100; default 50."`
	Cursor string `query:"cursor"`
}

type updateIn struct {
	SessionID string `path:"sessionId"`
	Body      jsontext.Value
}

// sessionChange is the body of an update. Fields that are not sent do not change.
type sessionChange struct {
	_ struct{} `json:"-" name:"SessionUpdate"`

	Metadata      schema.Object  `json:"metadata,omitzero" doc:"Merged one level deep; null removes a key."`
	QueueMode     string         `json:"queue_mode,omitzero" enum:"allow,reject" doc:"While a run of the branch is under way: allow queues a message, reject refuses it with 409."`
	ModelOverride *ModelOverride `json:"model_override" doc:"Null returns to the agent's model."`
}

func (l *lifecycle) routes() []route.Route {
	const one = "/{sessionId}"
	update := with(write("PUT", one, "updateSession", "Update a session", writers), 200)
	update.BodyOf = reflect.TypeFor[sessionChange]()
	get, end := read(one, "getSession", "Get a session and its conversation"), write("DELETE", one, "closeSession", "Close a session", writers)
	get.Conditional, update.Conditional, end.Conditional, end.Destroys = true, true, true, true
	return []route.Route{
		route.Action(with(write("POST", "", "createSession", "Create a session with an agent", talkers), 201, 404, 409), l.createRoute),
		route.Action(read("", "listSessions", "List sessions, newest first"), l.listRoute),
		route.Action(get, l.getRoute),
		route.Action(update, l.updateRoute),
		route.Action(documented(end,
			"A closed session can still be read but accepts no more messages. A run that is under way continues to its end; "+
				"runs that wait for their turn are cancelled."), l.closeRoute),
		route.Action(documented(destroys(write("POST", "/bulk-delete", "bulkDeleteSessions", "Close several sessions", talkers)),
			"Closes up to 200 sessions, each as `DELETE` does."), l.closeManyRoute),
	}
}

func (l *lifecycle) createRoute(ctx context.Context, who authz.Caller, in *createIn) (*Session, error) {
	return l.create(ctx, who, &in.Body)
}

func (l *lifecycle) listRoute(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	return l.list(ctx, who.TenantID, in)
}

func (l *lifecycle) getRoute(ctx context.Context, who authz.Caller, in *idIn) (*Session, error) {
	return l.get(ctx, who.TenantID, in.SessionID)
}

func (l *lifecycle) updateRoute(ctx context.Context, who authz.Caller, in *updateIn) (*Session, error) {
	body := new(sessionChange)
	if err := schema.Of[sessionChange]().DecodeInto(in.Body, body, false); err != nil {
		return nil, err
	}
	var raw struct { // distinguishes a null override from a missing one
		Model jsontext.Value `json:"model_override"`
	}
	if err := json.Unmarshal(in.Body, &raw); err != nil {
		return nil, err
	}
	return l.update(ctx, who.TenantID, in.SessionID, change{
		Metadata: body.Metadata, QueueMode: body.QueueMode, SetModel: raw.Model != nil, Model: body.ModelOverride,
	})
}

func (l *lifecycle) closeRoute(ctx context.Context, who authz.Caller, in *idIn) (Deleted, error) {
	return l.close(ctx, who, in.SessionID)
}

func (l *lifecycle) closeManyRoute(ctx context.Context, who authz.Caller, in *bulkDeleteIn) (bulkDeleted, error) {
	return l.closeMany(ctx, who, in.Body.SessionIDs)
}
