package app

import (
	"slices"
	"strings"

	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/teams/errand"
	"agentd/internal/teams/errand/errandsql"
	"agentd/internal/teams/team"
	"agentd/internal/teams/teamrun"
	"agentd/internal/teams/teamrun/teamrunsql"
)

// teams are groups of agents, and their runs.
type teams struct {
	teams *team.Teams
	runs  *teamrun.Service
	// errands are the tasks of teams that agents of other systems do.
	errands *errand.Service
}

func newTeams(
	p *platform, accounts *accounts, content *content, tools *tools, agents *agents, execution *execution, permitted *permissions,
) *teams {
	runs := runsql.New(p.db)
	hasAgent := func(tx txn.Tx, tenant, id string) error {
		_, err := agents.agents.Store().GetTx(tx, tenant, id)
		return err
	}
	t := &teams{runs: &teamrun.Service{
		Store: teamrunsql.New(p.db), Runs: execution.runs, Writer: p.db, Queue: p.queue, Log: execution.events, Hub: p.hub,
		Cursors: p.cursors, Clock: p.clock, Governor: permitted.governor(), Lease: lease, Quota: accounts.usage, Agent: hasAgent,
		AgentName: runNames{agents: agents.agents}.AgentName, Children: runs.ListChildren, WorkingTx: runs.ListUnfinishedChildrenTx,
		Unfinished: runs.CountUnfinishedTx, Tell: tellFeed(p),
	}}
	t.errands = &errand.Service{
		Store: errandsql.New(p.db), Peers: tools.peers, Credentials: tools.keys,
		Writer: p.db, Queue: p.queue, Clock: p.clock, Over: t.runs.IsOver,
	}
	t.runs.External = t.errands
	t.teams = team.New(p.kernel, team.Options{
		Agent: hasAgent,
		Workspace: func(tx txn.Tx, tenant, id string) error {
			_, err := content.workspaces.Table.LockTx(tx, tenant, id)
			return err
		},
		Credential: tools.keys.CheckTx,
		Quota:      accounts.usage,
		Deleted:    t.runs.TeamDeletedTx,
	})
	t.runs.Teams = t.teams
	return t
}

func (t *teams) part(p *platform) part {
	routes := slices.Concat(t.teams.Routes(), t.runs.Routes())
	return part{
		name: "teams", routes: append(routes, alsoAt("/api/v1/squads", "/api/v1/teams", routes)...),
		workers: []worker{p.worker(teamrun.WorkKind, 16, t.runs.Handle), p.worker(errand.WorkKind, 32, t.errands.Handle)},
	}
}

// alsoAt returns the routes below a path once more, below another one.
func alsoAt(other, path string, routes []route.Route) (more []route.Route) {
	for _, r := range routes {
		if rest, below := strings.CutPrefix(r.Path, path); below {
			r.Path, r.Hidden = other+rest, true
			more = append(more, r)
		}
	}
	return more
}
