package openai

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/authz"
	"agentd/internal/event"
	"agentd/internal/fault"
	"agentd/internal/ident"
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

	Heartbeat    time.Duration // of silent streams; 0: 15 s
	WriteTimeout time.Duration // for a client to take a chunk; 0: 10 s
}

// Completions answers POST /v1/chat/completions: it starts a run and gives its
// answer, whole or as it comes.
func (c *Chat) Completions(w http.ResponseWriter, r *http.Request, who authz.Caller, body []byte) error {
	ctx := r.Context()
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
		return c.stream(w, r, who, req, made, sub)
	}
	follow := event.Follower{Log: c.Log, Hub: c.Hub}
	for e, err := range follow.FollowNew(ctx, who.TenantID, sub) {
		if err != nil {
			return err
		}
		if run.FinalEvent(e.Name) {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return err // the client is gone; the run goes on
	}
	ended, err := c.Runs.Get(ctx, who.TenantID, made.RunID)
	if err != nil {
		return err
	}
	answer, err := NewCompletion(ended, req.Model)
	if err != nil {
		return err
	}
	return writeJSON(w, answer)
}

func noModel(name string) error {
	return fault.New(fault.NotFound, "model_not_found", "There is no agent %q in this company; a model is an agent's id, or agent/ and the id.", name)
}

// stream answers with chunks as the run makes them.
func (c *Chat) stream(w http.ResponseWriter, r *http.Request, who authz.Caller, req *ChatRequest, made *run.Run, sub *event.Subscription) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := newSSE(w, c.WriteTimeout)
	out.heartbeat(c.Heartbeat)
	defer out.close()
	chunks := newChunker(made.RunID, req.Model, made.CreatedAt)
	out.write(chunks.role())
	follow := event.Follower{Log: c.Log, Hub: c.Hub, Idle: func() {
		if out.flush() != nil {
			cancel()
		}
	}}
	final := false
	for e, err := range follow.FollowNew(ctx, who.TenantID, sub) {
		if err != nil {
			return nil // too slow: the connection ends without [DONE], and says so by that
		}
		switch e.Name {
		case "llm.chunk":
			out.write(chunks.delta("content", textOf(e.Data)))
		case "llm.thinking":
			out.write(chunks.delta("reasoning_content", textOf(e.Data)))
		}
		if final = run.FinalEvent(e.Name); final {
			break
		}
	}
	if !final {
		c.left(r.Context(), who, made)
		return nil
	}
	return c.end(ctx, out, who, req, made, chunks)
}

// end writes what follows the last piece of text.
func (c *Chat) end(ctx context.Context, out *sse, who authz.Caller, req *ChatRequest, made *run.Run, chunks *chunker) error {
	ended, err := c.Runs.Get(ctx, who.TenantID, made.RunID)
	if err != nil {
		return nil // headers are out; the missing [DONE] tells
	}
	output, finish, failure, err := outcome(ended)
	if err != nil {
		return nil
	}
	if len(output.ToolCalls) > 0 {
		b, err := chunks.calls(toolCalls(output.ToolCalls))
		if err != nil {
			return nil
		}
		out.write(b)
	}
	b, err := chunks.end(finish, failure)
	if err != nil {
		return nil
	}
	out.write(b)
	if req.IncludeUsage() {
		if b, err = chunks.usage(usage(ended.Metrics)); err != nil {
			return nil
		}
		out.write(b)
	}
	out.write([]byte("data: [DONE]\n\n"))
	_ = out.flush() // a client that left has had its answer
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

func writeJSON(w http.ResponseWriter, v any) error {
	b, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(b) // a client that left is seen by the server
	return nil
}
