package improvement

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// The states of a proposal.
const (
	proposed       = "proposed"
	arbiterReview  = "arbiter_review"
	voting         = "voting"
	sandboxTesting = "sandbox_testing"
	approved       = "approved"
	applied        = "applied"
	rejected       = "rejected"
)

// steps are the states that a person may move a proposal to. The test itself moves it
// from sandbox_testing to approved or rejected.
var steps = map[string][]string{
	proposed:       {arbiterReview, rejected},
	arbiterReview:  {voting, rejected},
	voting:         {sandboxTesting, rejected},
	sandboxTesting: {rejected},
	approved:       {applied, rejected},
}

type moveIn struct {
	AgentID string `path:"agentId"`
	Version int64  `path:"version" minimum:"1"`
	Body    struct {
		_ struct{} `json:"-" name:"ImprovementStatusSet"`

		Status string  `json:"status" required:"true" enum:"proposed,arbiter_review,voting,sandbox_testing,approved,applied,rejected" doc:"The next state: from proposed arbiter_review, then voting, then sandbox_testing, which runs the failed runs again with the change. That test makes the proposal approved or rejected. From approved applied, which changes the agent. rejected from each state but applied."`
		VoteID *string `json:"vote_proposal_id,omitzero" maxLength:"36" doc:"The vote that decides on it; only with voting. sandbox_testing then needs it passed."`
	}
}

func (m *Improvements) move(ctx context.Context, who authz.Caller, in *moveIn) (*view, error) {
	b := in.Body
	if b.VoteID != nil && b.Status != voting {
		return nil, fault.BadFields(fault.Field{Field: "vote_proposal_id", Message: "it is set only together with the status voting"})
	}
	if err := m.KnownAgent(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	if b.VoteID != nil {
		if err := m.Vote(ctx, who.TenantID, *b.VoteID); err != nil {
			return nil, err
		}
	}
	if b.Status == applied { // the addresses in the change are looked up before the transaction
		found, err := one(m.store.List(ctx, who.TenantID, resource.Find{Unique: key(in.AgentID, in.Version), Limit: 1}))
		if err == nil && found.Status == approved {
			err = m.CheckPatch(ctx, who.TenantID, in.AgentID, jsontext.Value(found.Diff))
		}
		if err != nil {
			return nil, err
		}
	}
	var answer *view
	err := m.writer.Write(ctx, func(tx txn.Tx) error {
		moved, err := m.moveTx(tx, who, in)
		if err != nil {
			return err
		}
		answer = viewOf(moved)
		return txn.Answer(tx, answer)
	})
	return answer, err
}

// moveTx moves a proposal, with what its new state does.
func (m *Improvements) moveTx(tx txn.Tx, who authz.Caller, in *moveIn) (*Proposal, error) {
	b := in.Body
	if b.Status == applied { // agents are locked before their proposals
		if err := m.LockAgent(tx, who.TenantID, in.AgentID); err != nil {
			return nil, err
		}
	}
	found, err := one(m.store.ListTx(tx, who.TenantID, resource.Find{Unique: key(in.AgentID, in.Version), Limit: 1}))
	if err != nil {
		return nil, err
	}
	before := ""
	moved, err := m.store.UpdateTx(tx, who, found.ID, func(p *Proposal) (err error) {
		before = p.Status
		if !slices.Contains(steps[p.Status], b.Status) {
			return fault.WrongState("improvement proposal", p.Status, "the step to "+b.Status)
		}
		p.Status, p.VoteID = b.Status, cmp.Or(b.VoteID, p.VoteID)
		switch b.Status {
		case sandboxTesting:
			return m.beginTest(tx, who, p)
		case applied:
			var version string
			if version, err = m.PatchTx(tx, who, p.AgentID, jsontext.Value(p.Diff)); err == nil {
				p.Applied = &version
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if b.Status == sandboxTesting || before == sandboxTesting {
		if err := m.Queue.EnqueueTx(tx, m.item(moved)); err != nil {
			return nil, err
		}
	}
	return moved, m.record(tx, who, "improvement.moved", moved)
}
