// Package responsechain links the runs of the Responses API: each may name a
// previous response, whose conversation it continues.
//
// A response is a run and a row with the id of its previous response. The history
// is read from the runs of the chain when the last one is executed; it is not
// stored a second time.
package responsechain

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/model"
)

// Link is what makes a run a response.
type Link struct {
	RunID    string
	Previous string // the response that it continues; "": none
	// Standing holds instructions that are part of the conversation: later
	// responses have them too, unlike the instructions of the run's input.
	Standing string
	Asked    jsontext.Value // what the API's answers repeat of the request; opaque here
	Deleted  bool           // the response was deleted; its run was not
}

// Response is a response with its run and steps.
type Response struct {
	Link
	run.Journal
}

// Store is the port to the table of responses. Every method takes the tenant.
type Store interface {
	CreateTx(tx txn.Tx, tenant string, l Link) error
	// ListByID reads responses in the order of their ids. Those whose run does not
	// exist are left out.
	ListByID(ctx context.Context, tenant string, ids []string) ([]Response, error)
	// DeleteTx deletes a response, whose run stays. Errors: fault.NotFound.
	DeleteTx(tx txn.Tx, tenant, id string, at time.Time) error
	// ListChain reads a response and all before it, oldest first, in a number of
	// queries that does not depend on their number. If a response or its run was
	// deleted, the RunID in its Response is empty.
	ListChain(ctx context.Context, tenant, id string) ([]Response, error)
}

// Service serves responses to the Responses API and to the engine.
type Service struct {
	Store  Store
	Writer txn.Writer
	Clock  clock.Clock
	Audit  audit.Recorder // records deletions; optional
}

// Get reads a response. Errors: fault.NotFound, also for a run that is no response.
func (s *Service) Get(ctx context.Context, tenant, id string) (*Response, error) {
	found, err := s.Store.ListByID(ctx, tenant, []string{id})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fault.NewNotFound("response")
	}
	return &found[0], nil
}

// Delete deletes a response: it is no longer read or continued, and those that follow it
// go on without its messages. Its run stays as a run. Errors: fault.NotFound.
func (s *Service) Delete(ctx context.Context, who authz.Caller, id string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Store.DeleteTx(tx, who.TenantID, id, s.Clock.Now()); err != nil {
			return err
		}
		return audit.Write(s.Audit, tx, who, audit.Entry{Action: "response.deleted", TargetType: "run", TargetID: id})
	})
}

// All reads the responses among ids that exist.
func (s *Service) All(ctx context.Context, tenant string, ids []string) ([]Response, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.Store.ListByID(ctx, tenant, ids)
}

// Make returns the admission that makes a run a response, in the transaction that
// stores it.
func (s *Service) Make(l Link) run.Admission {
	return func(tx txn.Tx, r *run.Record) (bool, error) {
		return true, s.Store.CreateTx(tx, r.TenantID, l)
	}
}

// Before implements run.Conversations: it returns the messages of the responses
// that a run continues. It reads the whole chain, whose length is bounded.
func (s *Service) Before(ctx context.Context, r *run.Record, _ run.Reach) ([]model.Message, error) {
	if r.Options.Follows == "" {
		return nil, nil
	}
	chain, err := s.Store.ListChain(ctx, r.TenantID, r.Options.Follows)
	if err != nil {
		return nil, err
	}
	var messages []model.Message
	for i := range chain {
		if chain[i].Run.RunID == "" { // the run was deleted; those after it were not
			continue
		}
		if chain[i].Previous != "" && (i == 0 || chain[i-1].Run.RunID == "") {
			dropToolResults(&chain[i].Run)
		}
		next := r
		if i+1 < len(chain) {
			next = &chain[i+1].Run
		}
		if messages, err = appendResponse(messages, &chain[i], next); err != nil {
			return nil, err
		}
	}
	return messages, nil
}

// dropToolResults removes the leading tool results from a run's input, because the
// run that made the calls was deleted: endpoints reject a result without its call.
func dropToolResults(r *run.Record) {
	in := r.ParsedInput()
	in.History = in.History[leadingToolResults(in):]
	r.Parsed = in
}

// leadingToolResults returns how many tool results an input begins with.
func leadingToolResults(in *run.Input) int {
	n := slices.IndexFunc(in.History, func(m model.Message) bool { return m.Role != model.Tool })
	if n < 0 {
		return len(in.History)
	}
	return n
}

// appendResponse appends the messages of a response. Calls of the caller's tools
// are kept if the next run brings their results.
func appendResponse(before []model.Message, r *Response, next *run.Record) ([]model.Message, error) {
	if r.InputRefused() {
		return before, nil
	}
	answered := map[string]bool{}
	in := next.ParsedInput()
	for _, m := range in.History[:leadingToolResults(in)] {
		answered[m.ToolCallID] = true
	}
	return run.ContinuedConversation(before, &r.Run, r.Steps, r.Standing, func(call string) bool { return answered[call] })
}
