package court

import (
	"context"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of work that looks at cases whose ruling, or whose votes on an
// appeal, are due; the key is the case's id, and for an appeal / and its id.
const WorkKind = "governance.case"

// schedule has a case looked at when its ruling, or the votes on an appeal, are due.
func (c *Court) schedule(tx txn.Tx, on *Case, appealID string, due time.Time) error {
	if c.Queue == nil {
		return nil
	}
	item := work.Item{Kind: WorkKind, Key: on.ID, TenantID: on.TenantID, Due: due}
	if appealID != "" {
		item.Key += "/" + appealID
	}
	return c.Queue.EnqueueTx(tx, item)
}

// Handle is the work.Handler of WorkKind. A ruling that is overdue is a matter for the
// admins, who are notified; an appeal whose panel did not overturn the ruling in time is over,
// and the ruling stays.
func (c *Court) Handle(ctx context.Context, lease work.Lease) error {
	id, appealID, _ := strings.Cut(lease.Key, "/")
	return c.writer.Write(ctx, func(tx txn.Tx) error {
		if err := c.Queue.FinishTx(tx, lease); err != nil {
			return err
		}
		on, err := c.cases.GetTx(tx, lease.TenantID, id)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		system := authz.Caller{TenantID: on.TenantID}
		switch {
		case appealID == "" && on.Status == InReview:
			if err := c.record(tx, system, "case.overdue", on, map[string]any{"assigned_arbiter_id": on.ArbiterID}); err != nil {
				return err
			}
			return c.send(tx, on, "case_overdue", "A ruling is overdue",
				"An admin enters it in the name of the assigned arbiter, or closes the case by a veto.", "")
		case appealID != "" && on.Status == Appealed && on.Appeals[len(on.Appeals)-1].AppealID == appealID:
			_, err := c.cases.UpdateTx(tx, system, id, func(on *Case) error { return c.standTx(tx, system, on) })
			return err
		}
		return nil
	})
}

// standTx ends the pending appeal of a case whose votes are due: the ruling stays.
func (c *Court) standTx(tx txn.Tx, who authz.Caller, on *Case) error {
	appeal, now := &on.Appeals[len(on.Appeals)-1], c.Clock.Now()
	appeal.Status, appeal.ResolvedAt = stands, &now
	return c.resolvedTx(tx, who, on, map[string]any{"appeal_id": appeal.AppealID, "status": appeal.Status, "overdue": true})
}

// resolvedTx takes a case back from appeal.
func (c *Court) resolvedTx(tx txn.Tx, who authz.Caller, on *Case, details map[string]any) error {
	registry, err := c.registryTx(tx, on.TenantID)
	if err != nil {
		return err
	}
	on.Status = Ruled
	if len(on.Appeals) >= registry.MaxAppeals {
		on.Status = Closed
	}
	return c.record(tx, who, "appeal.resolved", on, details)
}
