package main

import (
	"fmt"
	"strings"

	"agentd/bench/load"
)

// teamRuns measures what a team adds to the runs of its members: to each step of one
// after another, and to members that work at the same time.
func teamRuns(b *bench) error {
	if err := b.team(stepsOfTeam); err != nil {
		return err
	}
	return b.team(membersOfTeam, "-ttft", "200ms", "-delay", "5ms")
}

// team measures a team beside one of its members.
func (b *bench) team(measure func(b *bench, p *process) error, model ...string) error {
	sim, err := b.start(b.sim, nil, model...)
	if err != nil {
		return err
	}
	defer sim.stop()
	p, err := b.start(b.agentd, sim)
	if err != nil {
		return err
	}
	defer p.stop()
	return measure(b, p)
}

// pairWithTeam compares a request to a team of some workers with one to an agent.
func (b *bench) pairWithTeam(p *process, workers int, settings string) (team, agent load.Result, err error) {
	ids := make([]string, workers+1)
	for i := range ids {
		if ids[i], err = p.newAgent(); err != nil {
			return team, agent, err
		}
	}
	body := fmt.Sprintf(`{"name":"bench","supervisor_agent_id":%q,%s,"workers":[{"agent_id":"%s"}]}`,
		ids[0], settings, strings.Join(ids[1:], `"},{"agent_id":"`))
	id, err := p.create("/api/v1/teams", body, "team_id")
	if err != nil {
		return team, agent, err
	}
	plan := func(model string) load.Plan {
		return load.Plan{Addr: p.addr, Request: chatOf(model, false), Clients: 1, Want: lastToken}
	}
	return b.pair(plan("team/"+id), plan(ids[1]))
}

func stepsOfTeam(b *bench, p *process) error {
	const members = 5
	team, agent, err := b.pairWithTeam(p, members, `"topology":"pipeline"`)
	if err != nil {
		return err
	}
	beside := members * agent.P50
	b.report(fmt.Sprintf("a team of %d steps: added to each, p50", members), (team.P50 / members).String(), agent.P50.String(),
		milliseconds(team.P50-beside)/members, atMost(2, " ms"))
	return nil
}

func membersOfTeam(b *bench, p *process) error {
	team, agent, err := b.pairWithTeam(p, 8, `"topology":"supervisor","delegation_strategy":"round_robin","merge_strategy":"concatenate"`)
	if err != nil {
		return err
	}
	b.report("a team of 8 workers at the same time: p50", team.P50.String(), agent.P50.String(),
		float64(team.P50)/float64(agent.P50), atMost(1.1, ""))
	return nil
}
