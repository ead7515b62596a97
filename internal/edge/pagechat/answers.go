package pagechat

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// Answer is a person's answer to what a run waits for.
type Answer struct {
	At       string // where it stands in the request, for refusals
	ID       string // of the approval, or of the question
	Approved bool
	Reason   string
	Text     string // of a question
}

// decision is what an answer does to a run.
type decision func(ctx context.Context, who authz.Caller, runID string) error

// decide returns what an answer does to the run that waits; nil: the run does not wait for
// it.
func (c *Chats) decide(r *run.Run, a *Answer) decision {
	if in := r.PendingInput; in != nil && (in.InputID == a.ID || in.ToolCallID == a.ID) {
		return func(ctx context.Context, who authz.Caller, id string) error {
			return c.Runs.Respond(ctx, who.TenantID, id, a.Text)
		}
	}
	for _, p := range r.PendingApprovals {
		switch {
		case p.ApprovalID != a.ID:
		case a.Approved:
			return func(ctx context.Context, who authz.Caller, id string) error {
				_, err := c.Runs.Approve(ctx, who, id, run.ApproveRequest{ApprovalID: a.ID})
				return err
			}
		default:
			return func(ctx context.Context, who authz.Caller, id string) error {
				_, err := c.Runs.Reject(ctx, who, id, run.RejectRequest{ApprovalID: a.ID, Reason: a.Reason, Continue: true})
				return err
			}
		}
	}
	return nil
}

// IsOpen reports whether a run waits for an answer with an id.
func IsOpen(r *run.Run, id string) bool {
	return r != nil && (&Chats{}).decide(r, &Answer{ID: id}) != nil
}

// Decide passes answers to the run under way, which must wait for each of them. All are
// checked before the first one counts. Errors: Conflict, where another answer came first.
func (c *Chat) Decide(ctx context.Context, who authz.Caller, answers []Answer) error {
	if err := who.Check(authz.Developer, "runs:create"); err != nil {
		return err
	}
	var all []decision
	for i := range answers {
		d := c.chats.decide(c.UnderWay, &answers[i])
		if d == nil {
			return fault.New(fault.Conflict, "INTERRUPT_NOT_OPEN", "The run %s does not wait for an answer to %s; nothing was changed.",
				c.UnderWay.RunID, answers[i].ID)
		}
		all = append(all, d)
	}
	for _, d := range all {
		if err := d(ctx, who, c.UnderWay.RunID); err != nil {
			return err
		}
	}
	return nil
}

// Questions returns what a run waits for of people; empty: nothing, any more.
func (c *Chats) Questions(ctx context.Context, tenant, runID string) (*run.Run, bool, error) {
	r, err := c.Runs.Get(ctx, tenant, runID)
	if err != nil {
		return nil, false, err
	}
	return r, WaitsForPerson(r), nil
}

// Suspends reports whether a run begins to wait with an event. Whether it still does is
// known to the run only.
func Suspends(e event.Event) bool {
	return e.Name == run.AwaitingApproval.EventName() || e.Name == run.AuthRequired.EventName() || e.Name == run.Paused.EventName()
}
