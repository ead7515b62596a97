package voting

import (
	"cmp"
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// Ballot is one vote on a proposal.
type Ballot struct {
	resource.Meta `json:"-"`

	ProposalID string    `json:"proposal_id"`
	AgentID    string    `json:"agent_id" doc:"Who voted: an agent, or the person."`
	Vote       string    `json:"vote" enum:"yes,no,abstain"`
	Weight     float64   `json:"weight"`
	Reasoning  string    `json:"reasoning"`
	Signature  string    `json:"signature"`
	CastAt     time.Time `json:"cast_at"`
}

func (v *Voting) ballotKind() resource.Kind[Ballot] {
	return resource.Kind[Ballot]{
		Name: "ballot", Path: "/api/v1/governance/voting/ballots", IDField: "id", Tag: "Governance",
		Indexes: []resource.Index[Ballot]{{Name: "proposal_id", Of: func(b *Ballot) string { return b.ProposalID }}},
		Unique:  resource.Index[Ballot]{Name: "voter", Of: func(b *Ballot) string { return b.ProposalID + "/" + b.AgentID }},
	}
}

// votes are the words for votes; those on the right are stored.
var votes = map[string]string{"yes": "yes", "no": "no", "abstain": "abstain", "approve": "yes", "reject": "no"}

type castIn struct {
	ID   string `path:"proposalId"`
	Body struct {
		_ struct{} `json:"-" name:"BallotCast"`

		AgentID   string   `json:"agent_id" ref:"agent" maxLength:"36" doc:"The company's agent that votes. Default: the caller votes."`
		Vote      string   `json:"vote" required:"true" enum:"yes,no,abstain,approve,reject" doc:"approve is yes, reject is no."`
		Weight    *float64 `json:"weight" minimum:"0" maximum:"100" doc:"What the vote counts; default 1. Only an admin's choice counts, that of others is 1."`
		Reasoning string   `json:"reasoning" maxLength:"4000" doc:"Why, for those who read the ballots."`
		Signature string   `json:"signature" maxLength:"1024" doc:"Kept with the ballot, and not verified."`
	}
}

// cast takes a ballot, in place of an earlier one of the same voter.
func (v *Voting) cast(ctx context.Context, who authz.Caller, in *castIn) (*Ballot, error) {
	var stored *Ballot
	err := v.writer.Write(ctx, func(tx txn.Tx) error {
		p, err := v.proposals.GetTx(tx, who.TenantID, in.ID)
		if err != nil {
			return err
		}
		now := v.Clock.Now()
		if p.Status != open {
			return fault.WrongState("proposal", p.Status, "voting")
		}
		if !now.Before(p.ClosesAt) {
			return fault.New(fault.Conflict, "VOTE_CLOSED", "Ballots on this proposal were taken until %s.", p.ClosesAt.Format(time.RFC3339))
		}
		if err := v.checkVoter(tx, who, in.Body.AgentID); err != nil {
			return err
		}
		ballot := v.ballots.Blank()
		*ballot = Ballot{
			ProposalID: p.ID, AgentID: cmp.Or(in.Body.AgentID, who.UserID), Vote: votes[in.Body.Vote], Weight: 1,
			Reasoning: in.Body.Reasoning, Signature: in.Body.Signature, CastAt: now,
		}
		if in.Body.Weight != nil && who.Role.AtLeast(authz.Admin) {
			ballot.Weight = *in.Body.Weight
		}
		if stored, err = v.put(tx, who, ballot); err != nil {
			return err
		}
		if err := v.record(tx, who, "ballot.cast", p, map[string]any{
			"voter": ballot.AgentID, "vote": ballot.Vote, "weight": ballot.Weight,
		}); err != nil {
			return err
		}
		return txn.Answer(tx, stored)
	})
	return stored, err
}

func (v *Voting) checkVoter(tx txn.Tx, who authz.Caller, agent string) error {
	if agent == "" {
		return nil
	}
	return v.Agent(tx, who.TenantID, agent)
}

// put stores a ballot, in place of one of the same voter. The proposal is locked, so
// that no other is stored at the same time.
func (v *Voting) put(tx txn.Tx, who authz.Caller, ballot *Ballot) (*Ballot, error) {
	earlier, err := v.ballots.ListTx(tx, who.TenantID, resource.Find{Unique: ballot.ProposalID + "/" + ballot.AgentID, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(earlier) == 0 {
		return ballot, v.ballots.CreateTx(tx, who, ballot)
	}
	return v.ballots.UpdateTx(tx, who, earlier[0].ID, func(b *Ballot) error {
		meta := b.Meta
		*b = *ballot
		b.Meta = meta
		return nil
	})
}

type ballotsIn struct {
	ID string `path:"proposalId"`
}

type ballotList struct {
	_ struct{} `json:"-" name:"BallotList"`

	Ballots []*Ballot `json:"ballots" required:"true" doc:"The newest 500."`
}

func (v *Voting) listBallots(ctx context.Context, who authz.Caller, in *ballotsIn) (*ballotList, error) {
	if _, err := v.proposals.Get(ctx, who.TenantID, in.ID); err != nil {
		return nil, err
	}
	all, err := v.ballots.List(ctx, who.TenantID, resource.Find{Where: map[string]string{"proposal_id": in.ID}, Limit: 500})
	return &ballotList{Ballots: all}, err
}
