// Package response is how runs follow each other in the responses shape: each
// may name one before it, whose conversation it goes on with (interface.md
// section 4, Chat-compatible routes, rule 3).
//
// A response is a run and one row more: what it went on from. History is read
// from the runs along that line when the last one is driven, and is stored
// nowhere else.
package responsechain

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// Link makes a run a response.
type Link struct {
	RunID    string
	Previous string // the response that it goes on from; "": none
	// Standing are instructions that were a part of the conversation: later
	// responses have them too, unlike those of the run's input.
	Standing string
	Asked    jsontext.Value // the edge's own: what of the request its answers repeat
}

// Response is a response with what its run did.
type Response struct {
	Link
	run.Journal
}

// Store is the port to the table of responses. Every call takes the tenant.
type Store interface {
	CreateTx(tx txn.Tx, tenant string, l Link) error
	// ListByID reads some responses whose runs are there, in the order of ids. Others
	// are left out.
	ListByID(ctx context.Context, tenant string, ids []string) ([]Response, error)
	// ListChain reads a response and all before it, the first first, with a number of
	// queries that does not grow with each. One whose run is gone has no RunID in
	// its Run.
	ListChain(ctx context.Context, tenant, id string) ([]Response, error)
}

// Service is what the responses shape and the engine need of responses.
type Service struct{ Store Store }

// Get reads a response. Errors: fault.NotFound, also for a run that is none.
func (s *Service) Get(ctx context.Context, tenant, id string) (*Response, error) {
	found, err := s.Store.ListByID(ctx, tenant, []string{id})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fault.NoSuch("response")
	}
	return &found[0], nil
}

// All reads those responses of some ids that there are.
func (s *Service) All(ctx context.Context, tenant string, ids []string) ([]Response, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.Store.ListByID(ctx, tenant, ids)
}

// Make gives what makes a run a response, in the transaction that stores it.
func (s *Service) Make(l Link) run.Admission {
	return func(tx txn.Tx, r *run.Record) (bool, error) {
		return true, s.Store.CreateTx(tx, r.TenantID, l)
	}
}

// Before implements run.Conversations: what was said before a run in the
// responses that it goes on from.
func (s *Service) Before(ctx context.Context, r *run.Record) ([]model.Message, error) {
	if r.Options.Follows == "" {
		return nil, nil
	}
	line, err := s.Store.ListChain(ctx, r.TenantID, r.Options.Follows)
	if err != nil {
		return nil, err
	}
	var said []model.Message
	for i := range line {
		if line[i].Run.RunID == "" { // it is gone; what went on from it is not
			continue
		}
		if line[i].Previous != "" && (i == 0 || line[i-1].Run.RunID == "") {
			forgetCalls(&line[i].Run)
		}
		next := r
		if i+1 < len(line) {
			next = &line[i+1].Run
		}
		if said, err = told(said, &line[i], next); err != nil {
			return nil, err
		}
	}
	return said, nil
}

// forgetCalls takes from a run's input the results of calls of a run that is
// gone: endpoints refuse a result without its call.
func forgetCalls(r *run.Record) {
	in := r.ParsedInput()
	in.History = in.History[leading(in):]
	r.Parsed = in
}

// leading is how many results of earlier calls an input begins with.
func leading(in *run.Input) int {
	n := slices.IndexFunc(in.History, func(m model.Message) bool { return m.Role != model.Tool })
	if n < 0 {
		return len(in.History)
	}
	return n
}

// told adds what a response says to what was said before it. Calls of the
// caller's tools stay where the next run brings their results.
func told(before []model.Message, r *Response, next *run.Record) ([]model.Message, error) {
	if r.InputRefused() {
		return before, nil
	}
	brought := map[string]bool{}
	in := next.ParsedInput()
	for _, m := range in.History[:leading(in)] {
		brought[m.ToolCallID] = true
	}
	return run.ContinuedConversation(before, &r.Run, r.Steps, r.Standing, func(call string) bool { return brought[call] })
}
