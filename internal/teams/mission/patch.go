package mission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/txn"
	"agentd/internal/teams/objective"
)

type patchIn struct {
	ID          string `path:"missionId"`
	ObjectiveID string `path:"objectiveId"`
	Body        Change
}

// Change is a change of an objective.
type Change struct {
	_ struct{} `json:"-" name:"ObjectiveUpdate"`

	Title       *string               `json:"title,omitzero" minLength:"1" maxLength:"500" doc:"What is to be reached, in a few words."`
	Description *string               `json:"description,omitzero" maxLength:"50000" doc:"The same at length."`
	Criteria    *[]string             `json:"success_criteria,omitzero" maxItems:"50" maxLength:"2000" doc:"What has to be true of the result; replaces what was there."`
	Priority    *string               `json:"priority,omitzero" enum:"low,medium,high,critical" doc:"Which objective goes first where not all can go at once."`
	AgentID     *string               `json:"assigned_agent_id,omitzero" maxLength:"36" ref:"agent" doc:"Who works on it; an empty text: the first agent of the mission."`
	TeamID      *string               `json:"assigned_team_id,omitzero" maxLength:"36" ref:"team" doc:"The team that works on it; an empty text: none."`
	Budget      *objective.Budget     `json:"budget,omitzero" doc:"What its runs may use; members that are left out stay."`
	Deadline    *time.Time            `json:"deadline,omitzero" format:"date-time" doc:"When it fails if it is not completed."`
	Intent      *string               `json:"commanders_intent,omitzero" maxLength:"20000" doc:"Why it matters and what is not to be lost."`
	Rules       *objective.Rules      `json:"roe,omitzero" doc:"What the agent that works on it may do; replaces the former rules."`
	Decisions   *[]objective.Decision `json:"decision_points,omitzero" maxItems:"10" doc:"What is decided by its result; replaces what was there."`
}

// patch changes the plan of an objective that is not over. What is under way goes on as
// it was; the next task goes by the change.
func (s *Service) patch(ctx context.Context, who authz.Caller, in *patchIn) (v objective.View, err error) {
	c := &in.Body
	if *c == (Change{}) {
		return v, fault.BadFields(fault.Field{Field: "", Message: "there is nothing to change; send at least one field"})
	}
	if c.Title != nil && strings.TrimSpace(*c.Title) == "" {
		return v, fault.BadFields(fault.Field{Field: "title", Message: "it is blank"})
	}
	found, err := s.Missions.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return v, err
	}
	if err := s.checkDecisions(ctx, who.TenantID, in); err != nil {
		return v, err
	}
	ctx = txn.WithAnswer(ctx, func() any { return v })
	err = s.Crew.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Crew.Queue.EnqueueTx(tx, s.item(found)); err != nil {
			return err
		}
		_, err := s.Missions.RequestTx(tx, who.TenantID, in.ID, func(r *Record) error {
			if now := r.status(); final(now) {
				return fault.WrongState("mission", now, "changing an objective")
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := s.checkAssigned(tx, who.TenantID, c); err != nil {
			return err
		}
		return s.Crew.Store.UpdatePlanTx(tx, who.TenantID, in.ID, in.ObjectiveID, func(o *objective.Objective) error {
			if o.Over() {
				return fault.WrongState("objective", o.State.Status, "changing it")
			}
			if err := c.apply(&o.Plan); err != nil {
				return err
			}
			v = o.Show(who.TenantID)
			v.MissionID = in.ID
			return nil
		})
	})
	return v, err
}

// checkAssigned looks up who is to work on an objective. Errors: fault.NotFound.
func (s *Service) checkAssigned(tx txn.Tx, tenant string, c *Change) error {
	if id := ptr.Value(c.AgentID); id != "" {
		if err := s.Agent(tx, tenant, id); err != nil {
			return err
		}
	}
	if id := ptr.Value(c.TeamID); id != "" {
		return s.Team(tx, tenant, id)
	}
	return nil
}

// apply changes a plan.
func (c *Change) apply(p *objective.Plan) error {
	set := func(into, from *string) {
		if from != nil {
			*into = *from
		}
	}
	set(&p.Title, c.Title)
	set(&p.Description, c.Description)
	set(&p.Priority, c.Priority)
	set(&p.AgentID, c.AgentID)
	set(&p.TeamID, c.TeamID)
	set(&p.Intent, c.Intent)
	switch {
	case p.AgentID == "" || p.TeamID == "":
	case c.AgentID != nil && c.TeamID == nil:
		p.TeamID = ""
	case c.TeamID != nil && c.AgentID == nil:
		p.AgentID = ""
	default:
		return fault.BadFields(fault.Field{Field: "assigned_team_id", Message: "it is assigned to an agent too; name one of the two"})
	}
	if c.Criteria != nil {
		p.Criteria = *c.Criteria
	}
	if c.Rules != nil {
		p.Rules = c.Rules
	}
	if c.Decisions != nil {
		p.Decisions = *c.Decisions
	}
	if c.Deadline != nil {
		p.Deadline = c.Deadline
	}
	if b := c.Budget; b != nil {
		if b.MaxRuns != nil {
			p.Budget.MaxRuns = b.MaxRuns
		}
		if b.MaxTokens != nil {
			p.Budget.MaxTokens = b.MaxTokens
		}
		if b.MaxCostUSD != nil {
			p.Budget.MaxCostUSD = b.MaxCostUSD
		}
	}
	return nil
}

// checkDecisions refuses decisions about objectives that there are not, and those by
// which objectives would wait for each other.
func (s *Service) checkDecisions(ctx context.Context, tenant string, in *patchIn) error {
	if in.Body.Decisions == nil {
		return nil
	}
	all, err := s.Crew.Store.List(ctx, tenant, in.ID)
	if err != nil {
		return err
	}
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	var wrong []fault.Field
	known := func(field, id string) {
		if !slices.Contains(ids, id) || id == in.ObjectiveID {
			wrong = append(wrong, fault.Field{Field: field, Message: "it is no other objective of the mission"})
		}
	}
	for i, d := range *in.Body.Decisions {
		for j, b := range d.Branches {
			known(fmt.Sprintf("decision_points[%d].branches[%d].objective_id", i, j), b.ObjectiveID)
		}
		if d.Fallback != "" {
			known(fmt.Sprintf("decision_points[%d].fallback_objective_id", i), d.Fallback)
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	at, before := map[string]int{}, make([][]string, len(all))
	for i, id := range ids {
		at[id] = i
	}
	for i := range all {
		before[i] = append(before[i], all[i].Plan.Dependencies...)
		decisions := all[i].Plan.Decisions
		if all[i].ID == in.ObjectiveID {
			decisions = *in.Body.Decisions
		}
		for _, d := range decisions {
			for _, b := range d.Branches {
				before[at[b.ObjectiveID]] = append(before[at[b.ObjectiveID]], all[i].ID)
			}
			if d.Fallback != "" {
				before[at[d.Fallback]] = append(before[at[d.Fallback]], all[i].ID)
			}
		}
	}
	if objective.Cyclic(ids, before) {
		return fault.BadFields(fault.Field{
			Field: "decision_points", Message: "by these decisions objectives would wait for each other in a circle",
		})
	}
	return nil
}
