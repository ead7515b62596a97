package openai

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/responsechain"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
)

// Chains is what the responses shape needs of responses; *response.Service.
type Chains interface {
	// Get reads a response. Errors: fault.NotFound, also for a run that is none.
	Get(ctx context.Context, tenant, id string) (*responsechain.Response, error)
	// All reads those responses of some ids that there are.
	All(ctx context.Context, tenant string, ids []string) ([]responsechain.Response, error)
	// Make gives what makes a run a response.
	Make(l responsechain.Link) run.Admission
}

// Responses serves the responses shape. Runs are followed as chats are.
type Responses struct {
	Chat   *Chat
	Chains Chains
}

// Routes of the responses shape.
func (s *Responses) Routes() []httpapi.Raw {
	return openAIRoutes([]httpapi.Raw{
		{
			Row: route.Row{
				Method: "POST", Path: "/v1/responses", ID: "createResponse", Tag: "OpenAI-Compat",
				Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Repeats: true, Errors: []int{404, 409, 422, 503},
				Summary:  "Ask an agent in the responses shape",
				Doc:      "The request becomes a run, whose id the response has. previous_response_id makes a response and all before it the history. With stream true the answer is an event stream.",
				BodyOf:   reflect.TypeFor[ResponseRequest](),
				AnswerOf: reflect.TypeFor[Response](),
			},
			ReplayByRef: true, Serve: s.Create,
		},
		{
			Row: route.Row{
				Method: "GET", Path: "/v1/responses/{responseId}", ID: "getResponse", Tag: "OpenAI-Compat",
				Scopes: []authz.Scope{"runs:read"}, Errors: []int{404, 422},
				Summary:  "Read a response back",
				Doc:      "One that is in progress has an empty text. Its event stream can be had again, and goes on until the response ends.",
				AnswerOf: reflect.TypeFor[Response](),
			},
			In:    reflect.TypeFor[readParams](),
			Serve: s.Read,
		},
		{
			Row: route.Row{
				Method: "POST", Path: "/v1/responses/{responseId}/cancel", ID: "cancelResponse", Tag: "OpenAI-Compat",
				Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Errors: []int{404},
				Summary:  "End a response that is in progress",
				Doc:      "Its run is cancelled. One that has ended is answered as it is.",
				AnswerOf: reflect.TypeFor[Response](),
			},
			In:    reflect.TypeFor[responseParams](),
			Serve: s.Cancel,
		},
	})
}

// createdResponse is a request that became a run.
type createdResponse struct {
	req  *ResponseRequest
	made *run.Run
	echo echo
}

// Create answers POST /v1/responses: it starts a run and gives its answer,
// whole or as it comes, or, in the background, that there will be one.
func (s *Responses) Create(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	req, c, err := s.read(r, who)
	if err != nil {
		return err
	}
	link := responsechain.Link{RunID: c.RunID, Previous: deref(req.Previous), Standing: c.standing, Asked: mustMarshal(req.echoed())}
	c.Admit = s.Chains.Make(link)
	said := s.Chat.listen(who.TenantID, c.RunID)
	defer said.close()
	made, err := s.Chat.Runs.Create(r.Context(), who, c.Request)
	if err != nil {
		if made, err = s.Chat.doneBefore(w, r, who, err); err != nil {
			if fault.Is(err, fault.NotFound) {
				return modelNotFound(req.Model)
			}
			return err
		}
		said = s.Chat.recall(who.TenantID, made.RunID)
	}
	w.Header().Set("X-Run-Id", made.RunID)
	a := createdResponse{req, made, echo{req.echoed(), link.Previous, c.Options.Tools, objectOf(jsontext.Value(req.Metadata))}}
	switch {
	case req.Streams():
		return s.stream(r, who, &a, said)
	case req.InBackground():
		made.Status = run.Queued // as the first request was told, however often it is repeated
		return httpapi.JSON(w, http.StatusOK, inProgress(made, &a.echo))
	}
	return s.whole(w, r, who, &a, said)
}

// read reads a request and makes a run of it.
func (s *Responses) read(r *http.Request, who authz.Caller) (*ResponseRequest, runStart, error) {
	var none runStart
	req, err := httpapi.DecodeBody[ResponseRequest](r)
	if err != nil {
		return nil, none, err
	}
	open, err := s.previous(r.Context(), who.TenantID, req.Previous)
	if err != nil {
		return nil, none, err
	}
	known, err := s.items(r.Context(), who.TenantID, references(req.Input))
	if err != nil {
		return nil, none, err
	}
	c, err := req.runStart(open, known)
	if err != nil {
		return nil, none, err
	}
	if !ident.Valid(c.AgentID) {
		return nil, none, modelNotFound(req.Model)
	}
	c.RunID, c.Answer = ident.New(), place
	return req, c, nil
}

