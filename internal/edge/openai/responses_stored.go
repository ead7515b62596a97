package openai

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/responsechain"
	"agentd/internal/execution/run"
)

// responseParams are the path parameters of a response.
type responseParams struct {
	ID string `path:"responseId" format:"any"`
}

// readParams are the parameters of reading a response.
type readParams struct {
	ID     string `path:"responseId" format:"any"`
	Stream bool   `query:"stream" doc:"Answer with the response's event stream."`
	After  *int64 `query:"starting_after" minimum:"0" doc:"With stream: only the events after this sequence_number."`
}

// Read serves GET /v1/responses/{responseId}.
func (s *Responses) Read(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	in, err := httpapi.Params[readParams](r)
	if err != nil {
		return err
	}
	a, got, err := s.stored(r.Context(), who.TenantID, in.ID)
	if err != nil {
		return err
	}
	if !in.Stream {
		return answerStored(w, a, got)
	}
	after := int64(-1)
	if in.After != nil {
		after = *in.After
	}
	_, err = s.relay(r, a, after)
	return err
}

// Cancel serves POST /v1/responses/{responseId}/cancel.
func (s *Responses) Cancel(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	in, err := httpapi.Params[responseParams](r)
	if err != nil {
		return err
	}
	a, got, err := s.stored(r.Context(), who.TenantID, in.ID)
	if err != nil {
		return err
	}
	if !a.stream.Run.Status.Final() {
		if _, err := s.Runner.Runs.Cancel(r.Context(), who.TenantID, a.stream.Run.RunID); err != nil {
			return err
		}
		if a, got, err = s.stored(r.Context(), who.TenantID, in.ID); err != nil {
			return err
		}
	}
	return answerStored(w, a, got)
}

// stored returns a stored response, with what it repeats of its request.
func (s *Responses) stored(ctx context.Context, tenant, id string) (*createdResponse, *responsechain.Response, error) {
	got, err := s.get(ctx, tenant, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil, fault.New(fault.NotFound, "",
			"No response %q exists in this company; a response's id is the id of its run.", id)
	}
	if err != nil {
		return nil, nil, err
	}
	stored := &got.Run.Run
	a := &createdResponse{
		stream: s.Runner.Replay(tenant, stored),
	}
	a.echo, err = echoOf(got)
	return a, got, err
}

// echoOf returns what a stored response repeats of its request.
func echoOf(r *responsechain.Response) (echo, error) {
	e := echo{
		previous: r.Previous, tools: r.Run.Options.Tools, stores: r.Run.Options.KnowledgeBases, metadata: clientMetadata(&r.Run.Run),
	}
	return e, json.Unmarshal(r.Asked, &e.echoedParams)
}

func (s *Responses) get(ctx context.Context, tenant, id string) (*responsechain.Response, error) {
	if !ident.Valid(id) {
		return nil, fault.NewNotFound("response")
	}
	return s.Chains.Get(ctx, tenant, id)
}

// answerStored answers with a response in its current state.
func answerStored(w http.ResponseWriter, a *createdResponse, got *responsechain.Response) error {
	if !a.stream.Run.Status.Final() {
		return httpapi.JSON(w, http.StatusOK, inProgress(a.stream.Run, &a.echo))
	}
	out, err := outputOf(a.stream.Run)
	if err != nil {
		return err
	}
	response := newResponse(a.stream.Run, &a.echo)
	response.setResult(a.stream.Run, &out)
	if response.Output, err = itemsOf(a.stream.Run, got.Steps, &out, &a.echo); err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, response)
}

// inProgress returns a response that has not ended: its text is empty.
func inProgress(r *run.Run, e *echo) *Response {
	response := newResponse(r, e)
	response.Output = []OutputItem{messageItem(messagePrefix+r.RunID, stateInProgress, "")}
	return response
}
