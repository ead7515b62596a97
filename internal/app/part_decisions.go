package app

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/governance/ambassador"
	"agentd/internal/governance/assurance"
	"agentd/internal/governance/constitution"
	"agentd/internal/governance/court"
	"agentd/internal/governance/design"
	"agentd/internal/governance/goal"
	"agentd/internal/governance/improvement"
	"agentd/internal/governance/voting"
)

// decisions are what the members of a company decide.
type decisions struct {
	goals  *goal.Goals
	votes  *voting.Voting
	court  *court.Court
	envoys *ambassador.Ambassadors
	builds *design.Requests
	better *improvement.Improvements
	risks  *assurance.Assurance
}

func newDecisions(p *platform, g *governance, agents *agents, permitted *permissions, delivery *delivery, runs *run.Service) *decisions {
	waiting := governanceInbox{delivery.notifications}
	d := &decisions{
		risks: assurance.New(p.kernel, assurance.Options{
			Clock: p.clock, Ledger: g.ledger, Agents: agents.agents.Store(), Permissions: permitted.sets.Sets(), Head: g.ledger.Store.GetHead,
		}),
		builds: design.New(p.kernel, design.Options{Ledger: g.ledger, Inbox: waiting, Agent: agents.lockTx}),
		court: court.New(p.kernel, court.Options{
			Clock: p.clock, Ledger: g.ledger, Inbox: waiting, Queue: p.queue, Agents: arbiters{agents.agents},
			Penalties: penalties(agents.agents, permitted),
		}),
		goals: goal.New(p.kernel, goal.Options{Ledger: g.ledger, Agent: agents.lockTx}),
		votes: voting.New(p.kernel, voting.Options{
			Clock: p.clock, Ledger: g.ledger, Inbox: waiting, Queue: p.queue, Agent: agents.lockTx,
			Executors: map[string]voting.Executor{
				"agent_termination": {
					Check: voting.NeedsAgent,
					DoTx: func(tx txn.Tx, who authz.Caller, proposal *voting.Proposal) error {
						return agents.agents.Store().DeleteTx(tx, who, voting.AgentOf(proposal.Payload))
					},
				},
				"permission_change":      permitted.executor(),
				"constitution_amendment": {Check: checkAmendment, DoTx: g.amendTx},
			},
		}),
	}
	d.better = improvement.New(p.kernel, improvement.Options{
		Ledger: g.ledger, Inbox: waiting, LockAgent: agents.lockTx, CheckPatch: agents.agents.Store().CheckPatch,
		KnownAgent: func(ctx context.Context, tenant, id string) error {
			_, err := agents.agents.Store().Read(ctx, tenant, id)
			return err
		},
		AgentOfRun: agentOfRun(runs), PatchTx: patchTx(agents.agents), Sandbox: trialRuns{runs}, Queue: p.queue, Clock: p.clock,
		PassedTx: func(tx txn.Tx, tenant, id string) error { return d.votes.PassedTx(tx, tenant, id) },
		Vote: func(ctx context.Context, tenant, id string) error {
			_, err := d.votes.Proposals().Read(ctx, tenant, id)
			return err
		},
	})
	d.envoys = ambassador.New(p.kernel, ambassador.Options{
		Clock: p.clock, Ledger: g.ledger, Inbox: waiting, Agent: agents.lockTx, Targets: d.vetoed(agents.agents, runs),
	})
	return d
}

func (d *decisions) part(p *platform, g *governance) part {
	made := part{name: "decisions", routes: slices.Concat(
		d.goals.Routes(), d.votes.Routes(), d.court.Routes(), d.envoys.Routes(), d.builds.Routes(), d.better.Routes(),
		d.risks.Routes(),
	)}
	if g.off {
		switchOff(made.routes)
		return made
	}
	made.workers = []worker{
		p.worker(improvement.WorkKind, 4, d.better.Handle),
		p.worker(voting.WorkKind, 2, d.votes.Handle), p.worker(court.WorkKind, 2, d.court.Handle),
	}
	made.subscribers = []subscriber{
		onAgentDeleted("assessments-of-deleted-agents", func(ctx context.Context, c agentChange) error {
			return d.risks.AgentDeleted(ctx, c.TenantID, c.ID)
		}),
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
