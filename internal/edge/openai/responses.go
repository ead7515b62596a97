package openai

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/ptr"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/runstream"
	"agentd/internal/execution/responsechain"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// Chains stores which runs are responses and what they follow;
// *responsechain.Service.
type Chains interface {
	// Get returns a response. Errors: fault.NotFound, also for a run that is not
	// a response.
	Get(ctx context.Context, tenant, id string) (*responsechain.Response, error)
	// All returns the responses that exist among some ids.
	All(ctx context.Context, tenant string, ids []string) ([]responsechain.Response, error)
	// Make returns the admission that records a run as a response.
	Make(l responsechain.Link) run.Admission
	// Delete deletes a response, whose run stays. Errors: fault.NotFound.
	Delete(ctx context.Context, who authz.Caller, id string) error
}

// Responses serves OpenAI's Responses API.
type Responses struct {
	Runner *runstream.Runner
	Chains Chains
	Stores Stores
}

// Stores is the port to the vector stores that file_search searches.
type Stores interface {
	// Exists returns fault.NotFound where the tenant has no such vector store.
	Exists(ctx context.Context, tenant, id string) error
}

// Routes returns the routes of the Responses API.
func (s *Responses) Routes() []httpapi.Raw {
	return openAIRoutes([]httpapi.Raw{
		{
			Row: route.Row{
				Method: "POST", Path: "/v1/responses", ID: "createResponse", Tag: "OpenAI-Compat",
				Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Repeats: true, Errors: []int{404, 409, 422, 503},
				Summary: "Create a response",
				Doc: "Starts a run of the agent or the team named by model; the response has the run's id. " +
					"previous_response_id continues a response: it and all before it are the history. With stream true the answer is an event stream.",
				BodyOf:   reflect.TypeFor[ResponseRequest](),
				AnswerOf: reflect.TypeFor[Response](),
			},
			MayStream: true, ReplayByRef: true, Serve: s.Create,
		},
		{
			Row: route.Row{
				Method: "GET", Path: "/v1/responses/{responseId}", ID: "getResponse", Tag: "OpenAI-Compat",
				Scopes: []authz.Scope{"runs:read"}, Errors: []int{404, 422},
				Summary:  "Get a response",
				Doc:      "A response in progress has an empty text. With stream true its events are replayed, then followed until it ends.",
				AnswerOf: reflect.TypeFor[Response](),
			},
			In:        reflect.TypeFor[readParams](),
			MayStream: true, Serve: s.Read,
		},
		{
			Row: route.Row{
				Method: "POST", Path: "/v1/responses/{responseId}/cancel", ID: "cancelResponse", Tag: "OpenAI-Compat",
				Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Errors: []int{404},
				Summary:  "Cancel a response",
				Doc:      "Cancels its run. A response that has already ended is returned unchanged.",
				AnswerOf: reflect.TypeFor[Response](),
			},
			In:    reflect.TypeFor[responseParams](),
			Serve: s.Cancel,
		},
		{
			Row: route.Row{
				Method: "DELETE", Path: "/v1/responses/{responseId}", ID: "deleteResponse", Tag: "OpenAI-Compat",
				Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Errors: []int{404, 409}, Destroys: true,
				Summary: "Delete a response",
				Doc: "It is no longer read or continued, and responses that follow it go on without its messages. Its run stays, as a run. " +
					"A response in progress is cancelled first.",
				AnswerOf: reflect.TypeFor[ResponseDeleted](),
			},
			In:    reflect.TypeFor[responseParams](),
			Serve: s.Delete,
		},
		{
			Row: route.Row{
				Method: "GET", Path: "/v1/responses/{responseId}/input_items", ID: "listResponseInputItems", Tag: "OpenAI-Compat",
				Scopes: []authz.Scope{"runs:read"}, Errors: []int{404},
				Summary:  "List the input of a response",
				Doc:      "Its own input, without that of the responses before it.",
				AnswerOf: reflect.TypeFor[ListOf[InputItem]](),
			},
			In:    reflect.TypeFor[inputsIn](),
			Serve: s.Inputs,
		},
	})
}

// createdResponse is a response with its run and what it repeats of its request.
type createdResponse struct {
	stream     *runstream.Stream
	background bool
	echo       echo
}

// Create serves POST /v1/responses: it starts a run and answers with its result
// in one piece or as a stream; in the background, with a response in progress.
func (s *Responses) Create(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	req, start, err := s.read(r, who)
	if err != nil {
		return err
	}
	link := responsechain.Link{
		RunID: start.RunID, Previous: ptr.Value(req.Previous), Standing: start.standing, Asked: mustMarshal(req.echoed()),
	}
	start.Admit = s.Chains.Make(link)
	stream, err := s.Runner.StartOnce(w, r, who, start.Request)
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			return runstream.NoAgent(req.Model)
		}
		return err
	}
	defer stream.Close()
	a := createdResponse{
		stream: stream, background: req.InBackground(),
		echo: echo{req.echoed(), link.Previous, start.Options.Tools, start.Options.KnowledgeBases, objectOf(jsontext.Value(req.Metadata))},
	}
	switch {
	case req.Streams():
		return s.stream(r, &a)
	case req.InBackground():
		return a.writeQueued(w)
	}
	return s.whole(w, r, &a)
}

