package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// Source is what runs that were started by a tool call say of where they came
// from, in metadata.source.
const Source = "mcp"

type toolInfo struct {
	Name        string         `json:"name"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"inputSchema"`
}

var inputSchema = jsontext.Value(`{"type":"object","properties":{"message":{"type":"string","minLength":1,"description":"What the agent is asked."}},"required":["message"]}`)

// agentTool is an agent under the name of its tool.
type agentTool struct {
	Agent
	tool string
}

// namedAgents names the agents. Agents of one name get the ends of their ids behind
// it, so that no name depends on the order.
func (s *Server) namedAgents(ctx context.Context, tenant string, scope agentScope) ([]agentTool, error) {
	if scope.one != nil {
		return []agentTool{{*scope.one, mcp.ToolName(scope.one.Name)}}, nil
	}
	all, err := s.Agents.List(ctx, tenant)
	if err != nil {
		return nil, err
	}
	wanted := map[string]int{}
	for _, g := range all {
		wanted[mcp.ToolName(g.Name)]++
	}
	list := make([]agentTool, 0, len(all))
	for _, g := range all {
		name := mcp.ToolName(g.Name)
		if wanted[name] > 1 {
			suffix := "_" + g.ID[len(g.ID)-8:]
			name = name[:min(len(name), 64-len(suffix))] + suffix
		}
		list = append(list, agentTool{g, name})
	}
	return list, nil
}

func (s *Server) listTools(ctx context.Context, who authz.Caller, scope agentScope) (any, error) {
	all, err := s.namedAgents(ctx, who.TenantID, scope)
	if err != nil {
		return nil, err
	}
	list := struct {
		Tools []toolInfo `json:"tools"`
	}{make([]toolInfo, 0, len(all))}
	for _, g := range all {
		description := g.Description
		if description == "" {
			description = "The agent " + g.Name + "."
		}
		list.Tools = append(list.Tools, toolInfo{g.tool, g.Name, description, inputSchema})
	}
	return list, nil
}

type callParams struct {
	Name      string `json:"name"`
	Arguments struct {
		Message string `json:"message"`
	} `json:"arguments"`
	Meta struct {
		ProgressToken jsontext.Value `json:"progressToken"`
	} `json:"_meta"`
}

