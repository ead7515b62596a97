package feed

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
)

// Types are the types of entries.
var Types = []string{
	RunStarted, RunCompleted, RunFailed, RunTimeout, RunCancelled, SessionCreated, TickStart, TickEnd, CompanyPaused, CompanyResumed,
	Escalation, RoundStart, RoundEnd, ObjectiveCreated, ObjectiveCompleted, AgentCreated,
}

const (
	defaultPage = 50
	maxPage     = 200
)

// narrowing are the filters of both operations.
type narrowing struct {
	AgentID   string `query:"agent_id" maxLength:"100" doc:"Only what this agent did, and that it was created."`
	CompanyID string `query:"company_id" maxLength:"100" doc:"Only what this initiative told."`
	TeamID    string `query:"team_id" maxLength:"100" doc:"Only what this team told."`
	Types     string `query:"types" maxLength:"1000" doc:"Only these types, with commas, such as run.failed,company.escalation."`
}

func (n *narrowing) query() (Query, error) {
	q := Query{AgentID: n.AgentID, CompanyID: n.CompanyID, TeamID: n.TeamID}
	for name := range strings.SplitSeq(n.Types, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
		case !slices.Contains(Types, name):
			return q, fault.New(fault.Malformed, "INVALID_QUERY",
				"The query parameter types names %q, which is no type of the feed; the types are: %s.", name, strings.Join(Types, ", "))
		default:
			q.Types = append(q.Types, name)
		}
	}
	return q, nil
}

type listIn struct {
	narrowing

	Limit  string `query:"limit" doc:"Entries per page, 1 to 200; 50 if it is left out."`
	Cursor string `query:"cursor"`
}

// Page is a part of the feed, newest first.
type Page struct {
	_ struct{} `json:"-" name:"Feed"`

	Entries []Entry `json:"entries" required:"true" doc:"Newest first. A page may have fewer than limit although more follow: cursor says whether they do."`
	Total   int     `json:"total" required:"true" doc:"How many entries this page has."`
	Cursor  string  `json:"cursor,omitzero" doc:"Where the next page begins; absent on the last one."`
}

type (
	readyData struct {
		Event       string    `json:"event"`
		LastEventID string    `json:"last_event_id" doc:"Where the stream begins."`
		Timestamp   time.Time `json:"timestamp"`
	}
	entryData struct {
		Event string `json:"event"`
		Entry
	}
	gapData struct {
		Event  string `json:"event"`
		Reason string `json:"reason" doc:"Why, for a person."`
	}
)

// Events are the messages of the stream.
var Events = route.Events{Name: "FeedEvent", Tag: "event", Of: []route.Event{
	{Name: "ready", Data: reflect.TypeFor[readyData](), Doc: "The stream is open."},
	{Name: "entry", Data: reflect.TypeFor[Entry](), Doc: "Something happened."},
	{Name: "gap", Data: reflect.TypeFor[gapData](), Doc: "More than 200 entries are missing here: read the feed itself."},
}}

// Routes returns the operations.
func (s *Service) Routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/feed", ID: "getActivityFeed", Tag: "Feed", Scopes: []authz.Scope{"runs:read"}, Role: authz.Viewer,
			Summary: "Read what happened in your company",
			Doc: "Runs, sessions and agents, and what teams and initiatives tell of their rounds and objectives, newest first. What is " +
				"deleted leaves the feed with it.",
			Errors: []int{400, 422},
		}, s.list),
		route.Stream(route.Row{
			Method: "GET", Path: "/api/v1/feed/stream", ID: "streamActivityFeed", Tag: "Feed",
			Scopes: []authz.Scope{"runs:read"}, Role: authz.Viewer,
			Summary: "Stream what happens in your company",
			Doc: "An `entry` for each thing that happens, as the feed shows it, at most once a second all that is new. Last-Event-ID resumes: " +
				"up to 200 entries are sent again, of more there is a `gap`.",
			Errors: []int{400}, Events: &Events,
		}, s.follow),
	}
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	q.Limit = page.Limit(in.Limit, defaultPage, maxPage)
	scope := page.ScopeOf(who.TenantID, "feed", in)
	cursor, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	before, _ := parsePosition(cursor)
	if cursor == "" {
		before = Position{}
	}
	c, err := s.read(ctx, who.TenantID, q, before)
	if err != nil {
		return nil, err
	}
	p := &Page{Entries: c.entries, Total: len(c.entries)}
	if p.Entries == nil {
		p.Entries = []Entry{}
	}
	if c.more {
		p.Cursor = s.Cursors.Seal(scope, c.next.String())
	}
	return p, nil
}
