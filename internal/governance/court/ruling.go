package court

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// The types of penalties. Warning is carried out by the entry in the ledger.
const (
	Warning           = "warning"
	SuspendAgent      = "suspend_agent"
	TerminateAgent    = "terminate_agent"
	RevokePermissions = "revoke_permissions"
)

// Executor carries out penalties of one type.
type Executor struct {
	// DoTx carries the penalty out. Errors: fault.NotFound for an agent that is gone.
	DoTx func(tx txn.Tx, who authz.Caller, agentID, reason string) error
	// UndoTx takes the penalty back, as far as nothing else caused the same since.
	// nil: it cannot be taken back. Errors: as DoTx.
	UndoTx func(tx txn.Tx, who authz.Caller, agentID string) error
}

// Penalty is a penalty of a ruling.
type Penalty struct {
	_ struct{} `json:"-" name:"ArbiterPenalty"`

	Type    string `json:"type" required:"true" enum:"warning,suspend_agent,terminate_agent,revoke_permissions"`
	AgentID string `json:"agent_id" required:"true"`
	Reason  string `json:"reason" required:"true"`
	Outcome string `json:"outcome" required:"true" enum:"carried_out,agent_deleted,revoked" doc:"agent_deleted: there was no such agent any more; revoked: an appeal took it back."`
}

const (
	carriedOut   = "carried_out"
	agentDeleted = "agent_deleted"
	revoked      = "revoked"
)

// PenaltyWish is a penalty that is to be carried out.
type PenaltyWish struct {
	_ struct{} `json:"-" name:"ArbiterPenaltyCreate"`

	Type    string `json:"type" required:"true" enum:"warning,suspend_agent,terminate_agent,revoke_permissions" doc:"warning: an entry in the ledger; suspend_agent: it takes no new runs; terminate_agent: it is deleted; revoke_permissions: it may use no tools."`
	AgentID string `json:"agent_id,omitzero" ref:"agent" maxLength:"36" doc:"The agent that it concerns. Default: the one that the case is about."`
	Reason  string `json:"reason,omitzero" maxLength:"2000" doc:"Why, for the ledger and for whoever looks at the agent later. Default: that of the ruling."`
}

type ruleIn struct {
	ID   string `path:"caseId"`
	Body struct {
		_ struct{} `json:"-" name:"ArbiterRulingCreate"`

		ArbiterID string        `json:"arbiter_id,omitzero" maxLength:"36" doc:"The assigned arbiter whose ruling it is; of an appeal, the member of its panel whose vote it is. Left out only where no arbiter is assigned: the caller rules."`
		Decision  string        `json:"decision" required:"true" enum:"upheld,dismissed" doc:"Whether the complaint is right."`
		Reason    string        `json:"reason,omitzero" maxLength:"10000" doc:"Why, for those who read the case."`
		Penalties []PenaltyWish `json:"penalties,omitzero" maxItems:"20" doc:"What is carried out together with the ruling; only with upheld. Of an appeal: those of the vote that decides it."`
	}
}

// rule enters the ruling of a case that is filed or in review, or a vote on an appeal.
func (c *Court) rule(ctx context.Context, who authz.Caller, in *ruleIn) (*Done, error) {
	if err := c.checkPenalties(in); err != nil {
		return nil, err
	}
	answer := &Done{OK: true}
	err := c.writer.Write(ctx, func(tx txn.Tx) error {
		on, err := c.cases.GetTx(tx, who.TenantID, in.ID)
		if err != nil {
			return err
		}
		switch on.Status {
		case Filed, InReview:
			err = c.ruleTx(tx, who, on, in)
		case Appealed:
			err = c.voteTx(tx, who, on, in)
		default:
			err = fault.WrongState("case", on.Status, "a ruling")
		}
		if err != nil {
			return err
		}
		if _, err := c.cases.UpdateTx(tx, who, on.ID, func(stored *Case) error {
			meta := stored.Meta
			*stored = *on
			stored.Meta = meta
			return nil
		}); err != nil {
			return err
		}
		return txn.Answer(tx, answer)
	})
	return answer, err
}

