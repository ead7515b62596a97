package voting

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/governance/inbox"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of work that closes votes when their time is up; the key is the
// proposal's id.
const WorkKind = "governance.vote"

// schedule has a new proposal closed when its time is up.
func (v *Voting) schedule(tx txn.Tx, p *Proposal) error {
	if v.Queue == nil {
		return nil
	}
	return v.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: p.ID, TenantID: p.TenantID, Due: p.ClosesAt})
}

// Handle is the work.Handler of WorkKind. It counts the votes on a proposal whose time is
// up. What was passed and is to be carried out waits for an admin, who decides that.
func (v *Voting) Handle(ctx context.Context, lease work.Lease) error {
	return v.writer.Write(ctx, func(tx txn.Tx) error {
		if err := v.Queue.FinishTx(tx, lease); err != nil {
			return err
		}
		p, err := v.proposals.GetTx(tx, lease.TenantID, lease.Key)
		if fault.Is(err, fault.NotFound) || err == nil && p.Status != open {
			return nil
		}
		if err != nil {
			return err
		}
		result, err := v.count(tx, p.TenantID, p)
		if err != nil {
			return err
		}
		if _, acts := v.Executors[p.Type]; acts && result.Status == "passed" {
			return v.Inbox.SendTx(tx, p.TenantID, inbox.Item{
				Type: "domain.governance.proposal_passed", Title: "A proposal was passed and waits to be carried out: " + p.Title,
				Message: "Its time is up. An admin carries it out with POST …/tally, or vetoes it.",
				Path:    "/api/v1/governance/voting/proposals/" + p.ID, AgentID: AgentOf(p.Payload), Key: "proposal_passed/" + p.ID,
			})
		}
		return v.end(tx, authz.Caller{TenantID: p.TenantID}, p, closed, result, "proposal.closed", map[string]any{})
	})
}
