// Package a2aserver speaks the Agent2Agent protocol to agents of other systems: their
// JSON-RPC endpoint, in the versions 1.0 and 0.x, and the cards by which they find agents.
//
// The method of a message tells its version. Messages of all versions are decoded into
// one form (params), and the tasks of package a2a are encoded for each: for 1.0 with the
// types of the official SDK, for 0.x with a form that has the members of 0.3 and of the
// versions before it.
package a2aserver

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/teams/a2a"
)

// Path is the path of the endpoint.
const Path = "/api/v1/a2a"

// Agents is the port to agents.
type Agents interface {
	Get(ctx context.Context, tenant, id string) (agent.Agent, error)
}

// Server serves the endpoint and the cards.
type Server struct {
	Tasks     *a2a.Service
	Agents    Agents
	PublicURL func() string
	// Owner returns the tenant of an agent that has a public card. Errors: NotFound.
	Owner func(ctx context.Context, agentID string) (tenant string, err error)
	// Sign signs a message with the identity of an agent; nil, or a nil signature: it has
	// none.
	Sign func(ctx context.Context, tenant, agentID string, message []byte) (public, signature []byte, err error)
	// MaxWait is how long a message without a stream waits for its task; 0: 5 minutes.
	MaxWait time.Duration
}

const maxWait = 5 * time.Minute

// in is the query of the endpoint.
type in struct {
	AgentID string `query:"agent_id" doc:"The agent that messages are to: the URL of its card has it. Or they name it in metadata.agent_id."`
}

// Endpoints returns the JSON-RPC endpoint.
func (s *Server) Endpoints() []httpapi.Raw {
	row := route.Row{
		Method: "POST", Path: Path, ID: "a2aJsonRpc", Tag: "A2A", Summary: "Send a JSON-RPC message to the A2A endpoint",
		Doc: "The methods of the Agent2Agent protocol 1.0 (SendMessage, GetTask …), 0.3 (message/send, tasks/get …) and those before " +
			"(tasks/send …). Reading needs agents:read; all else also agents:write and the role developer. " +
			"Streaming methods answer with server-sent events. Errors are JSON-RPC errors.",
		Scopes: []authz.Scope{"agents:read"}, BodyOf: reflect.TypeFor[request](), AnswerOf: reflect.TypeFor[response](),
		Outside: true, // a task that is done at once
		Errors:  []int{400, 404, 422, 503},
		Example: `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`,
	}
	return []httpapi.Raw{{
		Row: row, MayStream: true, In: reflect.TypeFor[in](), Serve: s.handle, Fail: failAsRPC, FailOf: reflect.TypeFor[response](),
	}}
}

// call is a message that is worked on.
type call struct {
	s   *Server
	who authz.Caller
	id  jsontext.Value
	method
	params
}

// handle serves one message.
func (s *Server) handle(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	q, err := httpapi.Params[in](r)
	if err != nil {
		return err
	}
	body, release, err := httpapi.ReadBody(r)
	if err != nil {
		return err
	}
	req, err := decodeRequest(body)
	release()
	if err != nil {
		return err
	}
	m, ok := methods[req.Method]
	if !ok {
		return writeReply(w, req.ID, nil, &rpcError{Code: codeNoMethod, Message: "The method is none of the protocol 1.0, 0.3 and 0.2."})
	}
	if m.writes {
		if err := who.Check(authz.Developer, "agents:write"); err != nil {
			return err
		}
	}
	c := &call{s: s, who: who, id: req.ID, method: m}
	if err := c.decode(req.Params); err != nil {
		return writeReply(w, req.ID, nil, &rpcError{Code: codeInvalidParams, Message: "The parameters cannot be read: " + err.Error()})
	}
	if q.AgentID != "" {
		c.AgentID = q.AgentID
	}
	if m.streams {
		return c.stream(r)
	}
	result, err := c.do(r.Context())
	return writeReply(w, req.ID, result, err)
}

// do works on a message that is answered once.
func (c *call) do(ctx context.Context) (any, error) {
	tasks, tenant := c.s.Tasks, c.who.TenantID
	switch c.op {
	case opSend:
		t, err := c.send(ctx)
		if err != nil {
			return nil, err
		}
		return c.wire.sent(c.clip(t)), nil
	case opGet:
		t, err := tasks.Get(ctx, tenant, c.task())
		if err != nil {
			return nil, err
		}
		return c.wire.task(c.clip(t)), nil
	case opCancel:
		if err := tasks.Cancel(ctx, tenant, c.task()); err != nil {
			if fault.Is(err, fault.Conflict) {
				return nil, &rpcError{Code: codeNotCancelable, Message: fault.From(err).Detail}
			}
			return nil, err
		}
		t, err := tasks.Get(ctx, tenant, c.task())
		if err != nil {
			return nil, err
		}
		return c.wire.task(c.clip(t)), nil
	case opList:
		return c.list(ctx)
	case opCard:
		return c.card(ctx)
	}
	return c.doPush(ctx)
}

