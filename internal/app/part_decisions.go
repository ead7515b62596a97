package app

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/governance/constitution"
	"agentd/internal/governance/goal"
	"agentd/internal/governance/voting"
)

// decisions are what the members of a company decide.
type decisions struct {
	goals *goal.Goals
	votes *voting.Voting
}

func newDecisions(p *platform, g *governance, agents *agents) *decisions {
	exists := func(tx txn.Tx, tenant, id string) error {
		_, err := agents.agents.Store().GetTx(tx, tenant, id)
		return err
	}
	return &decisions{
		goals: goal.New(p.kernel, goal.Options{Ledger: g.ledger, Agent: exists}),
		votes: voting.New(p.kernel, voting.Options{
			Clock: p.clock, Ledger: g.ledger, Agent: exists,
			Executors: map[string]voting.Executor{
				"agent_termination": {
					Check: voting.NeedsAgent,
					DoTx: func(tx txn.Tx, who authz.Caller, proposal *voting.Proposal) error {
						return agents.agents.Store().DeleteTx(tx, who, voting.AgentOf(proposal.Payload))
					},
				},
				"constitution_amendment": {Check: checkAmendment, DoTx: g.amendTx},
			},
		}),
	}
}

func (d *decisions) part(g *governance) part {
	made := part{name: "decisions", routes: slices.Concat(d.goals.Routes(), d.votes.Routes())}
	if g.off {
		for i := range made.routes {
			made.routes[i] = switchedOff(made.routes[i])
		}
	}
	return made
}

// checkAmendment returns what is wrong with the payload of a proposal to amend.
func checkAmendment(payload schema.Object) []fault.Field {
	_, err := constitution.ParseChange(jsontext.Value(payload))
	if err == nil {
		return nil
	}
	wrong := slices.Clone(fault.From(err).Fields)
	for i := range wrong {
		wrong[i] = fault.Field{Field: "payload." + wrong[i].Field, Message: wrong[i].Message, Code: wrong[i].Code}
	}
	if wrong == nil {
		wrong = []fault.Field{{Field: "payload", Message: fault.From(err).Detail}}
	}
	return wrong
}

// amendTx carries out a passed proposal to amend.
func (g *governance) amendTx(tx txn.Tx, who authz.Caller, proposal *voting.Proposal) error {
	change, err := constitution.ParseChange(jsontext.Value(proposal.Payload))
	if err != nil {
		return err
	}
	_, err = g.constitution.AmendTx(tx, constitution.Author{
		TenantID: who.TenantID, UserID: who.UserID, Proposal: proposal.ID, Caller: who,
	}, *change)
	return err
}
