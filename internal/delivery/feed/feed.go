// Package feed shows what happened in a company, newest first: runs, sessions, agents, and
// the rounds and objectives of teams and initiatives. Most of it is a view of what is kept
// elsewhere; only what groups of agents tell has a table, as nothing else keeps it in the
// order of time.
package feed

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/kernel/event"
)

// The types of entries.
const (
	RunStarted         = "run.started"
	RunCompleted       = "run.completed"
	RunFailed          = "run.failed"
	RunTimeout         = "run.timeout"
	RunCancelled       = "run.cancelled"
	SessionCreated     = "session.created"
	TickStart          = "company.tick_start"
	TickEnd            = "company.tick_end"
	CompanyPaused      = "company.paused"
	CompanyResumed     = "company.resumed"
	Escalation         = "company.escalation"
	RoundStart         = "team.round_start"
	RoundEnd           = "team.round_end"
	ObjectiveCreated   = "objective.created"
	ObjectiveCompleted = "objective.completed"
	AgentCreated       = "agent.created"
)

// titles has the title of each type, with %s for the name of what it is about.
var titles = map[string]string{
	RunStarted: "%s began a run", RunCompleted: "%s completed a run", RunFailed: "A run of %s failed",
	RunTimeout: "A run of %s took too long", RunCancelled: "A run of %s was cancelled", SessionCreated: "A session with %s began",
	TickStart: "%s began a round", TickEnd: "%s ended a round", CompanyPaused: "%s was paused", CompanyResumed: "%s goes on",
	Escalation: "%s needs a person", RoundStart: "%s began a round", RoundEnd: "%s ended its last round",
	ObjectiveCreated: "%s has a new objective", ObjectiveCompleted: "%s reached an objective", AgentCreated: "%s was created",
}

// Metrics is what a run cost.
type Metrics struct {
	_ struct{} `json:"-" name:"FeedMetrics"`

	DurationMS int64    `json:"duration_ms" doc:"How long it took."`
	Tokens     int64    `json:"tokens_used" doc:"Input and output tokens of its models."`
	CostUSD    *float64 `json:"cost_usd,omitzero" doc:"An estimate; absent where a price is unknown."`
	Steps      int64    `json:"steps"`
	ToolCalls  int64    `json:"tool_calls"`
}

// Entry is one thing that happened.
type Entry struct {
	_ struct{} `json:"-" name:"FeedEntry"`

	ID          string    `json:"feed_id" required:"true" doc:"Names the entry. It stays the same however often it is read."`
	TenantID    string    `json:"tenant_id" required:"true"`
	At          time.Time `json:"timestamp" required:"true" doc:"When it happened; of run.started when the run was requested."`
	Type        string    `json:"event_type" required:"true" enum:"run.started,run.completed,run.failed,run.timeout,run.cancelled,session.created,company.tick_start,company.tick_end,company.paused,company.resumed,company.escalation,team.round_start,team.round_end,objective.created,objective.completed,agent.created" doc:"What happened."`
	Title       string    `json:"title" required:"true" doc:"A short sentence for people."`
	Summary     string    `json:"summary,omitzero" doc:"More of it: an objective's title, the message of an escalation."`
	AgentID     string    `json:"agent_id,omitzero"`
	AgentName   string    `json:"agent_name,omitzero" doc:"Absent where the agent is gone."`
	CompanyID   string    `json:"company_id,omitzero" doc:"The initiative."`
	CompanyName string    `json:"company_name,omitzero"`
	TeamID      string    `json:"team_id,omitzero"`
	TeamName    string    `json:"team_name,omitzero"`
	SessionID   string    `json:"session_id,omitzero"`
	RunID       string    `json:"run_id,omitzero"`
	Status      string    `json:"status,omitzero" doc:"Of a run: how it ended."`
	Metrics     *Metrics  `json:"metrics,omitzero" doc:"Of a run that has ended."`
	Error       string    `json:"error,omitzero" doc:"Of a run that failed: why."`
}

// position returns the place of the entry in the feed.
func (e *Entry) position() Position { return Position{e.At, e.ID} }

// Position is a place in the feed. The zero value is its newest end.
type Position struct {
	At time.Time
	ID string
}

// String returns the position as cursors and streams keep it.
func (p Position) String() string { return strconv.FormatInt(p.At.UnixMicro(), 10) + "," + p.ID }

// parsePosition reads what String returns; other texts are no position.
func parsePosition(s string) (Position, bool) {
	at, id, _ := strings.Cut(s, ",")
	micros, err := strconv.ParseInt(at, 10, 64)
	return Position{time.UnixMicro(micros).UTC(), id}, err == nil && micros >= 0
}