// previous looks up the response that a request goes on from, and gives the
// calls that it left to the caller.
func (s *Responses) previous(ctx context.Context, tenant string, id *string) ([]model.ToolCall, error) {
	if deref(id) == "" {
		return nil, nil
	}
	before, err := s.get(ctx, tenant, *id)
	if fault.Is(err, fault.NotFound) {
		e := fault.New(fault.NotFound, "previous_response_not_found", "There is no response %q in this company to go on from; a response's id is that of its run.", *id)
		e.Fields = []fault.Field{{Field: "previous_response_id", Message: e.Detail}}
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	if !before.Run.Status.Final() {
		return nil, fault.New(fault.Conflict, "INVALID_STATE_TRANSITION",
			"The response %s has not ended: its run is %s. Read it until it has, and go on from it then.", *id, before.Run.Status)
	}
	out, err := outputOf(&before.Run.Run)
	return out.ToolCalls, err
}

// references gives the runs whose items an input names.
func references(input []byte) (runs []string) {
	var items []struct {
		Type string `json:"type"`
		ID   string `json:"id"`
		Role string `json:"role"`
	}
	if len(input) == 0 || input[0] != '[' {
		return nil
	}
	_ = json.Unmarshal(input, &items) // what is of another shape is refused where it is read
	for _, i := range items {
		named := i.Type == itemReference || i.Type == "" && i.Role == ""
		if id := itemRun(i.ID); named && ident.Valid(id) && !slices.Contains(runs, id) {
			runs = append(runs, id)
		}
	}
	return runs
}

// items gives the items of some responses by their ids.
func (s *Responses) items(ctx context.Context, tenant string, runs []string) (func(id string) (OutputItem, bool), error) {
	all, err := s.Chains.All(ctx, tenant, runs)
	if err != nil {
		return nil, err
	}
	by := map[string]OutputItem{}
	for i := range all {
		r := &all[i].Run.Run
		if !r.Status.Final() {
			continue
		}
		out, err := outputOf(r)
		if err != nil {
			return nil, err
		}
		items, err := itemsOf(r, all[i].Steps, &out)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			by[item.ID] = item
		}
	}
	return func(id string) (OutputItem, bool) { item, there := by[id]; return item, there }, nil
}

// whole answers with the response when its run has ended.
func (s *Responses) whole(w http.ResponseWriter, r *http.Request, who authz.Caller, a *createdResponse, said *voice) error {
	ctx := r.Context()
	c := composer{run: a.made.RunID, items: []OutputItem{}}
	var last event.Event
	for e, err := range said.events(ctx) {
		if err != nil {
			return err
		}
		if last = e; c.observe(e) {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return err // the client is gone; the run goes on
	}
	answer, err := s.ended(ctx, who, a, &c, last)
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, answer)
}

// ended gives the response of a run as its final event left it.
func (s *Responses) ended(ctx context.Context, who authz.Caller, a *createdResponse, c *composer, final event.Event) (*Response, error) {
	r, err := s.Chat.ended(ctx, who, a.made, final)
	if err != nil {
		return nil, err
	}
	out, err := outputOf(r)
	if err != nil {
		return nil, err
	}
	c.endRun(r, &out)
	answer := newResponse(r, &a.echo)
	answer.setResult(r, &out)
	answer.Output = c.items
	return answer, nil
}

// stream answers with events as the run makes them.
func (s *Responses) stream(r *http.Request, who authz.Caller, a *createdResponse, said *voice) error {
	gone, err := s.relay(r, who, a, -1, said)
	if gone && !a.req.InBackground() {
		s.Chat.left(r.Context(), who, a.made)
	}
	return err
}

// relay sends a response's event stream. gone: its reader left before the end.
func (s *Responses) relay(r *http.Request, who authz.Caller, a *createdResponse, after int64, said *voice) (gone bool, err error) {
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
	begun := newResponse(a.made, &a.echo)
	begun.Status = stateInProgress
	value := mustMarshal(begun)
	f.sendResponse(eventCreated, value, true)
	f.sendResponse(eventInProgress, value, false)
	c := composer{run: a.made.RunID, items: []OutputItem{}, observer: &f}
	for e, err := range said.events(out.Context()) {
		if err == nil && !c.observe(e) {
			continue
		}
		var answer *Response
		if err == nil {
			answer, err = s.ended(out.Context(), who, a, &c, e)
		}
		if err != nil {
			out.Failed(err)
			f.fail(brokenStream(err))
			return false, nil
		}
		f.sendResponse(finalEventName(answer.Status), mustMarshal(answer), false)
		return false, nil
	}
	return out.ReaderGone(), nil
}

// brokenStream says that a stream ends before its run does.
func brokenStream(err error) *fault.Error {
	detail := "The answer broke off on our side; the run goes on, and the response can be read back by its id."
	if errors.Is(err, event.ErrSlow) {
		detail = "The answer broke off because it was read too slowly; the run goes on, and the response can be read back by its id."
	}
	return fault.New(fault.Unavailable, "stream_broken", "%s", detail)
}
