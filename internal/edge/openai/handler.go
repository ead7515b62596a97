package openai

import (
	"context"
	"iter"
	"net/http"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// Runs is what the chat routes need of runs; *run.Service.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	Cancel(ctx context.Context, tenant, id string) (run.CancelAnswer, error)
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
	said := c.listen(who.TenantID, start.RunID)
	defer said.close()
	made, err := c.Runs.Create(r.Context(), who, start)
	if err != nil {
		if made, err = c.doneBefore(w, r, who, err); err != nil {
			if fault.Is(err, fault.NotFound) {
				return modelNotFound(req.Model)
			}
			return err
		}
		said = c.recall(who.TenantID, made.RunID)
	}
	w.Header().Set("X-Run-Id", made.RunID)
	if req.Streams() {
		return c.stream(r, who, req, made, said)
	}
	return c.whole(w, r, who, req, made, said)
}

// doneBefore gives the run that an earlier request with the same
// Idempotency-Key made, where this one failed to make one.
func (c *Chat) doneBefore(w http.ResponseWriter, r *http.Request, who authz.Caller, failed error) (*run.Run, error) {
	id, err := httpapi.EarlierResult(w, r, failed)
	if err != nil {
		return nil, err
	}
	return c.Runs.Get(r.Context(), who.TenantID, string(id))
}

// place is where the answer of a request is that made a run.
func place(r *run.Run) any { return httpapi.ResultRef(r.RunID) }

// voice is what a run says. A hole in an answer is a wrong answer: what its
// reader was too slow for is read from the log.
type voice struct {
	event.Follower

	tenant, run string
	sub         *event.Subscription // of a run that is not there yet; nil: it is
}

// listen begins to listen to a run that is about to be made.
func (c *Chat) listen(tenant, run string) *voice {
	return &voice{event.Follower{Log: c.Log, Hub: c.Hub, Whole: true}, tenant, run, c.Hub.Subscribe(run)}
}

// recall listens to a run that is there, from its beginning.
func (c *Chat) recall(tenant, run string) *voice {
	return &voice{event.Follower{Log: c.Log, Hub: c.Hub, Whole: true}, tenant, run, nil}
}

// events gives what the run says, until it ends or ctx does.
func (v *voice) events(ctx context.Context) iter.Seq2[event.Event, error] {
	if v.sub == nil {
		return v.Follow(ctx, v.tenant, v.run, 0)
	}
	return v.FollowNew(ctx, v.tenant, v.sub)
}

func (v *voice) close() {
	if v.sub != nil {
		v.sub.Close()
	}
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
		return nil, start, modelNotFound(req.Model)
	}
	start.RunID, start.Answer = ident.New(), place
	return req, start, nil
}

// whole answers with one completion when the run has ended.
func (c *Chat) whole(w http.ResponseWriter, r *http.Request, who authz.Caller, req *ChatRequest, made *run.Run, said *voice) error {
	ctx := r.Context()
	var last event.Event
	for e, err := range said.events(ctx) {
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
