package objective

import (
	"time"
)

// View is an objective as it is shown.
type View struct {
	_ struct{} `json:"-" name:"Objective"`

	ObjectiveID   string     `json:"objective_id" format:"uuid" required:"true"`
	TenantID      string     `json:"tenant_id" required:"true"`
	MissionID     string     `json:"mission_id,omitzero" format:"uuid"`
	InitiativeID  string     `json:"initiative_id,omitzero" format:"uuid"`
	CompanyID     string     `json:"company_id,omitzero" format:"uuid" doc:"The same as initiative_id."`
	GoalID        string     `json:"goal_id,omitzero" doc:"The strategic goal of an initiative that it is for."`
	ParentID      *string    `json:"parent_id" doc:"The objective that it is a part of; null: none."`
	Title         string     `json:"title" required:"true"`
	Description   string     `json:"description" required:"true"`
	Criteria      []string   `json:"success_criteria" required:"true"`
	Status        string     `json:"status" enum:"pending,in_progress,blocked,completed,failed,skipped" required:"true" doc:"blocked: it waits for a decision. skipped: a decision was for others."`
	Priority      string     `json:"priority" required:"true"`
	AgentID       *string    `json:"assigned_agent_id" doc:"Null: the first agent works on it."`
	TeamID        *string    `json:"assigned_team_id"`
	Dependencies  []string   `json:"dependencies" required:"true" doc:"Objectives that have to be completed before it."`
	Budget        spentView  `json:"budget" required:"true"`
	Result        *string    `json:"result" doc:"The answer, its first 16 KiB; null while there is none."`
	OutputSummary *string    `json:"output_summary" doc:"The beginning of the answer."`
	Notes         []string   `json:"progress_notes" required:"true"`
	Intent        string     `json:"commanders_intent,omitzero"`
	Rules         *Rules     `json:"roe,omitzero"`
	Decisions     []Decision `json:"decision_points,omitzero"`
	Deadline      *time.Time `json:"deadline,omitzero"`
	AbortReason   string     `json:"abort_reason,omitzero" doc:"Why it was given up: exhausted_strikes_ with their number, budget_exhausted, dependency_failed, verifier_error, deadline_passed or ended."`
	StrikesUsed   int        `json:"strikes_used" required:"true"`
	Verified      bool       `json:"verified" required:"true" doc:"A judge found its success criteria met."`
	CreatedAt     time.Time  `json:"created_at" required:"true"`
	UpdatedAt     time.Time  `json:"updated_at" required:"true"`
	CompletedAt   *time.Time `json:"completed_at"`
}

// spentView is a budget with what was spent of it.
type spentView struct {
	_ struct{} `json:"-" name:"ObjectiveSpending"`

	MaxRuns      *int64   `json:"max_runs" doc:"Null: no bound."`
	MaxTokens    *int64   `json:"max_tokens"`
	MaxCostUSD   *float64 `json:"max_cost_usd"`
	SpentRuns    int64    `json:"spent_runs" required:"true"`
	SpentTokens  int64    `json:"spent_tokens" required:"true"`
	SpentCostUSD float64  `json:"spent_cost_usd" required:"true"`
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func orNone(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

// Show returns an objective as it is shown. The caller sets what it is part of.
func (o *Objective) Show(tenant string) View {
	v := View{
		ObjectiveID: o.ID, TenantID: tenant, GoalID: o.Plan.GoalID, ParentID: orNil(o.Plan.ParentID), Title: o.Plan.Title,
		Description: o.Plan.Description, Criteria: orNone(o.Plan.Criteria), Status: o.State.Status, Priority: o.Plan.Priority,
		AgentID: orNil(o.Plan.AgentID), TeamID: orNil(o.Plan.TeamID), Dependencies: orNone(o.Plan.Dependencies),
		Budget: spentView{
			MaxRuns: o.Plan.Budget.MaxRuns, MaxTokens: o.Plan.Budget.MaxTokens, MaxCostUSD: o.Plan.Budget.MaxCostUSD,
			SpentRuns: o.State.Runs, SpentTokens: o.State.Tokens, SpentCostUSD: o.State.CostUSD,
		},
		Result: orNil(o.State.Result), Notes: orNone(o.State.Notes), Intent: o.Plan.Intent, Rules: o.Plan.Rules, Decisions: o.Plan.Decisions,
		Deadline: o.Plan.Deadline, AbortReason: o.State.Abort, StrikesUsed: o.State.Strikes, Verified: o.State.Verified,
		CreatedAt: o.CreatedAt, UpdatedAt: o.State.UpdatedAt,
	}
	if o.State.Result != "" {
		v.OutputSummary = new(cut(o.State.Result, maxSummary))
	}
	if o.Over() {
		v.CompletedAt = &o.State.EndedAt
	}
	return v
}