type callResult struct {
	Content []content      `json:"content"`
	IsError bool           `json:"isError"`
	Meta    map[string]any `json:"_meta,omitempty"`
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func textResult(text string, failed bool) *callResult {
	return &callResult{Content: []content{{"text", text}}, IsError: failed}
}

// callTool runs an agent and answers when the run has ended, or waits for a
// person. A client that takes event streams gets one, with the progress that
// it asks for.
func (s *Server) callTool(w http.ResponseWriter, r *http.Request, who authz.Caller, scope agentScope, req *request) error {
	if err := who.Check(authz.Developer, "runs:create"); err != nil {
		return err
	}
	in, agent, err := s.findTool(r.Context(), who, scope, req.Params)
	if err != nil {
		return writeReply(w, req.ID, nil, err)
	}
	if strings.TrimSpace(in.Arguments.Message) == "" {
		return writeReply(w, req.ID, textResult("The argument message is required: what the agent is asked.", true), nil)
	}
	start, err := runRequest(agent.ID, in.Arguments.Message)
	if err != nil {
		return err
	}
	sub := s.Hub.Subscribe(start.RunID)
	made, err := s.Runs.Create(r.Context(), who, start)
	if err != nil {
		sub.Close()
		if e := fault.From(err); e.Kind == fault.Conflict || e.Kind == fault.Limited || e.Kind == fault.Forbidden {
			return writeReply(w, req.ID, textResult(e.Detail, true), nil)
		}
		return err
	}
	w.Header().Set("X-Run-Id", made.RunID)
	c := &toolCall{s: s, who: who, agent: agent, made: made, sub: sub, id: req.ID, token: in.Meta.ProgressToken}
	if strings.Contains(strings.ToLower(r.Header.Get("Accept")), "text/event-stream") {
		return c.stream(r)
	}
	result, err := c.follow(r.Context(), func(int) {})
	if err != nil {
		return err
	}
	return writeReply(w, req.ID, result, nil)
}

// findTool reads the parameters of a call and finds its agent. Errors: *rpcError
// for what is wrong with them.
func (s *Server) findTool(ctx context.Context, who authz.Caller, scope agentScope, params jsontext.Value) (in callParams, agent Agent, err error) {
	if json.Unmarshal(orEmpty(params), &in) != nil {
		return in, agent, &rpcError{Code: codeInvalidParams, Message: "The parameters of tools/call cannot be read: name and arguments.message are strings."}
	}
	all, err := s.namedAgents(ctx, who.TenantID, scope)
	if err != nil {
		return in, agent, err
	}
	for _, g := range all {
		if g.tool == in.Name || g.ID == in.Name {
			return in, g.Agent, nil
		}
	}
	return in, agent, &rpcError{Code: codeInvalidParams, Message: fmt.Sprintf("There is no tool %.100q; tools/list tells which there are.", in.Name)}
}

func runRequest(agentID, message string) (run.Request, error) {
	parsed := run.Input{Message: message}
	input, err := json.Marshal(parsed)
	return run.Request{
		RunID: ident.New(), AgentID: agentID, Input: input, Parsed: &parsed, Metadata: schema.Object(`{"source":"` + Source + `"}`),
	}, err
}

// toolCall is a call that is under way.
type toolCall struct {
	s     *Server
	who   authz.Caller
	agent Agent
	made  *run.Run
	sub   *event.Subscription
	id    jsontext.Value
	token jsontext.Value
}

var errUnfinished = errors.New("mcpserver: the run's events ended before the run")

// waitingEvents are the events of a run that goes on only when somebody does
// something, with what that is.
var waitingEvents = map[string]string{
	run.Paused.EventName():           "waits for an answer or to be resumed",
	run.AwaitingApproval.EventName(): "waits for a tool call to be approved",
	run.AuthRequired.EventName():     "waits for an MCP server to be authorized",
}

// follow gives the call's result once there is one.
func (c *toolCall) follow(ctx context.Context, progress func(step int)) (*callResult, error) {
	steps := 0
	follower := event.Follower{Log: c.s.Log, Hub: c.s.Hub}
	for e, err := range follower.FollowNew(ctx, c.who.TenantID, c.sub) {
		if err != nil {
			return nil, err
		}
		if why := waitingEvents[e.Name]; why != "" {
			return c.meta(textResult(fmt.Sprintf("The run %s %s. It goes on after that, and GET /api/v1/runs/%s has its answer.", c.made.RunID, why, c.made.RunID), true), strings.TrimPrefix(e.Name, "run.")), nil
		}
		if e.Name == "step.completed" {
			steps++
			progress(steps)
		}
		if run.FinalEvent(e.Name) {
			return c.ended(ctx, e)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err // the client is gone; the run goes on
	}
	return nil, errUnfinished
}

func (c *toolCall) meta(r *callResult, status string) *callResult {
	r.Meta = map[string]any{"run_id": c.made.RunID, "status": status}
	return r
}

func (c *toolCall) ended(ctx context.Context, final event.Event) (*callResult, error) {
	r, ok := final.Result.(*run.Run)
	if !ok {
		var err error
		if r, err = c.s.Runs.Get(ctx, c.who.TenantID, c.made.RunID); err != nil {
			return nil, err
		}
	}
	var out run.Output
	if len(r.Output) > 0 {
		if err := json.Unmarshal(r.Output, &out); err != nil {
			return nil, err
		}
	}
	if r.Status == run.Completed {
		return c.meta(textResult(out.Text, false), string(r.Status)), nil
	}
	text := "The run ended as " + string(r.Status) + "."
	if r.Error != nil {
		text = *r.Error
	}
	return c.meta(textResult(text, true), string(r.Status)), nil
}

// stream answers with an event stream, which survives runs that are longer
// than what proxies wait for a silent answer.
func (c *toolCall) stream(r *http.Request) error {
	out, err := httpapi.OpenStream(r, httpapi.StreamOptions{})
	if err != nil {
		c.sub.Close()
		return err
	}
	defer out.Close()
	send := func(message any) {
		if data, err := json.Marshal(message); err == nil {
			_ = out.Send(route.Frame{Name: "message", Data: data}) // a reader that is gone ends the context
		}
	}
	result, err := c.follow(out.Context(), func(step int) {
		if len(c.token) > 0 {
			send(notification{version2, "notifications/progress", map[string]any{"progressToken": c.token, "progress": step}})
		}
	})
	if out.ReaderGone() {
		c.left(context.WithoutCancel(r.Context()))
		return nil
	}
	if err != nil {
		out.Failed(err)
		send(errorResponse(c.id, &rpcError{Code: codeInternal, Message: "The answer broke off on our side; the run " + c.made.RunID + " goes on."}))
		return nil
	}
	res, err := resultResponse(c.id, result)
	if err != nil {
		return err
	}
	send(res)
	return nil
}

// left handles a client that went away: its run goes on, unless the agent's
// policy says otherwise (decisions.md D10).
func (c *toolCall) left(ctx context.Context) {
	if c.s.Agents.CancelOnDisconnect(ctx, c.who.TenantID, c.agent.ID) {
		_, _ = c.s.Runs.Cancel(ctx, c.who.TenantID, c.made.RunID) // it may have ended meanwhile
	}
}
