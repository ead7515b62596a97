package openai

import (
	"context"
	"net/http"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
)

// Models lists the agents and teams of a tenant as models.
type Models interface {
	// Models returns every agent of a tenant, suspended ones included, and every team.
	Models(ctx context.Context, tenant string) ([]ModelEntry, error)
	// Model returns one of them, a team by its name as a model. Errors: fault.NotFound.
	Model(ctx context.Context, tenant, id string) (ModelEntry, error)
}

// Chat serves chat completions and the list of models.
type Chat struct {
	Runner *runstream.Runner
	Models Models
}

// Completions serves POST /v1/chat/completions: it starts a run and answers with
// its result, in one piece or as a stream.
func (c *Chat) Completions(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	req, start, err := c.read(r, who)
	if err != nil {
		return err
	}
	s, err := c.Runner.StartOnce(w, r, who, start)
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			return runstream.NoAgent(req.Model)
		}
		return err
	}
	defer s.Close()
	if req.Streams() {
		return c.stream(r, req, s)
	}
	return c.whole(w, r, req, s)
}

// read reads a request and converts it to a run's.
func (c *Chat) read(r *http.Request, who authz.Caller) (*ChatRequest, run.Request, error) {
	req, err := httpapi.DecodeBody[ChatRequest](r)
	if err != nil {
		return nil, run.Request{}, err
	}
	start, err := req.RunRequest()
	if err != nil {
		return nil, start, err
	}
	start.RunID = ident.New()
	start.AgentID, err = c.Runner.AgentID(r.Context(), who.TenantID, req.Model)
	return req, start, err
}

// whole answers with one completion when the run has ended.
func (c *Chat) whole(w http.ResponseWriter, r *http.Request, req *ChatRequest, s *runstream.Stream) error {
	ended, err := s.Wait(r.Context(), nil)
	if err != nil {
		return err
	}
	if f := mismatch(ended); f != nil {
		return f
	}
	completion, err := NewCompletion(ended, req.Model)
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, completion)
}
