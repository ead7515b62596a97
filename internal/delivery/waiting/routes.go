package waiting

import (
	"context"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
)

var kinds = []string{"approval", "input", "authorization", "paused", "failed", "ballot", "request"}

type listIn struct {
	Kind    string `query:"kind" maxLength:"200" doc:"Only these kinds, with commas: approval, input, authorization, paused, failed, ballot, request."`
	AgentID string `query:"agent_id" doc:"Only what is about this agent."`
	Limit   string `query:"limit" doc:"Items per page, 1 to 200; default 50."`
	Cursor  string `query:"cursor"`
}

// Inbox is one page of what waits.
type Inbox struct {
	_ struct{} `json:"-" name:"Inbox"`

	GeneratedAt time.Time `json:"generated_at" required:"true"`
	Counts      Counts    `json:"counts" required:"true" doc:"How many there are in all, and of each kind, on all pages."`
	Items       []Item    `json:"items" required:"true"`
	Scanned     int       `json:"scanned" required:"true" doc:"How many things were looked at."`
	Truncated   bool      `json:"truncated,omitzero" doc:"There are more than 200 of a sort, which are not counted and listed when others are decided."`
	Cursor      *string   `json:"cursor" required:"true"`
	HasMore     bool      `json:"has_more" required:"true"`
}

type decideIn struct {
	Body struct {
		_ struct{} `json:"-" name:"InboxDecisions"`

		Decisions []Decision `json:"decisions" required:"true" minItems:"1" maxItems:"200" doc:"Up to 200 decisions, which are carried out one by one in this order."`
	}
}

// Decided answers decideInbox.
type Decided struct {
	_ struct{} `json:"-" name:"InboxDecided"`

	Outcomes []Outcome `json:"outcomes" required:"true" doc:"One for each decision, in their order."`
	Decided  int       `json:"decided" required:"true" doc:"How many of them count."`
}

// Routes returns the operations.
func (s *Service) Routes() []route.Route {
	read := func(path, id string) route.Row {
		return route.Row{
			Method: "GET", Path: path, ID: id, Tag: "Inbox", Scopes: []authz.Scope{"runs:read", "agents:read"}, Role: authz.Viewer,
			Summary: "List what waits for a person",
			Doc: "Approvals, questions, authorizations, paused and lately failed runs need the scope runs:read; open votes and " +
				"requests of agents agents:read. " +
				"What expires first comes first, then what waits longest. A row can be decided as it stands, with POST /api/v1/inbox/decide.",
			Errors: []int{400},
		}
	}
	other := read("/api/v1/analytics/inbox", "getAnalyticsInbox")
	other.Tag, other.Summary = "Analytics", "List what waits for a person (another name of GET /inbox)"
	other.Doc = "The same as GET /api/v1/inbox."
	return []route.Route{
		route.Action(read("/api/v1/inbox", "getInbox"), s.list),
		route.Action(other, s.list),
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/inbox/decide", ID: "decideInbox", Tag: "Inbox",
			Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer,
			Summary: "Decide several things that wait",
			Doc: "Each decision is carried out by itself, as its own operation does it, and has an outcome of its own: one that is " +
				"refused does not keep the others from counting. Sending a decision again is harmless: what was decided stays so.",
		}, s.decideRoute),
	}
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*Inbox, error) {
	var only []string
	if in.Kind != "" {
		only = strings.Split(in.Kind, ",")
		for _, k := range only {
			if !slices.Contains(kinds, k) {
				return nil, fault.New(fault.Malformed, "INVALID_QUERY",
					"The query parameter kind has %q; the kinds are: %s.", k, strings.Join(kinds, ", "))
			}
		}
	}
	scope := page.ScopeOf(who.TenantID, "inbox", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	got, err := s.collect(ctx, who, only, in.AgentID)
	if err != nil {
		return nil, err
	}
	items := got.items
	out := &Inbox{GeneratedAt: s.Clock.Now(), Counts: got.counts, Items: []Item{}, Scanned: len(items), Truncated: got.more}
	n := page.Limit(in.Limit, 50, 200)
	for i := range items {
		if items[i].position() <= after {
			continue
		}
		if len(out.Items) == n {
			next := s.Cursors.Seal(scope, out.Items[n-1].position())
			out.Cursor, out.HasMore = &next, true
			break
		}
		out.Items = append(out.Items, items[i])
	}
	return out, nil
}

func (s *Service) decideRoute(ctx context.Context, who authz.Caller, in *decideIn) (*Decided, error) {
	outcomes, err := s.decide(ctx, who, in.Body.Decisions)
	if err != nil {
		return nil, err
	}
	out := &Decided{Outcomes: outcomes}
	for _, o := range outcomes {
		if o.OK {
			out.Decided++
		}
	}
	return out, nil
}
