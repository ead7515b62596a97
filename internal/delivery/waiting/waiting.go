// Package waiting lists what waits for a person in a company, whatever it is: tool calls
// that need an approval, questions of agents, authorizations, paused and failed runs,
// votes and requests of agents. Each row is shown so that it can be decided as it stands.
package waiting

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// Tool is a tool call that waits for an approval.
type Tool struct {
	_ struct{} `json:"-" name:"InboxTool"`

	Name        string     `json:"name" required:"true"`
	Count       int        `json:"count" required:"true" doc:"How many calls of it wait here: 1."`
	Description string     `json:"description,omitzero" doc:"What the tool does."`
	Arguments   schema.Any `json:"arguments" doc:"The arguments that the model wrote."`
}

// Item is something that waits for a person.
type Item struct {
	_ struct{} `json:"-" name:"InboxItem"`

	ID        string     `json:"id" required:"true" doc:"Of what waits: an approval, a run, a proposal or a request. With kind it is unique."`
	Kind      string     `json:"kind" required:"true" enum:"approval,input,authorization,paused,failed,ballot,request" doc:"What is waited for."`
	RunID     string     `json:"run_id,omitzero" doc:"The run that waits."`
	AgentID   string     `json:"agent_id,omitzero" doc:"The agent that it is about."`
	AgentName string     `json:"agent_name,omitzero" doc:"What the agent is called; absent for one that was deleted."`
	SessionID string     `json:"session_id,omitzero" doc:"The conversation that the run is part of."`
	Status    string     `json:"status" required:"true" doc:"State of the thing that waits."`
	CreatedAt time.Time  `json:"created_at" required:"true" doc:"Since when it waits; of a failed run, when it ended."`
	ExpiresAt *time.Time `json:"expires_at" doc:"When it is too late; null: never."`
	Summary   string     `json:"summary" required:"true" doc:"What is to be decided, in a sentence."`
	Detail    string     `json:"detail,omitzero" doc:"More of it: a proposal's text, an error, where to authorize."`
	Tools     []Tool     `json:"tools,omitzero" doc:"Of an approval: the call."`
	ErrorCode string     `json:"error_code,omitzero" doc:"Of a failed run: why."`
	Decisions []string   `json:"decisions" required:"true" doc:"What POST /inbox/decide takes for it; empty: it is decided elsewhere, see path."`
	CanDecide bool       `json:"can_decide" required:"true" doc:"Whether you may decide it."`
	Path      string     `json:"path" required:"true" doc:"Where the API shows it."`
}

// Source lists things of some kinds.
type Source struct {
	Kinds    []string
	Readers  resource.Access
	Deciders resource.Access
	// List returns up to limit things, the oldest or those that expire first; of one agent
	// if agentID is not "".
	List func(ctx context.Context, tenant, agentID string, limit int) ([]Item, error)
}

// Decision is what a person decides about an item.
type Decision struct {
	_ struct{} `json:"-" name:"InboxDecision"`

	Kind      string     `json:"kind" required:"true" enum:"approval,input,paused,failed" doc:"Of the item."`
	ID        string     `json:"id" required:"true" format:"any" maxLength:"36" doc:"Of the item."`
	Decision  string     `json:"decision" required:"true" enum:"approve,reject,answer,resume,cancel,continue" doc:"approve or reject an approval, answer a question, resume or cancel a paused run, continue a failed one."`
	Response  string     `json:"response,omitzero" maxLength:"10000" doc:"The answer to a question, or a message to the agent with an approval."`
	Reason    string     `json:"reason,omitzero" maxLength:"10000" doc:"Why a call is rejected, for the model."`
	Arguments schema.Any `json:"arguments,omitzero" doc:"Of an approval: a JSON object that replaces the arguments that the model wrote."`
	Continue  bool       `json:"continue,omitzero" doc:"Of a rejection: the run goes on, with the rejection as the call's result."`
}