// writeQueued answers as the first request was answered, however often it is
// repeated and whatever has become of the run since.
func (a *createdResponse) writeQueued(w http.ResponseWriter) error {
	a.stream.Run.Status = run.Queued
	return httpapi.JSON(w, http.StatusOK, inProgress(a.stream.Run, &a.echo))
}

// read reads a request and converts it to a run's.
func (s *Responses) read(r *http.Request, who authz.Caller) (*ResponseRequest, runStart, error) {
	req, err := httpapi.DecodeBody[ResponseRequest](r)
	if err != nil {
		return nil, runStart{}, err
	}
	open, err := s.previous(r.Context(), who.TenantID, req.Previous)
	if err != nil {
		return nil, runStart{}, err
	}
	lookup, err := s.items(r.Context(), who.TenantID, references(req.Input))
	if err != nil {
		return nil, runStart{}, err
	}
	start, err := req.runStart(open, lookup)
	if err != nil {
		return nil, runStart{}, err
	}
	if err := s.checkStores(r.Context(), who, &start.Options); err != nil {
		return nil, runStart{}, err
	}
	start.RunID = ident.New()
	if start.AgentID, err = s.Runner.AgentID(r.Context(), who.TenantID, req.Model); err != nil {
		return req, start, err
	}
	if strings.HasPrefix(start.AgentID, runstream.TeamPrefix) && start.Options.KnowledgeBases != nil {
		return req, start, fault.BadFields(fault.Field{
			Field: "tools", Message: "the agents of a team search their own knowledge bases; attach the vector store to them"})
	}
	if strings.HasPrefix(start.AgentID, runstream.TeamPrefix) && req.InBackground() {
		return req, start, fault.BadFields(fault.Field{
			Field: "background", Message: "the answers of teams are not stored as responses; wait for it, or start a run of the team"})
	}
	return req, start, nil
}

// whole answers with the response when its run has ended.
func (s *Responses) whole(w http.ResponseWriter, r *http.Request, a *createdResponse) error {
	c := a.echo.composer(a.stream.Run.RunID, nil)
	ended, err := a.stream.Wait(r.Context(), func(e event.Event) { c.observe(e) })
	if err != nil {
		return err
	}
	response, err := a.response(ended, &c)
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, response)
}

// response returns the response of a run that has ended.
func (a *createdResponse) response(ended *run.Run, c *composer) (*Response, error) {
	out, err := outputOf(ended)
	if err != nil {
		return nil, err
	}
	c.endRun(ended, &out)
	response := newResponse(ended, &a.echo)
	response.setResult(ended, &out)
	response.Output = c.items
	return response, nil
}

// stream answers with events while the run goes on.
func (s *Responses) stream(r *http.Request, a *createdResponse) error {
	gone, err := s.relay(r, a, -1)
	if gone && !a.background {
		a.stream.ClientGone(r.Context())
	}
	return err
}

// relay sends a response's event stream, without the events up to the sequence
// number after. It reports whether the client disconnected before the end.
func (s *Responses) relay(r *http.Request, a *createdResponse, after int64) (gone bool, err error) {
	out, err := httpapi.OpenStream(r, httpapi.StreamOptions{})
	if err != nil {
		return false, err
	}
	defer out.Close()
	f := frames{after: after, send: func(name string, data []byte, more bool) {
		// A frame that cannot be sent ends the stream's context, which is noticed
		// where the next event is waited for.
		_ = out.Send(route.Frame{Name: name, Data: data, More: more})
	}}
	created := newResponse(a.stream.Run, &a.echo)
	created.Status = stateInProgress
	value := mustMarshal(created)
	f.sendResponse(eventCreated, value, true)
	f.sendResponse(eventInProgress, value, false)
	c := a.echo.composer(a.stream.Run.RunID, &f)
	for e, err := range a.stream.Follow(out.Context()) {
		if err == nil && !c.observe(e) && !c.voided {
			continue
		}
		if c.voided {
			f.fail(runstream.Voided("the response can be read by its id"))
			return false, nil
		}
		var response *Response
		if err == nil {
			response, err = s.final(out.Context(), a, &c, e)
		}
		if err != nil {
			out.Failed(err)
			f.fail(runstream.Broken(err, "the response can be read by its id"))
			return false, nil
		}
		f.sendResponse(finalEventName(response.Status), mustMarshal(response), false)
		return false, nil
	}
	return out.ReaderGone(), nil
}

// final returns the response of a run as its final event left it.
func (s *Responses) final(ctx context.Context, a *createdResponse, c *composer, e event.Event) (*Response, error) {
	ended, err := a.stream.Result(ctx, e)
	if err != nil {
		return nil, err
	}
	return a.response(ended, c)
}
