package openai

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/authz"
	"agentd/internal/event"
	"agentd/internal/fault"
	"agentd/internal/httpapi"
	"agentd/internal/ident"
	"agentd/internal/route"
	"agentd/internal/run"
	"agentd/internal/schema"
)

// Runs is what the chat routes need of runs; *run.Service.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	Cancel(ctx context.Context, tenant, id string) (run.Cancelling, error)
}

// Models lists what can be named as a model.
type Models interface {
	// Models gives every agent of a tenant, suspended ones included.
	Models(ctx context.Context, tenant string) ([]ModelEntry, error)
}

// Chat serves the chat-completions shape.
type Chat struct {
	Runs   Runs
	Agents run.Agents
	Models Models
	Log    event.Log
	Hub    *event.Hub
}

// Completions answers POST /v1/chat/completions: it starts a run and gives its
// answer, whole or as it comes.
func (c *Chat) Completions(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	ctx := r.Context()
	body, release, err := httpapi.ReadBody(r)
	if err != nil {
		return err
	}
	defer release()
	req, err := schema.Decode[ChatRequest](body)
	if err != nil {
		return err
	}
	start, err := req.RunRequest()
	if err != nil {
		return err
	}
	if !ident.Valid(start.AgentID) {
		return noModel(req.Model)
	}
	start.RunID = ident.New()
	sub := c.Hub.Subscribe(start.RunID)
	made, err := c.Runs.Create(ctx, who, start)
	if err != nil {
		sub.Close()
		if fault.Is(err, fault.NotFound) {
			return noModel(req.Model)
		}
		return err
	}
	w.Header().Set("X-Run-Id", made.RunID)
	if req.Streams() {
		return c.stream(r, who, req, made, sub)
	}
	follow := event.Follower{Log: c.Log, Hub: c.Hub}
	var last event.Event
	for e, err := range follow.FollowNew(ctx, who.TenantID, sub) {
		if err != nil {
			return err
		}
		if last = e; run.FinalEvent(e.Name) {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return err // the client is gone; the run goes on
	}
	ended, err := c.ended(ctx, who, made, last)
	if err != nil {
		return err
	}
	answer, err := NewCompletion(ended, req.Model)
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, answer)
}

// ended gives the run as its final event left it.
func (c *Chat) ended(ctx context.Context, who authz.Caller, made *run.Run, final event.Event) (*run.Run, error) {
	if r, ok := final.Result.(*run.Run); ok {
		return r, nil
	}
	return c.Runs.Get(ctx, who.TenantID, made.RunID)
}

func noModel(name string) error {
	return fault.New(fault.NotFound, "model_not_found", "There is no agent %q in this company; a model is an agent's id, or agent/ and the id.", name)
}

// stream answers with chunks as the run makes them.
func (c *Chat) stream(r *http.Request, who authz.Caller, req *ChatRequest, made *run.Run, sub *event.Subscription) error {
	out, err := httpapi.OpenStream(r, httpapi.StreamOptions{})
	if err != nil {
		sub.Close()
		return err
	}
	defer out.Close()
	chunks := newChunker(made.RunID, req.Model, made.CreatedAt)
	send := func(data []byte) bool { return out.Send(route.Frame{Data: data}) == nil }
	if !send(chunks.role()) {
		sub.Close()
		c.left(r.Context(), who, made)
		return nil
	}
	follow := event.Follower{Log: c.Log, Hub: c.Hub}
	for e, err := range follow.FollowNew(out.Context(), who.TenantID, sub) {
		if err != nil {
			return nil // the stream ends without [DONE], and says so by that
		}
		switch e.Name {
		case "llm.chunk":
			send(chunks.delta("content", textOf(e.Data)))
		case "llm.thinking":
			send(chunks.delta("reasoning_content", textOf(e.Data)))
		}
		if run.FinalEvent(e.Name) {
			ended, err := c.ended(r.Context(), who, made, e)
			if err != nil {
				return err
			}
			return end(send, req, ended, chunks)
		}
	}
	c.left(r.Context(), who, made)
	return nil
}

// end sends what follows the last piece of text. Headers are out: where it
// fails, the missing [DONE] tells.
func end(send func([]byte) bool, req *ChatRequest, ended *run.Run, chunks *chunker) error {
	output, finish, failure, err := outcome(ended)
	if err != nil {
		return err
	}
	if len(output.ToolCalls) > 0 {
		b, err := chunks.calls(toolCalls(output.ToolCalls))
		if err != nil {
			return err
		}
		send(b)
	}
	b, err := chunks.end(finish, failure)
	if err != nil {
		return err
	}
	send(b)
	if req.IncludeUsage() {
		if b, err = chunks.usage(usage(ended.Metrics)); err != nil {
			return err
		}
		send(b)
	}
	send([]byte("[DONE]"))
	return nil
}

// left handles a client that went away: the run goes on, unless the agent's
// policy says otherwise.
func (c *Chat) left(ctx context.Context, who authz.Caller, made *run.Run) {
	ctx = context.WithoutCancel(ctx)
	spec, err := c.Agents.Spec(ctx, who.TenantID, made.AgentID, made.AgentVersion)
	if err == nil && spec.CancelOnDisconnect {
		_, _ = c.Runs.Cancel(ctx, who.TenantID, made.RunID) // it may have ended meanwhile
	}
}

// textOf takes the quoted text out of {"text":"…"} as it stands.
func textOf(data jsontext.Value) []byte {
	const prefix = `{"text":`
	if s := string(data); strings.HasPrefix(s, prefix) && strings.HasSuffix(s, `"}`) {
		return data[len(prefix) : len(data)-1]
	}
	var v struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(data, &v)
	return quote(v.Text)
}
