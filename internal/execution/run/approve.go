package run

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// ApproveRequest is the body of an approval.
type ApproveRequest struct {
	ApprovalID string     `json:"approval_id,omitzero" format:"uuid" doc:"Which approval; if omitted, the pending one."`
	Response   string     `json:"response,omitzero" maxLength:"10000" doc:"Message to the agent, added to the call's result."`
	Arguments  schema.Any `json:"arguments,omitzero" doc:"A JSON object that replaces the arguments that the model wrote."`
}

// RejectRequest is the body of a rejection.
type RejectRequest struct {
	ApprovalID string `json:"approval_id,omitzero" format:"uuid" doc:"Which approval; if omitted, the pending one."`
	Reason     string `json:"reason,omitzero" maxLength:"10000" doc:"Why, for the model and for people who look at the run."`
	Continue   bool   `json:"continue,omitzero" doc:"Report the rejection to the model and continue the run, instead of ending it."`
}

// ApproveAnswer is the answer of an approval.
type ApproveAnswer struct {
	_ struct{} `json:"-" name:"RunApproved"`

	Approved   bool   `json:"approved" required:"true"`
	RunID      string `json:"run_id" required:"true"`
	ApprovalID string `json:"approval_id" required:"true"`
}

// RejectAnswer is the answer of a rejection.
type RejectAnswer struct {
	_ struct{} `json:"-" name:"RunRejected"`

	Rejected   bool   `json:"rejected" required:"true"`
	RunID      string `json:"run_id" required:"true"`
	ApprovalID string `json:"approval_id,omitzero"`
	Reason     string `json:"reason,omitzero"`
}

// Approve approves a tool call. Errors: NotFound for the run or the approval;
// Conflict where the run does not wait for approval, the approval was decided
// already, or several are pending and none is named.
func (s *Service) Approve(ctx context.Context, who authz.Caller, id string, in ApproveRequest) (ApproveAnswer, error) {
	if len(in.Arguments) > 0 && jsontext.Value(in.Arguments).Kind() != '{' {
		return ApproveAnswer{}, fault.BadFields(fault.Field{Field: "arguments", Message: "expected an object"})
	}
	by := s.Redaction.Of(who.TenantID)
	if arguments := jsontext.Value(in.Arguments); by.JSON(arguments).String() != arguments.String() {
		return ApproveAnswer{}, fault.BadFields(fault.Field{
			Field: "arguments", Message: "holds data of a kind that the company does not store, so that the call could not be made; leave it out",
		})
	}
	in.Response = by.Text(in.Response)
	var answer ApproveAnswer
	ctx = txn.WithAnswer(ctx, func() any { return answer })
	err := s.mutate(ctx, who.TenantID, id, func(c *mutation) error {
		a, others, err := c.choose(in.ApprovalID)
		if err != nil {
			return err
		}
		a.Status, a.Response = ApprovalApproved, in.Response
		if len(in.Arguments) > 0 && HashArguments(string(in.Arguments)) != a.ArgumentsHash {
			a.EditedArguments = in.Arguments
		}
		if err := c.decide(a, who); err != nil {
			return err
		}
		answer = ApproveAnswer{Approved: true, RunID: id, ApprovalID: a.ApprovalID}
		if others > 0 {
			return nil
		}
		return c.resume()
	})
	return answer, err
}

// Reject rejects a tool call: the run ends or, with Continue, the model gets the
// rejection as the call's result. Errors: as Approve.
func (s *Service) Reject(ctx context.Context, who authz.Caller, id string, in RejectRequest) (RejectAnswer, error) {
	var answer RejectAnswer
	ctx = txn.WithAnswer(ctx, func() any { return answer })
	err := s.mutate(ctx, who.TenantID, id, func(c *mutation) (err error) {
		answer, err = c.reject(who, in)
		return err
	})
	return answer, err
}

// RejectTx is Service.Reject inside a transaction. Errors: as Approve.
func RejectTx(tx txn.Tx, s *Service, who authz.Caller, id string, in RejectRequest) error {
	return mutateTx(tx, s, who.TenantID, id, func(c *mutation) error {
		_, err := c.reject(who, in)
		return err
	})
}

