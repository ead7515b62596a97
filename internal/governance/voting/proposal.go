// Package voting lets the members of a company decide together: proposals, ballots, a
// tally that carries out what was passed, and vetoes.
package voting

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/governance/inbox"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
)

// The states of a proposal.
const (
	open     = "open"
	closed   = "closed"
	vetoed   = "vetoed"
	executed = "executed"
)

// general proposals change nothing by themselves.
const general = "general"

// Proposal is something that is voted on.
type Proposal struct {
	resource.Meta `json:"-"`

	Title           string        `json:"title" required:"true" minLength:"1" maxLength:"500" doc:"What is proposed, in a sentence."`
	Description     string        `json:"description" maxLength:"50000" doc:"What is proposed, and why."`
	Type            string        `json:"proposal_type" required:"true" enum:"general,constitution_amendment,permission_change,agent_termination" doc:"What happens once it is passed: nothing, or what payload says."`
	Payload         schema.Object `json:"payload" doc:"What a passed proposal does. constitution_amendment: the body of POST /governance/constitution/amend; permission_change: agent_id, and the body of PUT /governance/permissions/{agentId}; agent_termination: agent_id."`
	Quorum          float64       `json:"quorum" minimum:"0.6" maximum:"1" default:"0.6" doc:"The share of yes among yes and no, by weight, that passes it."`
	DeadlineHours   float64       `json:"deadline_hours" exclusiveMinimum:"0" maximum:"87600" default:"48" doc:"How long ballots are taken, in hours."`
	ProposerAgentID *string       `json:"proposer_agent_id" ref:"agent" maxLength:"36" doc:"The agent in whose name it is made; null: none."`
	ProposedBy      string        `json:"proposed_by" readOnly:"true" doc:"Who made it."`
	Status          string        `json:"status" readOnly:"true" enum:"open,closed,vetoed,executed"`
	OpensAt         time.Time     `json:"opens_at" readOnly:"true"`
	ClosesAt        time.Time     `json:"closes_at" readOnly:"true"`
	Result          *Result       `json:"result" readOnly:"true" doc:"null until the votes are counted."`
}

// Result is how a vote ended.
type Result struct {
	_ struct{} `json:"-" name:"VoteResult"`

	ProposalID    string    `json:"proposal_id" required:"true"`
	Status        string    `json:"status" required:"true" enum:"passed,rejected,expired,vetoed" doc:"expired: no one voted in time."`
	Outcome       string    `json:"outcome" required:"true" doc:"The same as status."`
	TotalVotes    int64     `json:"total_votes" required:"true"`
	ApproveWeight float64   `json:"approve_weight" required:"true"`
	RejectWeight  float64   `json:"reject_weight" required:"true"`
	AbstainWeight float64   `json:"abstain_weight" required:"true"`
	QuorumMet     bool      `json:"quorum_met" required:"true"`
	TalliedAt     time.Time `json:"tallied_at" required:"true"`
}

// Executor carries out the passed proposals of one type.
type Executor struct {
	// Check returns what is wrong with a payload, with fields such as payload.agent_id.
	Check func(payload schema.Object) []fault.Field
	// DoTx does it, in the name of the person who counts the votes.
	DoTx func(tx txn.Tx, who authz.Caller, p *Proposal) error
}

// Options are what votes need of others.
type Options struct {
	Clock  clock.Clock
	Ledger ledger.Appender
	Inbox  inbox.Sender
	Queue  work.Queue // nil: votes stay open until they are tallied
	// Agent reports whether a company has an agent. Errors: fault.NotFound.
	Agent func(tx txn.Tx, tenant, id string) error
	// Executors are by proposal type. A type without one is refused.
	Executors map[string]Executor
}

// Voting keeps the proposals and ballots of all companies.
type Voting struct {
	Options
	proposals *resource.Store[Proposal]
	ballots   *resource.Store[Ballot]
	writer    txn.Writer
}

// New returns the votes.
func New(deps resource.Deps, o Options) *Voting {
	v := &Voting{Options: o, writer: deps.Writer}
	v.proposals = resource.NewStore(v.proposalKind(), deps)
	v.ballots = resource.NewStore(v.ballotKind(), deps)
	return v
}

