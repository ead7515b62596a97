package app

import (
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/txn"
	"agentd/internal/governance/goal"
	"agentd/internal/governance/voting"
)

// decisionsPart is what the members of a company decide: goals and votes.
func decisionsPart(p *platform, g *governance, agents *agents) part {
	exists := func(tx txn.Tx, tenant, id string) error {
		_, err := agents.agents.Store().GetTx(tx, tenant, id)
		return err
	}
	goals := goal.New(p.kernel, goal.Options{Ledger: g.ledger, Agent: exists})
	votes := voting.New(p.kernel, voting.Options{
		Clock: p.clock, Ledger: g.ledger, Agent: exists,
		Executors: map[string]voting.Executor{"agent_termination": {
			Check: voting.NeedsAgent,
			DoTx: func(tx txn.Tx, who authz.Caller, proposal *voting.Proposal) error {
				return agents.agents.Store().DeleteTx(tx, who, voting.AgentOf(proposal.Payload))
			},
		}},
	})
	made := part{name: "decisions", routes: slices.Concat(goals.Routes(), votes.Routes())}
	if g.off {
		for i := range made.routes {
			made.routes[i] = switchedOff(made.routes[i])
		}
	}
	return made
}