func (c *mutation) reject(who authz.Caller, in RejectRequest) (RejectAnswer, error) {
	in.Reason = c.s.Redaction.Of(who.TenantID).Text(in.Reason)
	a, others, err := c.choose(in.ApprovalID)
	if err != nil {
		return RejectAnswer{}, err
	}
	a.Status, a.Reason = ApprovalRejected, in.Reason
	if err := c.decide(a, who); err != nil {
		return RejectAnswer{}, err
	}
	answer := RejectAnswer{Rejected: true, RunID: c.r.RunID, ApprovalID: a.ApprovalID, Reason: in.Reason}
	switch {
	case !in.Continue:
		sentence := in.Reason
		if sentence == "" {
			sentence = "The call of " + a.ToolName + " was not approved."
		}
		return answer, c.end(Rejected, CodeApprovalRejected, sentence)
	case others > 0:
		return answer, nil
	}
	return answer, c.resume()
}

// choose returns the approval that a decision is about, and how many others are
// pending.
func (c *mutation) choose(id string) (*Approval, int, error) {
	if c.r.Wait.Approvals == 0 && id != "" {
		return nil, 0, fault.NewNotFound("approval")
	}
	all, err := c.s.Runs.ListApprovalsByRun(c.tx.Context(), c.tx, c.r.TenantID, c.r.RunID)
	if err != nil {
		return nil, 0, err
	}
	var chosen *Approval
	pending := 0
	for i := range all {
		a := &all[i]
		if a.Status == ApprovalPending {
			pending++
		}
		if a.ApprovalID == id || id == "" && a.Status == ApprovalPending {
			chosen = a
		}
	}
	switch {
	case id != "" && chosen == nil:
		return nil, 0, fault.NewNotFound("approval")
	case chosen != nil && chosen.Status != ApprovalPending:
		return nil, 0, fault.WrongState("approval", string(chosen.Status), "a decision")
	case c.r.Status != AwaitingApproval || chosen == nil:
		return nil, 0, fault.WrongState("run", string(c.r.Status), "a decision on an approval")
	case id == "" && pending > 1:
		return nil, 0, fault.New(fault.Conflict, "INVALID_STATE_TRANSITION",
			"The run waits for %d approvals; name one by its approval_id.", pending)
	}
	return chosen, pending - 1, nil
}

func (c *mutation) decide(a *Approval, who authz.Caller) error {
	a.Decision, a.DecidedAt, a.DecidedBy = a.Status, &c.now, who.UserID
	if err := c.s.Runs.UpdateApproval(a)(c.tx); err != nil {
		return err
	}
	details, err := json.Marshal(ResolvedData(a), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	err = audit.Write(c.s.Audit, c.tx, who, audit.Entry{
		Action: "run.approval_decided", TargetType: "run", TargetID: c.r.RunID, Details: details,
	})
	if err != nil {
		return err
	}
	return c.emitResolved(a)
}

func (c *mutation) emitResolved(a *Approval) error {
	if c.s.OnApproval != nil {
		c.s.OnApproval(c.tx, a.TenantID, a.ApprovalID)
	}
	return c.emit("approval.resolved", ResolvedData(a))
}

// ResolvedData is the data of the event approval.resolved.
func ResolvedData(a *Approval) any {
	return struct {
		ApprovalID string         `json:"approval_id"`
		ToolCallID string         `json:"tool_call_id"`
		Name       string         `json:"name"`
		Status     ApprovalStatus `json:"status"`
		DecidedBy  string         `json:"decided_by,omitzero"`
		Reason     string         `json:"reason,omitzero"`
		Edited     bool           `json:"edited,omitzero"`
	}{a.ApprovalID, a.ToolCallID, a.ToolName, a.Status, a.DecidedBy, a.Reason, len(a.EditedArguments) > 0}
}

// closeApprovals closes the pending approvals of a run that ends without a
// decision about them.
func (c *mutation) closeApprovals(as ApprovalStatus) error {
	if c.r.Wait.Approvals == 0 {
		return nil
	}
	all, err := c.s.Runs.ListApprovalsByRun(c.tx.Context(), c.tx, c.r.TenantID, c.r.RunID)
	if err != nil {
		return err
	}
	for i := range all {
		a := &all[i]
		if a.Status != ApprovalPending {
			continue
		}
		a.Status, a.DecidedAt = as, &c.now
		if err := c.s.Runs.UpdateApproval(a)(c.tx); err != nil {
			return err
		}
		if err := c.emitResolved(a); err != nil {
			return err
		}
	}
	return nil
}