// Outcome is what became of a decision.
type Outcome struct {
	_ struct{} `json:"-" name:"InboxOutcome"`

	Kind   string `json:"kind" required:"true"`
	ID     string `json:"id" required:"true"`
	OK     bool   `json:"ok" required:"true" doc:"Whether the decision counts."`
	Code   string `json:"code,omitzero" doc:"Why not: the code of the error."`
	Detail string `json:"detail,omitzero" doc:"Why not, for a person."`
}

// Decider carries decisions out.
type Decider interface {
	Decide(ctx context.Context, who authz.Caller, d Decision) error
}

// Service lists and decides.
type Service struct {
	Clock   clock.Clock
	Cursors *page.Cursors
	Sources []Source
	Decider Decider
}

// maxListed bounds how many things of a source are looked at.
const maxListed = 200

// found is what waits.
type found struct {
	items  []Item // in order
	counts Counts // of the kinds that were looked for
	more   bool   // there are more than were looked at
}

// collect returns what of some kinds waits, of all that a caller may see where kinds is
// nil.
func (s *Service) collect(ctx context.Context, who authz.Caller, kinds []string, agentID string) (*found, error) {
	out := &found{counts: Counts{"total": 0}}
	for _, src := range s.Sources {
		if who.Check(src.Readers.Role, src.Readers.Scopes...) != nil || !wanted(src.Kinds, kinds) {
			continue
		}
		listed, err := src.List(ctx, who.TenantID, agentID, maxListed+1)
		if err != nil {
			return nil, err
		}
		if len(listed) > maxListed {
			listed, out.more = listed[:maxListed], true
		}
		for _, kind := range src.Kinds {
			if len(kinds) == 0 || slices.Contains(kinds, kind) {
				out.counts[kind] = 0
			}
		}
		may := who.Check(src.Deciders.Role, src.Deciders.Scopes...) == nil
		for _, item := range listed {
			if len(kinds) > 0 && !slices.Contains(kinds, item.Kind) {
				continue
			}
			out.counts["total"]++
			out.counts[item.Kind]++
			item.CanDecide = may
			if item.Decisions == nil {
				item.Decisions = []string{}
			}
			out.items = append(out.items, item)
		}
	}
	slices.SortFunc(out.items, func(a, b Item) int { return strings.Compare(a.position(), b.position()) })
	return out, nil
}

func wanted(offered, kinds []string) bool {
	return len(kinds) == 0 || slices.ContainsFunc(offered, func(k string) bool { return slices.Contains(kinds, k) })
}

// never sorts what does not expire behind everything that does.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// position is where the item stands: what expires first comes first, then what waits
// longest.
func (i Item) position() string {
	expires := never
	if i.ExpiresAt != nil {
		expires = *i.ExpiresAt
	}
	return fmt.Sprintf("%018d,%018d,%s/%s", expires.UnixMicro(), i.CreatedAt.UnixMicro(), i.Kind, i.ID)
}

// Counts are how many things of each kind wait.
type Counts map[string]int

// Count counts what waits for a caller; see collect.
func (s *Service) Count(ctx context.Context, who authz.Caller) (Counts, error) {
	got, err := s.collect(ctx, who, nil, "")
	if err != nil {
		return nil, err
	}
	return got.counts, nil
}

// decide carries decisions out one by one, in their order.
func (s *Service) decide(ctx context.Context, who authz.Caller, all []Decision) ([]Outcome, error) {
	ctx = txn.WithoutRequestHook(ctx) // the answers of the parts are not that of the request
	out := make([]Outcome, len(all))
	for i, d := range all {
		out[i] = Outcome{Kind: d.Kind, ID: d.ID, OK: true}
		err := s.Decider.Decide(ctx, who, d)
		if err == nil {
			continue
		}
		e := fault.From(err)
		if e.Kind == fault.Internal || e.Kind == fault.Unavailable {
			return nil, err // nothing is said of those before it; each can be sent again
		}
		out[i] = Outcome{Kind: d.Kind, ID: d.ID, Code: e.Code, Detail: cmp.Or(e.Detail, e.Code)}
	}
	return out, nil
}
