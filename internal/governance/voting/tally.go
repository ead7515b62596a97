package voting

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

type tallyIn struct {
	ID string `path:"proposalId"`
}

// tally counts the votes, which closes the vote, and carries out a passed proposal in
// the same transaction: if that fails, the vote stays open.
func (v *Voting) tally(ctx context.Context, who authz.Caller, in *tallyIn) (*Result, error) {
	var result *Result
	err := v.writer.Write(ctx, func(tx txn.Tx) error {
		p, err := v.proposals.GetTx(tx, who.TenantID, in.ID)
		if err != nil {
			return err
		}
		if p.Status != open {
			return fault.WrongState("proposal", p.Status, "counting the votes")
		}
		if result, err = v.count(tx, who.TenantID, p); err != nil {
			return err
		}
		status := closed
		if executor, ok := v.Executors[p.Type]; ok && result.Status == "passed" {
			if err := executor.DoTx(tx, who, p); err != nil {
				return err
			}
			status = executed
		}
		if err := v.end(tx, who, p, status, result, "proposal.tallied", map[string]any{"executed": status == executed}); err != nil {
			return err
		}
		return txn.Answer(tx, result)
	})
	return result, err
}

// end stores the end of a vote, and records it with further details.
func (v *Voting) end(tx txn.Tx, who authz.Caller, p *Proposal, status string, r *Result, action string, details map[string]any) error {
	if _, err := v.proposals.UpdateTx(tx, who, p.ID, func(p *Proposal) error {
		p.Status, p.Result = status, r
		return nil
	}); err != nil {
		return err
	}
	details["status"], details["approve_weight"], details["reject_weight"] = r.Status, r.ApproveWeight, r.RejectWeight
	return v.record(tx, who, action, p, details)
}

// count adds up the ballots: a proposal is passed by at least one yes, and a share of
// yes among yes and no that reaches the quorum.
func (v *Voting) count(tx txn.Tx, tenant string, p *Proposal) (*Result, error) {
	const page = 500
	r := &Result{ProposalID: p.ID, TalliedAt: v.Clock.Now()}
	yes := 0
	for after := ""; ; {
		ballots, err := v.ballots.ListTx(tx, tenant, resource.Find{
			Where: map[string]string{"proposal_id": p.ID}, After: after, Asc: true, Limit: page,
		})
		if err != nil {
			return nil, err
		}
		for _, b := range ballots {
			r.TotalVotes++
			switch b.Vote {
			case "yes":
				yes++
				r.ApproveWeight += b.Weight
			case "no":
				r.RejectWeight += b.Weight
			default:
				r.AbstainWeight += b.Weight
			}
		}
		if len(ballots) < page {
			break
		}
		after = ballots[len(ballots)-1].ID
	}
	// Weights are decimal numbers: 0.6 of them must not fail for the sixteenth digit.
	const rounding = 1e-9
	r.QuorumMet = r.ApproveWeight > 0 && r.ApproveWeight >= p.Quorum*(r.ApproveWeight+r.RejectWeight)-rounding
	switch {
	case yes > 0 && r.QuorumMet:
		r.Status = "passed"
	case r.TotalVotes == 0 && !r.TalliedAt.Before(p.ClosesAt):
		r.Status = "expired"
	default:
		r.Status = "rejected"
	}
	r.Outcome = r.Status
	return r, nil
}

type vetoIn struct {
	ID   string `path:"proposalId"`
	Body struct {
		_ struct{} `json:"-" name:"ProposalVeto"`

		Reason string `json:"reason" maxLength:"4000" doc:"Why; kept in the ledger."`
	}
}

type done struct {
	_ struct{} `json:"-" name:"GovernanceDone"`

	OK bool `json:"ok" required:"true"`
}

func (v *Voting) veto(ctx context.Context, who authz.Caller, in *vetoIn) (*done, error) {
	answer := &done{OK: true}
	err := v.writer.Write(ctx, func(tx txn.Tx) error {
		if err := v.VetoTx(tx, who, in.ID, in.Body.Reason); err != nil {
			return err
		}
		return txn.Answer(tx, answer)
	})
	return answer, err
}

// VetoTx ends the vote on a proposal, whatever the votes are. A veto may be repeated.
// Errors: fault.NotFound; fault.Conflict for a proposal that was carried out.
func (v *Voting) VetoTx(tx txn.Tx, who authz.Caller, id, reason string) error {
	p, err := v.proposals.GetTx(tx, who.TenantID, id)
	switch {
	case err != nil:
		return err
	case p.Status == vetoed:
		return nil
	case p.Status == executed:
		return fault.WrongState("proposal", p.Status, "a veto")
	}
	result, err := v.count(tx, who.TenantID, p)
	if err != nil {
		return err
	}
	result.Status, result.Outcome = vetoed, vetoed
	if _, err := v.proposals.UpdateTx(tx, who, id, func(p *Proposal) error {
		p.Status, p.Result = vetoed, result
		return nil
	}); err != nil {
		return err
	}
	return v.record(tx, who, "proposal.vetoed", p, map[string]any{"reason": reason})
}

// Routes returns the operations on proposals and ballots.
func (v *Voting) Routes() []route.Route {
	row := func(method, path, id, summary string, role authz.Role) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1/governance/voting/proposals/{proposalId}" + path, ID: id, Tag: "Governance", Summary: summary,
			Scopes: []authz.Scope{"agents:write"}, Role: role, Errors: []int{409},
		}
		if method == "GET" {
			r.Scopes, r.Errors = []authz.Scope{"agents:read"}, nil
		}
		return r
	}
	ballot := row("POST", "/ballot", "castBallot", "Vote on a proposal; a voter's second ballot replaces the first.", authz.Developer)
	ballot.Status = 201
	veto := row("POST", "/veto", "vetoProposal", "Veto a proposal, whatever the votes are.", authz.Admin)
	veto.Optional = true
	return append(resource.Routes(v.proposals),
		route.Action(ballot, v.cast),
		route.Action(row("GET", "/ballots", "listBallots", "List the ballots on a proposal, newest first.", ""), v.listBallots),
		route.Action(
			row("POST", "/tally", "tallyVotes", "Count the votes on a proposal, and carry it out if it is passed.", authz.Admin), v.tally),
		route.Action(veto, v.veto),
	)
}

// CheckPassed implements constitution.Proposals: a proposal that was carried out
// justifies nothing more. Errors: fault.NotFound; fault.Conflict.
func (v *Voting) CheckPassed(ctx context.Context, tenant, id string) error {
	p, err := v.proposals.Get(ctx, tenant, id)
	if err != nil {
		return err
	}
	if p.Status != closed || p.Result.Status != "passed" {
		return fault.New(fault.Conflict, "PROPOSAL_NOT_PASSED",
			"The proposal is %s; name one that was passed and was not carried out yet.", p.Status)
	}
	return nil
}

// PassedTx refuses a proposal that was not passed. Errors: fault.NotFound;
// fault.Conflict.
func (v *Voting) PassedTx(tx txn.Tx, tenant, id string) error {
	p, err := v.proposals.GetTx(tx, tenant, id)
	if err == nil && (p.Status == vetoed || p.Result == nil || p.Result.Status != "passed") {
		err = fault.New(fault.Conflict, "PROPOSAL_NOT_PASSED", "The vote that decides on this is %s, and was not passed.", p.Status)
	}
	return err
}

// Proposals returns what keeps the proposals.
func (v *Voting) Proposals() *resource.Store[Proposal] { return v.proposals }
