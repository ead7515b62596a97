package bridge

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
)

// approvalWait is how long a machine's question for a decision is held open.
const approvalWait = 10 * time.Second

// approvalOf returns the id that the platform has for the approval of a machine: those of
// two machines may be the same.
func approvalOf(taskID, approvalID string) string {
	return ident.Derive(taskID, "approval", approvalID)
}

// Decision is what people decided about a tool call of a machine.
type Decision struct {
	_ struct{} `json:"-" name:"BridgeApprovalResponse"`

	ApprovalID string     `json:"approval_id" required:"true" doc:"As the machine named it."`
	TaskID     string     `json:"task_id" format:"uuid" required:"true"`
	Outcome    string     `json:"outcome" enum:"approved,rejected,expired,cancelled" required:"true" doc:"expired: there was no decision in time; cancelled: the run has ended otherwise."`
	Approved   bool       `json:"approved" required:"true" doc:"Whether the machine may make the call."`
	Arguments  schema.Any `json:"arguments,omitzero" doc:"Arguments with which the call is to be made, where the person changed them."`
	Response   string     `json:"response,omitzero" doc:"What the person who approved says to the agent."`
	Reason     string     `json:"reason,omitzero" doc:"Why it was rejected."`
	DecidedAt  *time.Time `json:"decided_at,omitzero"`
	Signature  string     `json:"signature" required:"true" doc:"HMAC-SHA256, in hex, with the machine's approval_key, of approval_id, task_id and outcome, each on a line of its own, and of the changed arguments on a fourth one."`
}

// approvalKey is the key of the signatures for a machine, in hex.
func (s *Service) approvalKey(tenant, machineID string) string {
	return Sign(hex.EncodeToString(s.Box.Derive("bridge.approvals")), tenant, machineID)
}

// Sign returns the HMAC-SHA256, in hex, of lines with a key in hex.
func Sign(key string, lines ...string) string {
	raw, err := hex.DecodeString(key)
	if err != nil {
		return ""
	}
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(mac.Sum(nil))
}

// Decision returns what people decided about a tool call of the caller's machine, and waits
// for it a while; nil: they have not. Errors: NotFound.
func (s *Service) Decision(ctx context.Context, who authz.Caller, taskID, approvalID string) (*Decision, error) {
	if approvalID == "" {
		return nil, fault.New(fault.Malformed, "INVALID_QUERY", "Say which approval is meant: with approval_id, as it was asked for.")
	}
	m, _, err := s.taskMachine(ctx, who, taskID)
	if err != nil {
		return nil, err
	}
	rang, stop := s.bells.listen(taskID)
	defer stop()
	end := time.NewTimer(approvalWait)
	defer end.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		a, err := s.approvals.GetApproval(ctx, who.TenantID, approvalOf(taskID, approvalID))
		switch {
		case err != nil:
			return nil, err
		case a.RunID != taskID:
			return nil, fault.NewNotFound("approval")
		case a.Status != run.ApprovalPending:
			return s.signed(m, taskID, approvalID, a), nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-end.C:
			return nil, nil
		case <-rang:
		case <-tick.C:
		}
	}
}

func (s *Service) signed(m *Machine, taskID, approvalID string, a *run.Approval) *Decision {
	d := &Decision{
		ApprovalID: approvalID, TaskID: taskID, Outcome: string(a.Status), Approved: a.Status == run.ApprovalApproved,
		Arguments: a.EditedArguments, Response: a.Response, Reason: a.Reason, DecidedAt: a.DecidedAt,
	}
	lines := []string{d.ApprovalID, d.TaskID, d.Outcome}
	if len(d.Arguments) > 0 {
		lines = append(lines, string(d.Arguments))
	}
	d.Signature = Sign(s.approvalKey(m.TenantID, m.MachineID), lines...)
	return d
}
