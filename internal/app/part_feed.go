package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/text"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/feed"
	"agentd/internal/delivery/feed/feedsql"
	"agentd/internal/delivery/live"
	"agentd/internal/teams/group"
	"agentd/internal/teams/initiative"
	"agentd/internal/teams/objective"
)

// feedPart serves the activity feed.
func feedPart(
	p *platform, agents *agents, grouped *teams, initiatives *initiative.Service, since func(context.Context, string) (time.Time, error),
) part {
	s := &feed.Service{
		Store: feedsql.New(p.db), Names: feedNames{runNames{agents: agents.agents}, grouped, initiatives}, Cursors: p.cursors,
		Clock: p.clock, Hub: p.hub, Stream: live.StreamName, Since: since,
	}
	return part{name: "feed", routes: s.Routes()}
}

// feedNames implements feed.Names.
type feedNames struct {
	runNames

	teams       *teams
	initiatives *initiative.Service
}

// TeamName implements feed.Names.
func (n feedNames) TeamName(ctx context.Context, tenant, id string) (string, error) {
	t, err := n.teams.teams.Store().Get(ctx, tenant, id)
	return t.Name, err
}

// InitiativeName implements feed.Names.
func (n feedNames) InitiativeName(ctx context.Context, tenant, id string) (string, error) {
	return n.initiatives.Name(ctx, tenant, id)
}

// tellFeed returns what keeps the events of groups that the feed shows, and announces them.
func tellFeed(p *platform) group.Teller {
	store := feedsql.New(p.db)
	return func(tx txn.Tx, t group.Told) error {
		entry, shown := feedEntry(t)
		if !shown {
			return nil
		}
		p.announce.Tx(tx, t.TenantID, live.Change{Kind: "feed_entry", ID: entry.ID, Op: live.Created})
		return store.AppendTx(tx, entry)
	}
}

// feedTypes has the type of the feed's entry for each event of the run of a team, or of an
// initiative, that has one.
var feedTypes = map[string]string{
	"initiative.tick_start": feed.TickStart, "initiative.tick_end": feed.TickEnd, initiative.EventPaused: feed.CompanyPaused,
	"initiative.resumed": feed.CompanyResumed, "initiative.escalation": feed.Escalation, "objective_added": feed.ObjectiveCreated,
	"team.round_start": feed.RoundStart, "team.completed": feed.RoundEnd, "team.failed": feed.RoundEnd,
	"team.partial_failure": feed.RoundEnd, "team.cancelled": feed.RoundEnd,
}

// feedEntry returns what the feed shows of an event of a group, if it does.
func feedEntry(t group.Told) (feed.Told, bool) {
	var data struct {
		Message string `json:"message"`
		Reason  string `json:"reason"`
		Title   string `json:"title"`
		RunID   string `json:"run_id"`
		Round   int    `json:"round"`
		To      string `json:"to"`
		Error   string `json:"error"`
	}
	_ = json.Unmarshal(t.Event.Data, &data) // what cannot be read is not shown
	kind := feedTypes[t.Event.Name]
	if t.Event.Name == "objective_change" && data.To == objective.Completed {
		kind = feed.ObjectiveCompleted
	}
	if kind == "" {
		return feed.Told{}, false
	}
	e := feed.Told{
		TenantID: t.TenantID, At: t.Event.At, ID: fmt.Sprintf("%s:%s:%d", kind, t.GroupID, t.Seq), Type: kind, TeamID: t.TeamID,
		Body: feed.Body{RunID: data.RunID},
	}
	if t.TeamID == "" {
		e.CompanyID = t.GroupID
	}
	switch kind {
	case feed.RoundStart:
		e.Body.Summary = fmt.Sprintf("Round %d.", data.Round)
	case feed.ObjectiveCreated, feed.ObjectiveCompleted:
		e.Body.Summary = data.Title
	default:
		e.Body.Summary = text.Truncate(cmp.Or(data.Message, data.Reason, data.Error), 500)
	}
	return e, true
}