// doPush works on a message about where changes of a task are sent.
func (c *call) doPush(ctx context.Context) (any, error) {
	tasks, tenant := c.s.Tasks, c.who.TenantID
	switch c.op {
	case opSetPush:
		cfg, err := tasks.SetPush(ctx, tenant, c.task(), *c.push(c.config()))
		if err != nil {
			return nil, err
		}
		return c.wire.push(c.task(), cfg), nil
	case opGetPush:
		cfg, err := tasks.GetPush(ctx, tenant, c.task(), c.configID())
		if fault.Is(err, fault.NotFound) {
			return nil, &rpcError{Code: codeNoTask, Message: fault.From(err).Detail}
		}
		if err != nil {
			return nil, err
		}
		return c.wire.push(c.task(), cfg), nil
	case opListPush:
		all, err := tasks.ListPushes(ctx, tenant, c.task())
		if err != nil {
			return nil, err
		}
		return c.wire.pushes(c.task(), all), nil
	}
	return nil, tasks.DeletePush(ctx, tenant, c.task(), c.configID())
}

// start has the task of a message done, or answers the question of one.
func (c *call) start(ctx context.Context) (*a2a.Task, error) {
	m := c.Message
	if m == nil {
		return nil, &rpcError{Code: codeInvalidParams, Message: "The parameters have no message."}
	}
	req := a2a.Request{
		AgentID: c.agent(), Messages: []a2a.Message{m.plain()}, ContextID: first(m.ContextID, c.SessionID), TaskID: m.TaskID,
		Metadata: c.metadata(), Push: c.push(c.config()),
	}
	if c.op0() && c.ID != "" { // the caller chose the id of a new task, or continues one
		if _, err := c.s.Tasks.Get(ctx, c.who.TenantID, c.ID); err == nil {
			req.TaskID = c.ID
		}
	}
	if req.TaskID == "" && !ident.Valid(req.AgentID) {
		return nil, &rpcError{
			Code: codeInvalidParams, Message: "The message names no agent: send it to the URL of the agent's card.",
		}
	}
	t, err := c.s.Tasks.Do(ctx, c.who, req)
	if req.TaskID == "" && fault.Is(err, fault.NotFound) {
		return nil, &rpcError{Code: codeInvalidParams, Message: fault.From(err).Detail}
	}
	return t, err
}

// send is start, and waits until the task is over or waits for a person, unless the
// message asks for an answer at once.
func (c *call) send(ctx context.Context) (*a2a.Task, error) {
	t, err := c.start(ctx)
	if err != nil || c.immediate() {
		return t, err
	}
	patience := c.s.MaxWait
	if patience == 0 {
		patience = maxWait
	}
	wait, stop := context.WithTimeout(ctx, patience)
	defer stop()
	seq, err := c.since(ctx, t)
	if err != nil {
		return nil, err
	}
	for u, err := range c.s.Tasks.Follow(wait, c.who.TenantID, t.ID, seq) {
		if err != nil {
			return nil, err
		}
		if u.State.Settled() {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.s.Tasks.Get(ctx, c.who.TenantID, t.ID)
}

// since returns the place in the stream of a task after which news are: its beginning for
// a new one, and else where the message was taken.
func (c *call) since(ctx context.Context, t *a2a.Task) (int64, error) {
	if c.Message.TaskID == "" && !c.op0() {
		return 0, nil
	}
	return c.s.Tasks.LastAnswered(ctx, c.who.TenantID, t.ID)
}

// stream answers with the task and its updates, until it is over or waits for a person.
func (c *call) stream(r *http.Request) error {
	t, seq, err := c.follow(r.Context())
	if err != nil {
		if rpc := rpcOf(err); rpc == nil {
			return err
		}
	}
	out, opened := httpapi.OpenStream(r, httpapi.StreamOptions{})
	if opened != nil {
		return opened
	}
	defer out.Close()
	send := func(result any, err error) bool {
		data, failed := json.Marshal(replyOf(c.id, result, err))
		return failed == nil && out.Send(route.Frame{Data: data}) == nil
	}
	if err != nil {
		send(nil, rpcOf(err))
		return nil
	}
	if !send(c.wire.first(c.clip(t)), nil) || t.Status.Settled() && seq == 0 {
		return nil
	}
	for u, err := range c.s.Tasks.Follow(out.Context(), c.who.TenantID, t.ID, seq) {
		switch {
		case errors.Is(err, context.Canceled):
			return nil
		case err != nil:
			out.Failed(err)
			send(nil, &rpcError{Code: codeInternal, Message: "The stream was interrupted; the task goes on. Subscribe to it again."})
			return nil
		case u.Gap: // the last update of the answer has all of it
			continue
		}
		if !send(c.wire.update(t, u), nil) || u.State.Settled() {
			return nil
		}
	}
	return nil
}

// follow starts a task, or finds the one to be followed, and returns the place in its
// stream after which updates are sent.
func (c *call) follow(ctx context.Context) (*a2a.Task, int64, error) {
	if c.op == opSend {
		t, err := c.start(ctx)
		if err != nil {
			return nil, 0, err
		}
		seq, err := c.since(ctx, t)
		return t, seq, err
	}
	t, err := c.s.Tasks.Get(ctx, c.who.TenantID, c.task())
	if err != nil {
		return nil, 0, err
	}
	if t.Status.Final() {
		return nil, 0, &rpcError{Code: codeUnsupported, Message: "The task is over; get it instead."}
	}
	seq, err := c.s.Tasks.LastSeq(ctx, c.who.TenantID, t.ID)
	return t, seq, err
}
