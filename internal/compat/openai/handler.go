package openai

import (
	"context"
	"net/http"

	"agentd/internal/authz"
	"agentd/internal/event"
	"agentd/internal/fault"
	"agentd/internal/httpapi"
	"agentd/internal/ident"
	"agentd/internal/run"
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
	// Model gives one of them. Errors: fault.NotFound.
	Model(ctx context.Context, tenant, id string) (ModelEntry, error)
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
	req, start, err := readChat(r)
	if err != nil {
		return err
	}
	sub := c.Hub.Subscribe(start.RunID)
	made, err := c.Runs.Create(r.Context(), who, start)
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
	return c.whole(w, r, who, req, made, sub)
}

// readChat reads a request and makes a run of it.
func readChat(r *http.Request) (*ChatRequest, run.Request, error) {
	req, err := httpapi.DecodeBody[ChatRequest](r)
	if err != nil {
		return nil, run.Request{}, err
	}
	start, err := req.RunRequest()
	if err != nil {
		return nil, start, err
	}
	if !ident.Valid(start.AgentID) {
		return nil, start, noModel(req.Model)
	}
	start.RunID = ident.New()
	return req, start, nil
}

// whole answers with one completion when the run has ended.
func (c *Chat) whole(w http.ResponseWriter, r *http.Request, who authz.Caller, req *ChatRequest, made *run.Run, sub *event.Subscription) error {
	ctx := r.Context()
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
