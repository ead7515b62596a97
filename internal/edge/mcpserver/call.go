package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// Source is the metadata.source of runs that a tool call started.
const Source = "mcp"

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

// callTool runs an agent and answers when the run has ended or waits for a
// person. A client that accepts event streams gets one, with the progress that
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
		return writeReply(w, req.ID, textResult("The argument message is required: what to ask the agent.", true), nil)
	}
	start, err := runRequest(agent.ID, in.Arguments.Message)
	if err != nil {
		return err
	}
	stream, err := s.Runner.Start(r.Context(), who, start)
	if err != nil {
		if e := fault.From(err); e.Kind == fault.Conflict || e.Kind == fault.Limited || e.Kind == fault.Forbidden {
			return writeReply(w, req.ID, textResult(e.Detail, true), nil)
		}
		return err
	}
	defer stream.Close()
	w.Header().Set("X-Run-Id", stream.Run.RunID)
	c := &toolCall{run: stream, id: req.ID, progressToken: in.Meta.ProgressToken}
	if strings.Contains(strings.ToLower(r.Header.Get("Accept")), "text/event-stream") {
		return c.stream(r)
	}
	result, err := c.wait(r.Context(), func(int) {})
	if err != nil {
		return err
	}
	return writeReply(w, req.ID, result, nil)
}

// findTool reads the parameters of a call and returns its agent. Errors:
// *rpcError for invalid parameters.
func (s *Server) findTool(
	ctx context.Context, who authz.Caller, scope agentScope, params jsontext.Value,
) (in callParams, agent Agent, err error) {
	if json.Unmarshal(orEmpty(params), &in) != nil {
		return in, agent, &rpcError{
			Code: codeInvalidParams, Message: "The parameters of tools/call cannot be read: name and arguments.message are strings.",
		}
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
	return in, agent, &rpcError{
		Code: codeInvalidParams, Message: fmt.Sprintf("No tool %.100q exists; tools/list returns those that do.", in.Name),
	}
}

func runRequest(agentID, message string) (run.Request, error) {
	parsed := run.Input{Message: message}
	input, err := json.Marshal(parsed)
	return run.Request{
		RunID: ident.New(), AgentID: agentID, Input: input, Parsed: &parsed, Metadata: schema.Object(`{"source":"` + Source + `"}`),
	}, err
}

// toolCall is a call in progress.
type toolCall struct {
	run           *runstream.Stream
	id            jsontext.Value
	progressToken jsontext.Value
}

// waitingEvents are the events of a run that goes on only when a person acts,
// with what it waits for.
var waitingEvents = map[string]string{
	run.Paused.EventName():           "waits for an answer or to be resumed",
	run.AwaitingApproval.EventName(): "waits for a tool call to be approved",
	run.AuthRequired.EventName():     "waits for an MCP server to be authorized",
}

// wait returns the call's result when the run has ended, waits for a person, or
// waits for its model for longer than any request does.
// It calls progress with the number of each step that completed.
func (c *toolCall) wait(ctx context.Context, progress func(step int)) (*callResult, error) {
	follow, stop := context.WithCancel(ctx)
	defer stop()
	steps, waits := 0, ""
	ended, err := c.run.Wait(follow, func(e event.Event) {
		switch {
		case waits != "":
		case waitingEvents[e.Name] != "":
			waits = e.Name
			stop()
		case e.Name == "step.completed":
			steps++
			progress(steps)
		}
	})
	id := c.run.Run.RunID
	switch f, ok := errors.AsType[*fault.Error](err); {
	case err == nil:
		return c.result(ended)
	case waits != "":
		text := fmt.Sprintf("The run %s %s. It goes on after that, and GET /api/v1/runs/%s has its answer.", id, waitingEvents[waits], id)
		return c.withMeta(textResult(text, true), strings.TrimPrefix(waits, "run.")), nil
	case ok && f.Code == runstream.CodeModelUnavailable:
		text := fmt.Sprintf("The run %s waits for its model, which is down or overloaded. "+
			"It goes on after that, and GET /api/v1/runs/%s has its answer.", id, id)
		return c.withMeta(textResult(text, true), string(run.Running)), nil
	}
	return nil, err // also if the client is gone; the run goes on
}

// withMeta adds the run's id and status to a result.
func (c *toolCall) withMeta(r *callResult, status string) *callResult {
	r.Meta = map[string]any{"run_id": c.run.Run.RunID, "status": status}
	return r
}

// result returns the result of a run that has ended: its text, or why it failed.
func (c *toolCall) result(ended *run.Run) (*callResult, error) {
	var out run.Output
	if len(ended.Output) > 0 {
		if err := json.Unmarshal(ended.Output, &out); err != nil {
			return nil, err
		}
	}
	status := string(ended.Status)
	if ended.Status == run.Completed {
		return c.withMeta(textResult(out.Text, false), status), nil
	}
	text := "The run ended as " + status + "."
	if ended.Error != nil {
		text = *ended.Error
	}
	return c.withMeta(textResult(text, true), status), nil
}

// stream answers with an event stream: proxies close a response that is silent
// for as long as a run may take.
func (c *toolCall) stream(r *http.Request) error {
	out, err := httpapi.OpenStream(r, httpapi.StreamOptions{})
	if err != nil {
		return err
	}
	defer out.Close()
	send := func(message any) {
		if data, err := json.Marshal(message); err == nil {
			_ = out.Send(route.Frame{Name: "message", Data: data}) // a failure ends the stream's context
		}
	}
	result, err := c.wait(out.Context(), func(step int) {
		if len(c.progressToken) > 0 {
			send(notification{version2, "notifications/progress", map[string]any{"progressToken": c.progressToken, "progress": step}})
		}
	})
	if out.ReaderGone() {
		c.run.ClientGone(r.Context())
		return nil
	}
	if err != nil {
		out.Failed(err)
		send(errorResponse(c.id, &rpcError{Code: codeInternal, Message: runstream.Broken(err, "its id is "+c.run.Run.RunID).Detail}))
		return nil
	}
	res, err := resultResponse(c.id, result)
	if err != nil {
		return err
	}
	send(res)
	return nil
}