func (v *Voting) proposalKind() resource.Kind[Proposal] {
	return resource.Kind[Proposal]{
		Name: "proposal", Noun: "VotingProposal", Path: "/api/v1/governance/voting/proposals", IDField: "id", Tag: "Governance",
		Keys: []string{"proposals"}, PageSize: 50, MaxPageSize: 200,
		Example: `{"title":"Answer in French too","description":"Half of our customers ask for it","proposal_type":"general"}`,
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
		Omit:    []resource.Op{resource.OpPatch, resource.OpDelete},
		Indexes: []resource.Index[Proposal]{{
			Name: "status", Doc: "Only proposals in this state: open, closed, vetoed or executed.",
			Of: func(p *Proposal) string { return p.Status },
		}},
		Filters: []string{"status"},
		Default: func(p *Proposal) { p.Status = open },
		Label:   func(p *Proposal) string { return p.Title },
		Events: []resource.EventType{
			{Name: "proposal.created", Doc: "A proposal waits for votes.", Actions: []string{resource.Created}},
			{Name: "proposal.updated", Doc: "A vote was counted, vetoed or carried out: see status.", Actions: []string{resource.Updated}},
		},
		Validate: v.validate,
		Before:   v.open,
		After: func(e *resource.Edit[Proposal]) error {
			if e.Action != resource.Created {
				return nil
			}
			if err := v.notify(e.Tx, e.New); err != nil {
				return err
			}
			if err := v.schedule(e.Tx, e.New); err != nil {
				return err
			}
			return v.record(e.Tx, e.Who, "proposal.created", e.New, nil)
		},
	}
}

func (v *Voting) validate(p *Proposal) []fault.Field {
	if strings.TrimSpace(p.Title) == "" {
		return []fault.Field{{Field: "title", Message: "it is blank"}}
	}
	if p.Type == general || p.Type == "" {
		return nil
	}
	executor, ok := v.Executors[p.Type]
	if !ok {
		types := strings.Join(slices.Sorted(maps.Keys(v.Executors)), ", ")
		return []fault.Field{{Field: "proposal_type", Message: "this service does not carry it out; it knows general, " + types}}
	}
	return executor.Check(p.Payload)
}

// open begins the vote on a new proposal.
func (v *Voting) open(e *resource.Edit[Proposal]) error {
	if e.Action != resource.Created {
		return nil
	}
	if id := e.New.ProposerAgentID; id != nil {
		if err := v.Agent(e.Tx, e.Who.TenantID, *id); err != nil {
			return err
		}
	}
	if id := AgentOf(e.New.Payload); id != "" {
		if err := v.Agent(e.Tx, e.Who.TenantID, id); err != nil {
			return err
		}
	}
	e.New.ProposedBy = e.Who.UserID
	e.New.OpensAt = v.Clock.Now()
	e.New.ClosesAt = e.New.OpensAt.Add(time.Duration(e.New.DeadlineHours * float64(time.Hour)))
	return nil
}

// notify sends a proposal that waits for votes to the admins.
func (v *Voting) notify(tx txn.Tx, p *Proposal) error {
	return v.Inbox.SendTx(tx, p.TenantID, inbox.Item{
		Type: "domain.governance.proposal_opened", Title: "A proposal waits for votes: " + p.Title, Message: p.Description,
		Path: "/api/v1/governance/voting/proposals/" + p.ID, AgentID: AgentOf(p.Payload), Key: "proposal/" + p.ID,
	})
}

// record writes an entry about a proposal to the ledger.
func (v *Voting) record(tx txn.Tx, who authz.Caller, kind string, p *Proposal, details map[string]any) error {
	all := map[string]any{"proposal_id": p.ID, "title": p.Title, "type": p.Type}
	maps.Copy(all, details)
	return v.Ledger.AppendTx(tx, who.TenantID, ledger.Entry{Kind: kind, ActorUserID: who.UserID, Details: all})
}

// AgentOf returns the agent that a payload names.
func AgentOf(payload schema.Object) string {
	var named struct {
		AgentID string `json:"agent_id"`
	}
	_ = json.Unmarshal(payload, &named) // another kind of value is none
	return named.AgentID
}

// NeedsAgent is an Executor.Check of payloads that name an agent.
func NeedsAgent(payload schema.Object) []fault.Field {
	if AgentOf(payload) == "" {
		return []fault.Field{{Field: "payload.agent_id", Message: "required: the id of the agent that it is about", Code: fault.CodeRequired}}
	}
	return nil
}

// Open returns up to limit proposals that are voted on, the oldest first.
func (v *Voting) Open(ctx context.Context, tenant string, limit int) ([]*Proposal, error) {
	return v.proposals.List(ctx, tenant, resource.Find{Where: map[string]string{"status": open}, Asc: true, Limit: limit})
}
