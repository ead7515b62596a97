package court

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
)

// Appeal asks a panel to look at a ruling again.
type Appeal struct {
	_ struct{} `json:"-" name:"ArbiterAppeal"`

	AppealID        string     `json:"appeal_id" required:"true"`
	CaseID          string     `json:"case_id" required:"true"`
	FiledBy         string     `json:"filed_by" required:"true"`
	SubmittedBy     string     `json:"submitted_by" required:"true" doc:"The member who filed it."`
	Reason          string     `json:"reason" required:"true"`
	PanelArbiterIDs []string   `json:"panel_arbiter_ids" required:"true" doc:"Who decides."`
	Votes           []Vote     `json:"votes" required:"true" doc:"Oldest first."`
	Status          string     `json:"status" required:"true" enum:"pending,upheld,overturned" doc:"Whether the ruling stays (upheld) or was replaced (overturned)."`
	FiledAt         time.Time  `json:"filed_at" required:"true"`
	Deadline        time.Time  `json:"deadline" required:"true" doc:"When the votes are due."`
	ResolvedAt      *time.Time `json:"resolved_at" required:"true" nullable:"true"`
	Overturned      *Ruling    `json:"overturned_ruling,omitzero" doc:"The ruling that was replaced; only if the appeal overturned it."`
}

// Vote is what a member of a panel decides.
type Vote struct {
	_ struct{} `json:"-" name:"ArbiterVote"`

	ArbiterID string    `json:"arbiter_id" required:"true"`
	Decision  string    `json:"decision" required:"true" enum:"upheld,dismissed" doc:"Whether the complaint is right."`
	Reason    string    `json:"reason" required:"true"`
	CastAt    time.Time `json:"cast_at" required:"true"`
}

// The states of an appeal.
const (
	pending    = "pending"
	stands     = "upheld" // the ruling does
	overturned = "overturned"
)

type appealIn struct {
	ID   string `path:"caseId"`
	Body struct {
		_ struct{} `json:"-" name:"ArbiterAppealCreate"`

		FiledBy string `json:"filed_by,omitzero" maxLength:"200" doc:"Who appeals: an agent's id, or a name. Default: the caller."`
		Reason  string `json:"reason" required:"true" minLength:"1" maxLength:"10000" doc:"What is wrong with the ruling."`
	}
}

// appeal draws a panel that decides on a ruled case again.
func (c *Court) appeal(ctx context.Context, who authz.Caller, in *appealIn) (*Appeal, error) {
	var filed *Appeal
	err := c.writer.Write(ctx, func(tx txn.Tx) error {
		on, err := c.cases.GetTx(tx, who.TenantID, in.ID)
		if err != nil {
			return err
		}
		if on.Status != Ruled {
			return fault.WrongState("case", on.Status, "an appeal")
		}
		registry, err := c.registryTx(tx, who.TenantID)
		if err != nil {
			return err
		}
		if len(on.Appeals) >= registry.MaxAppeals {
			return fault.New(fault.Conflict, "appeals_exhausted",
				"A case may be appealed %d times (max_appeals of the registry).", registry.MaxAppeals)
		}
		now := c.Clock.Now()
		filed = &Appeal{
			AppealID: ident.New(), CaseID: on.ID, FiledBy: cmp.Or(strings.TrimSpace(in.Body.FiledBy), who.UserID), SubmittedBy: who.UserID,
			Reason: in.Body.Reason, Votes: []Vote{}, Status: pending, FiledAt: now, Deadline: now.Add(registry.deadline()),
		}
		if filed.PanelArbiterIDs, err = c.panel(tx, who, registry, on, filed); err != nil {
			return err
		}
		if _, err := c.cases.UpdateTx(tx, who, on.ID, func(on *Case) error {
			on.Status, on.Appeals = Appealed, append(on.Appeals, *filed)
			return nil
		}); err != nil {
			return err
		}
		if err := c.record(tx, who, "case.appealed", on, map[string]any{
			"appeal_id": filed.AppealID, "filed_by": filed.FiledBy, "panel_arbiter_ids": filed.PanelArbiterIDs,
		}); err != nil {
			return err
		}
		if err := c.send(tx, on, "case_appealed", "A case waits for the votes of a panel", filed.Reason, filed.AppealID); err != nil {
			return err
		}
		if err := c.schedule(tx, on, filed.AppealID, filed.Deadline); err != nil {
			return err
		}
		return txn.Answer(tx, filed)
	})
	return filed, err
}