// checkPenalties refuses what no ruling can have.
func (c *Court) checkPenalties(in *ruleIn) error {
	if in.Body.Decision == Dismissed && len(in.Body.Penalties) > 0 {
		return fault.BadFields(fault.Field{Field: "penalties", Message: "a case that is dismissed has no penalties"})
	}
	var wrong []fault.Field
	for i, p := range in.Body.Penalties {
		if _, ok := c.Penalties[p.Type]; !ok && p.Type != Warning {
			types := strings.Join(slices.Sorted(maps.Keys(c.Penalties)), ", ")
			wrong = append(wrong, fault.Field{
				Field:   fmt.Sprintf("penalties[%d].type", i),
				Message: "this service does not carry out " + p.Type + "; it carries out warning, " + types,
			})
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

// ruleTx sets the first ruling of a case.
func (c *Court) ruleTx(tx txn.Tx, who authz.Caller, on *Case, in *ruleIn) error {
	arbiter := who.UserID
	if on.ArbiterID != nil {
		arbiter = *on.ArbiterID
	}
	if in.Body.ArbiterID != arbiter && (on.ArbiterID != nil || in.Body.ArbiterID != "") {
		return notAssigned("The case is assigned to the arbiter %s: arbiter_id has to name it.", arbiter)
	}
	return c.decideTx(tx, who, on, in, arbiter)
}

func notAssigned(format string, args ...any) error {
	return fault.New(fault.Forbidden, "not_assigned_arbiter", format, args...)
}

// decideTx sets the ruling of a case, and carries out its penalties.
func (c *Court) decideTx(tx txn.Tx, who authz.Caller, on *Case, in *ruleIn, arbiter string) error {
	penalties, err := c.punish(tx, who, on, in)
	if err != nil {
		return err
	}
	on.Status = Ruled
	on.Ruling = &Ruling{
		CaseID: on.ID, ArbiterID: arbiter, Decision: in.Body.Decision, Reason: in.Body.Reason, Penalties: penalties,
		RuledBy: who.UserID, RuledAt: c.Clock.Now(),
	}
	return c.record(tx, who, "case.ruled", on, map[string]any{
		"arbiter_id": arbiter, "decision": in.Body.Decision, "reason": in.Body.Reason, "penalties": len(penalties),
	})
}

// punish carries out the penalties of a ruling.
func (c *Court) punish(tx txn.Tx, who authz.Caller, on *Case, in *ruleIn) ([]Penalty, error) {
	var ids []string
	for _, p := range in.Body.Penalties {
		ids = append(ids, cmp.Or(p.AgentID, on.AgainstAgentID))
	}
	known, err := c.agentsTx(tx, who.TenantID, ids)
	if err != nil {
		return nil, err
	}
	done := []Penalty{}
	for i, wish := range in.Body.Penalties {
		if _, ok := known[ids[i]]; !ok && wish.AgentID != "" && wish.AgentID != on.AgainstAgentID {
			return nil, fault.NewNotFound("agent")
		}
		p := Penalty{Type: wish.Type, AgentID: ids[i], Reason: cmp.Or(wish.Reason, in.Body.Reason), Outcome: carriedOut}
		if executor, ok := c.Penalties[p.Type]; ok {
			err = executor.DoTx(tx, who, p.AgentID, p.Reason)
		} else if _, ok := known[p.AgentID]; !ok {
			err = fault.NewNotFound("agent")
		}
		if fault.Is(err, fault.NotFound) {
			p.Outcome, err = agentDeleted, nil
		}
		if err != nil {
			return nil, err
		}
		if err := c.recordPenalty(tx, who, "penalty.imposed", on, p); err != nil {
			return nil, err
		}
		done = append(done, p)
	}
	return done, nil
}

// pardon takes back the penalties of the ruling that holds, as far as that is possible.
func (c *Court) pardon(tx txn.Tx, who authz.Caller, on *Case) error {
	for i := range on.Ruling.Penalties {
		p := &on.Ruling.Penalties[i]
		executor := c.Penalties[p.Type]
		if p.Outcome != carriedOut || p.Type != Warning && executor.UndoTx == nil {
			continue
		}
		if executor.UndoTx != nil {
			if err := executor.UndoTx(tx, who, p.AgentID); fault.Is(err, fault.NotFound) {
				continue
			} else if err != nil {
				return err
			}
		}
		p.Outcome = revoked
		if err := c.recordPenalty(tx, who, "penalty.revoked", on, *p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Court) recordPenalty(tx txn.Tx, who authz.Caller, kind string, on *Case, p Penalty) error {
	about := *on
	about.AgainstAgentID = p.AgentID
	return c.record(tx, who, kind, &about, map[string]any{"type": p.Type, "reason": p.Reason, "outcome": p.Outcome})
}

// CloseTx ends a case whatever its state is; penalties that were carried out stay.
// Errors: fault.NotFound; fault.Conflict for a case that is closed.
func (c *Court) CloseTx(tx txn.Tx, who authz.Caller, id, reason string) error {
	on, err := c.cases.GetTx(tx, who.TenantID, id)
	if err != nil {
		return err
	}
	if on.Status == Closed {
		return fault.WrongState("case", on.Status, "a veto")
	}
	if _, err := c.cases.UpdateTx(tx, who, id, func(on *Case) error {
		on.Status = Closed
		return nil
	}); err != nil {
		return err
	}
	return c.record(tx, who, "case.closed", on, map[string]any{"reason": reason})
}
