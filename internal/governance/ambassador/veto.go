package ambassador

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
)

type vetoIn struct {
	Body struct {
		_ struct{} `json:"-" name:"AmbassadorVetoCreate"`

		TargetType string `json:"target_type" required:"true" enum:"proposal,action,agent,case" doc:"proposal: it is vetoed; action: the approval that a run waits for is rejected; agent: it is suspended; case: it is closed."`
		TargetID   string `json:"target_id" required:"true" minLength:"1" maxLength:"36" doc:"The id of the proposal, approval, agent or case."`
		Reason     string `json:"reason" required:"true" minLength:"1" maxLength:"4000" doc:"Why, for the ledger and for whoever looks at the target later."`
	}
}

// veto carries out the veto of the caller, who is an ambassador.
func (a *Ambassadors) veto(ctx context.Context, who authz.Caller, in *vetoIn) (*route.Reply, error) {
	b := &in.Body
	vetoTx, err := a.Targets[b.TargetType](ctx, who, b.TargetID)
	if err != nil {
		return nil, err
	}
	var reply *route.Reply
	err = a.writer.Write(ctx, func(tx txn.Tx) error {
		issuer, err := a.people.ListTx(tx, who.TenantID, resource.Find{Unique: who.UserID, Limit: 1})
		if err != nil {
			return err
		}
		if len(issuer) == 0 || !issuer[0].Permissions.CanVeto {
			return fault.New(fault.Forbidden, "", "Only an ambassador with the permission can_veto may veto; the caller is none.")
		}
		v := a.vetoes.Blank()
		v.IssuedBy, v.TargetType, v.TargetID, v.Reason, v.IssuedAt = who.UserID, b.TargetType, b.TargetID, b.Reason, a.Clock.Now()
		if err := a.vetoes.CreateTx(tx, who, v); err != nil {
			return err
		}
		if err := vetoTx(tx, b.Reason); err != nil {
			return err
		}
		entry := ledger.Entry{Kind: "veto.issued", ActorUserID: who.UserID, Details: map[string]any{
			"veto_id": v.ID, "target_type": v.TargetType, "target_id": v.TargetID, "reason": v.Reason,
		}}
		if v.TargetType == "agent" {
			entry.SubjectAgentID = v.TargetID
		}
		if err := a.Ledger.AppendTx(tx, who.TenantID, entry); err != nil {
			return err
		}
		if err := a.tell(tx, v); err != nil {
			return err
		}
		if reply, err = a.vetoes.Reply(v); err != nil {
			return err
		}
		return txn.Answer(tx, reply)
	})
	return reply, err
}