// panel draws who decides on an appeal: no one who ruled or voted on the case before.
func (c *Court) panel(tx txn.Tx, who authz.Caller, registry *Registry, on *Case, filed *Appeal) ([]string, error) {
	involved := []string{on.AgainstAgentID}
	for _, by := range []string{on.FiledBy, filed.FiledBy} {
		if by != who.UserID && by != on.SubmittedBy && ident.Valid(by) {
			involved = append(involved, by)
		}
	}
	without := []string{on.Ruling.ArbiterID}
	if on.ArbiterID != nil {
		without = append(without, *on.ArbiterID)
	}
	for _, earlier := range on.Appeals {
		without = append(without, earlier.PanelArbiterIDs...)
	}
	known, err := c.agentsTx(tx, who.TenantID, append(slices.Clone(involved), registry.ArbiterAgentIDs...))
	if err != nil {
		return nil, err
	}
	if by := filed.FiledBy; by != who.UserID && ident.Valid(by) {
		if _, ok := known[by]; !ok {
			return nil, fault.NewNotFound("agent")
		}
	}
	involved = slices.DeleteFunc(involved, func(id string) bool { _, ok := known[id]; return !ok })
	return registry.draw(filed.AppealID, registry.PanelSize, known, involved, without)
}

// voteTx enters the vote of a member of the pending appeal's panel. More than half of
// the panel decide; where no decision reaches that, the ruling stays.
func (c *Court) voteTx(tx txn.Tx, who authz.Caller, on *Case, in *ruleIn) error {
	appeal := &on.Appeals[len(on.Appeals)-1]
	b := &in.Body
	if !slices.Contains(appeal.PanelArbiterIDs, b.ArbiterID) {
		return notAssigned("The appeal is decided by %s: arbiter_id has to name one of them.", strings.Join(appeal.PanelArbiterIDs, ", "))
	}
	if slices.ContainsFunc(appeal.Votes, func(v Vote) bool { return v.ArbiterID == b.ArbiterID }) {
		return fault.New(fault.Conflict, "ALREADY_VOTED", "The arbiter %s voted on this appeal already.", b.ArbiterID)
	}
	if len(b.Penalties) > 0 && on.Ruling.Decision == Upheld {
		return fault.BadFields(fault.Field{Field: "penalties", Message: "" +
			"the ruling upheld the complaint, so there are no new penalties; there are where a dismissal is overturned"})
	}
	now := c.Clock.Now()
	appeal.Votes = append(appeal.Votes, Vote{ArbiterID: b.ArbiterID, Decision: b.Decision, Reason: b.Reason, CastAt: now})
	if err := c.record(tx, who, "appeal.voted", on, map[string]any{
		"appeal_id": appeal.AppealID, "arbiter_id": b.ArbiterID, "decision": b.Decision,
	}); err != nil {
		return err
	}
	votes := 0
	for _, v := range appeal.Votes {
		if v.Decision == b.Decision {
			votes++
		}
	}
	decided := 2*votes > len(appeal.PanelArbiterIDs)
	if !decided && len(appeal.Votes) < len(appeal.PanelArbiterIDs) {
		return nil
	}
	appeal.Status, appeal.ResolvedAt = stands, &now
	if decided && b.Decision != on.Ruling.Decision {
		appeal.Status, appeal.Overturned = overturned, on.Ruling
		if err := c.pardon(tx, who, on); err != nil {
			return err
		}
		if err := c.decideTx(tx, who, on, in, b.ArbiterID); err != nil {
			return err
		}
	}
	return c.resolvedTx(tx, who, on, map[string]any{
		"appeal_id": appeal.AppealID, "status": appeal.Status, "votes": fmt.Sprintf("%d of %d", votes, len(appeal.PanelArbiterIDs)),
	})
}
