package app

import (
	"context"
	"strings"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/notification"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/kernel/resource"
	"agentd/internal/operation/retention"
	"agentd/internal/teams/initiative"
	"agentd/internal/teams/initiative/initiativesql"
	"agentd/internal/teams/objective"
	"agentd/internal/teams/objective/objectivesql"
	"agentd/internal/teams/teamrun"
)

// newCrew makes what missions and initiatives pursue their objectives with.
func newCrew(p *platform, execution *execution, permitted *permissions, grouped *teams) *objective.Crew {
	runs := runsql.New(p.db)
	return &objective.Crew{
		Store: objectivesql.New(p.db), Runs: execution.runs, Teams: teamrun.Jobs{Service: grouped.runs}, Purse: runs, Writer: p.db,
		Queue: p.queue, Log: execution.events, Hub: p.hub, Clock: p.clock, Governor: permitted.governor(), Lease: lease,
		Unfinished: runs.CountUnfinishedTx, Tell: tellFeed(p),
	}
}

// pursuits returns the parts of what pursues objectives.
func pursuits(
	p *platform, delivery *delivery, content *content, agents *agents, execution *execution, permitted *permissions, grouped *teams,
	kept *retention.Service,
) []part {
	crew := newCrew(p, execution, permitted, grouped)
	initiatives := newInitiatives(p, crew, delivery, content, agents, grouped)
	return []part{
		initiatives.part(p), missionsPart(p, newMissions(p, crew, agents, grouped)),
		feedPart(p, agents, grouped, initiatives.service, kept.FeedSince),
	}
}

// initiatives are goals that are pursued for weeks.
type initiatives struct{ service *initiative.Service }

func newInitiatives(p *platform, crew *objective.Crew, delivery *delivery, content *content, agents *agents, grouped *teams) *initiatives {
	return &initiatives{initiative.New(p.kernel, initiative.Deps{
		Crew: crew, States: initiativesql.New(p.db), Agents: strategists{agents.agents}, Cursors: p.cursors, Suspended: suspended(p),
		Team: func(tx txn.Tx, tenant, id string) error {
			_, err := grouped.teams.Store().GetTx(tx, tenant, id)
			return err
		},
		Workspace: func(tx txn.Tx, tenant, id string) error {
			_, err := content.workspaces.Table.LockTx(tx, tenant, id)
			return err
		},
		Cron: todoCron,
		NotifyTx: func(tx txn.Tx, tenant string, n initiative.Notice) error {
			note := notification.Notification{
				TenantID: tenant, Type: notification.SystemAlert, Title: n.Title, Message: n.Message, Priority: notification.Warning,
				ActionURL: "/api/v1/initiatives/" + n.InitiativeID, Source: &notification.Source{Kind: "initiative", ID: n.InitiativeID},
				DedupKey: "initiative/" + n.InitiativeID + "/" + n.Key,
			}
			if n.Critical {
				note.Priority = notification.Critical
			}
			return delivery.notifications.Notify(tx, note)
		},
	})}
}

func (i *initiatives) part(p *platform) part {
	return part{
		name: "initiatives", routes: i.service.Routes(),
		workers: []worker{p.worker(initiative.WorkKind, 8, i.service.Handle)},
	}
}

// strategists implements initiative.Agents.
type strategists struct{ agents *agent.Agents }

// CreateTx implements initiative.Agents.
func (s strategists) CreateTx(tx txn.Tx, who authz.Caller, name, prompt string) (string, error) {
	g := s.agents.Store().Blank()
	g.Name, g.Prompts.System = name, prompt
	if err := s.agents.Store().CreateTx(tx, who, g); err != nil {
		return "", err
	}
	return g.ID, nil
}

// CheckTx implements initiative.Agents.
func (s strategists) CheckTx(tx txn.Tx, tenant, id string) error {
	_, err := s.agents.Store().GetTx(tx, tenant, id)
	return err
}

// DeleteNamedTx implements initiative.Agents.
func (s strategists) DeleteNamedTx(tx txn.Tx, who authz.Caller, id, suffix string) error {
	g, err := s.agents.Store().GetTx(tx, who.TenantID, id)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	case !strings.HasSuffix(g.Name, suffix):
		return nil
	}
	return s.agents.Store().DeleteTx(tx, who, id)
}

// Children implements initiative.Agents.
func (s strategists) Children(ctx context.Context, tenant, id string) ([]string, error) {
	const most = 50
	found, err := s.agents.Store().List(ctx, tenant, resource.Find{Where: map[string]string{"parent_agent_id": id}, Asc: true, Limit: most})
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	return ids, err
}