// compare orders positions from old to new.
func (p Position) compare(q Position) int {
	return cmp.Or(p.At.Compare(q.At), strings.Compare(p.ID, q.ID))
}

// Query is what is read of a feed.
type Query struct {
	Before    time.Time // entries of this time or earlier; zero: all
	Since     time.Time // and of this time or later; zero: all
	AgentID   string    // "": all
	CompanyID string
	TeamID    string
	Types     []string // nil: all
	Limit     int
}

// Wants reports whether entries of a type are read.
func (q *Query) Wants(types ...string) bool {
	return q.Types == nil || slices.ContainsFunc(types, func(t string) bool { return slices.Contains(q.Types, t) })
}

// Part is what a source has. It is complete down to Until; zero: there is nothing older.
type Part struct {
	Entries []Entry // newest first
	Until   time.Time
}

// Store is the port to what the feed shows.
type Store interface {
	// Read returns the entries of each source, of one company. A part has at least
	// q.Limit entries, or is complete down to where it stopped.
	Read(ctx context.Context, tenant string, q Query) ([]Part, error)
}

// Names is the port to names. "" is one that is gone.
type Names interface {
	AgentName(ctx context.Context, tenant, id string) (string, error)
	TeamName(ctx context.Context, tenant, id string) (string, error)
	InitiativeName(ctx context.Context, tenant, id string) (string, error)
}

// Service serves the feed.
type Service struct {
	Store   Store
	Names   Names
	Cursors *page.Cursors
	Clock   clock.Clock
	Hub     *event.Hub
	// Stream names the stream of the hub on which changes of a company are announced.
	Stream func(tenant string) string
	// Since returns how far back a company's feed goes; nil or zero: to its beginning.
	Since func(ctx context.Context, tenant string) (time.Time, error)
}

// chapter is a page of the feed, newest first.
type chapter struct {
	entries []Entry
	next    Position // where the next page begins
	more    bool
}

// read returns the entries before a position that a query selects.
func (s *Service) read(ctx context.Context, tenant string, q Query, before Position) (*chapter, error) {
	if s.Since != nil {
		since, err := s.Since(ctx, tenant)
		if err != nil {
			return nil, err
		}
		if since.After(q.Since) {
			q.Since = since
		}
	}
	q.Before = before.At
	parts, err := s.Store.Read(ctx, tenant, q)
	if err != nil {
		return nil, err
	}
	var horizon time.Time
	out := &chapter{}
	for _, p := range parts {
		if p.Until.After(horizon) {
			horizon = p.Until
		}
		out.entries = append(out.entries, p.Entries...)
	}
	out.entries = slices.DeleteFunc(out.entries, func(e Entry) bool {
		return e.At.Before(horizon) || !before.At.IsZero() && e.position().compare(before) >= 0
	})
	slices.SortFunc(out.entries, func(a, b Entry) int { return b.position().compare(a.position()) })
	switch {
	case len(out.entries) > q.Limit:
		out.entries = out.entries[:q.Limit]
		out.next, out.more = out.entries[q.Limit-1].position(), true
	case !horizon.IsZero():
		out.next, out.more = Position{At: horizon}, true
	}
	return out, s.name(ctx, tenant, out.entries)
}

// name adds the names and titles of entries.
func (s *Service) name(ctx context.Context, tenant string, entries []Entry) error {
	known := map[string]string{}
	look := func(kind, id string, read func(context.Context, string, string) (string, error)) (string, error) {
		if id == "" {
			return "", nil
		}
		if name, ok := known[kind+id]; ok {
			return name, nil
		}
		name, err := read(ctx, tenant, id)
		if fault.Is(err, fault.NotFound) {
			err = nil
		}
		known[kind+id] = name
		return name, err
	}
	for i := range entries {
		e := &entries[i]
		var err error
		if e.AgentName, err = look("agent ", e.AgentID, s.Names.AgentName); err != nil {
			return err
		}
		if e.TeamName, err = look("team ", e.TeamID, s.Names.TeamName); err != nil {
			return err
		}
		if e.CompanyName, err = look("company ", e.CompanyID, s.Names.InitiativeName); err != nil {
			return err
		}
		who := cmp.Or(e.CompanyName, e.TeamName, e.AgentName)
		if who == "" {
			who = "something that was deleted"
			if strings.HasPrefix(titles[e.Type], "%s") {
				who = "Something that was deleted"
			}
		}
		e.TenantID, e.Title = tenant, strings.ReplaceAll(titles[e.Type], "%s", who)
	}
	return nil
}
