package app

import (
	"context"

	"agentd/internal/base/txn"
	"agentd/internal/execution/session/sessionsql"
	"agentd/internal/teams/mission"
	"agentd/internal/teams/mission/missionsql"
	"agentd/internal/teams/objective"
)

// newMissions makes what runs missions.
func newMissions(p *platform, crew *objective.Crew, agents *agents, grouped *teams) *mission.Service {
	sessions := sessionsql.New(p.db)
	return mission.New(mission.Deps{
		Crew: crew, Missions: announcedMissions{missionsql.New(p.db), p.announce}, Agent: strategists{agents.agents}.CheckTx, Cursors: p.cursors,
		Team: func(tx txn.Tx, tenant, id string) error {
			_, err := grouped.teams.Store().GetTx(tx, tenant, id)
			return err
		},
		Session: func(ctx context.Context, tenant, id string) (string, error) {
			s, err := sessions.Get(ctx, tenant, id)
			if err != nil {
				return "", err
			}
			return s.AgentID, nil
		},
	})
}

// missionsPart is the part of missions.
func missionsPart(p *platform, missions *mission.Service) part {
	return part{
		name: "missions", routes: missions.Routes(),
		workers: []worker{p.worker(mission.WorkKind, 16, missions.Handle)},
	}
}
