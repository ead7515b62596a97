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

// responseParams names a response that is there.
type responseParams struct {
	ID string `path:"responseId" format:"any"`
}

// readParams are those of a response that is read back.
type readParams struct {
	ID     string `path:"responseId" format:"any"`
	Stream bool   `query:"stream" doc:"The answer is the response's event stream."`
	After  *int64 `query:"starting_after" minimum:"0" doc:"Of the stream: only what follows the event with this sequence_number."`
}

// Read answers GET /v1/responses/{responseId}.
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
	_, err = s.relay(r, who, a, after, s.Chat.recall(who.TenantID, a.made.RunID))
	return err
}

// Cancel answers POST /v1/responses/{responseId}/cancel.
func (s *Responses) Cancel(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	in, err := httpapi.Params[responseParams](r)
	if err != nil {
		return err
	}
	a, got, err := s.stored(r.Context(), who.TenantID, in.ID)
	if err != nil {
		return err
	}
	if !a.made.Status.Final() {
		if _, err := s.Chat.Runs.Cancel(r.Context(), who.TenantID, a.made.RunID); err != nil {
			return err
		}
		if a, got, err = s.stored(r.Context(), who.TenantID, in.ID); err != nil {
			return err
		}
	}
	return answerStored(w, a, got)
}

// stored looks a response up, with what its answers repeat of its request.
func (s *Responses) stored(ctx context.Context, tenant, id string) (*createdResponse, *responsechain.Response, error) {
	got, err := s.get(ctx, tenant, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil, fault.New(fault.NotFound, "", "There is no response %q in this company; a response's id is that of its run.", id)
	}
	if err != nil {
		return nil, nil, err
	}
	made := &got.Run.Run
	a := &createdResponse{made: made, echo: echo{previous: got.Previous, tools: got.Run.Options.Tools, metadata: clientMetadata(made)}}
	return a, got, json.Unmarshal(got.Asked, &a.echo.echoedParams)
}

func (s *Responses) get(ctx context.Context, tenant, id string) (*responsechain.Response, error) {
	if !ident.Valid(id) {
		return nil, fault.NoSuch("response")
	}
	return s.Chains.Get(ctx, tenant, id)
}

// answerStored answers with a response as it is now.
func answerStored(w http.ResponseWriter, a *createdResponse, got *responsechain.Response) error {
	if !a.made.Status.Final() {
		return httpapi.JSON(w, http.StatusOK, inProgress(a.made, &a.echo))
	}
	out, err := outputOf(a.made)
	if err != nil {
		return err
	}
	answer := newResponse(a.made, &a.echo)
	answer.setResult(a.made, &out)
	if answer.Output, err = itemsOf(a.made, got.Steps, &out); err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, answer)
}

// inProgress is a response that has not ended: its text is empty.
func inProgress(r *run.Run, e *echo) *Response {
	answer := newResponse(r, e)
	answer.Output = []OutputItem{messageItem(messagePrefix+r.RunID, stateInProgress, "")}
	return answer
}
