// Package goal stores what agents are to achieve.
package goal

import (
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
)

// The states of a goal. The last three are final.
const (
	draft     = "draft"
	active    = "active"
	achieved  = "achieved"
	abandoned = "abandoned"
	expired   = "expired"
)

// Goal is something that an agent is to achieve.
type Goal struct {
	resource.Meta `json:"-"`

	AgentID                string     `json:"agent_id" required:"true" ref:"agent" maxLength:"36" immutable:"true" doc:"The agent that pursues it."`
	Title                  string     `json:"title" required:"true" minLength:"1" maxLength:"500" doc:"What is to be achieved, in a sentence."`
	Description            string     `json:"description" maxLength:"20000" doc:"The same at length."`
	Rationale              string     `json:"rationale" maxLength:"20000" doc:"Why it is worth pursuing."`
	AlignmentJustification string     `json:"alignment_justification" maxLength:"20000" doc:"How it fits the constitution."`
	ExpectedImpact         string     `json:"expected_impact" maxLength:"20000" doc:"What it will change."`
	ResourceEstimateUSD    float64    `json:"resource_estimate_usd" minimum:"0" maximum:"1e12" doc:"What it may cost, in US dollars."`
	TargetDate             *time.Time `json:"target_date" doc:"When it is to be achieved; null: at no certain time."`
	Status                 string     `json:"status" readOnly:"true" enum:"draft,active,achieved,abandoned,expired"`
	ProposalID             *string    `json:"proposal_id" readOnly:"true" doc:"The proposal that decided on it; null: none."`
	CheckPassed            *bool      `json:"constitution_check_passed" readOnly:"true" doc:"Whether it was found to fit the constitution; null: it was not looked at."`
}

// Options are what goals need of others.
type Options struct {
	Ledger ledger.Appender
	// Agent reports whether a company has an agent. Errors: fault.NotFound.
	Agent func(tx txn.Tx, tenant, id string) error
}

// Goals keeps the goals of all companies.
type Goals struct {
	store *resource.Store[Goal]
}

// New returns the goals.
func New(deps resource.Deps, o Options) *Goals {
	return &Goals{resource.NewStore(o.kind(), deps)}
}

// Store returns what keeps them.
func (g *Goals) Store() *resource.Store[Goal] { return g.store }

type statusIn struct {
	_ struct{} `json:"-" name:"GoalMove"`

	Status      string  `json:"status" required:"true" enum:"draft,active,achieved,abandoned,expired" doc:"achieved, abandoned and expired are final."`
	ProposalID  *string `json:"proposal_id" maxLength:"36" doc:"The proposal that decided; what is stored stays where it is left out."`
	CheckPassed *bool   `json:"constitution_check_passed" doc:"Whether the goal was found to fit the constitution; what is stored stays where it is left out."`
}

// Routes returns the operations on goals.
func (g *Goals) Routes() []route.Route {
	return append(resource.Routes(g.store), resource.Act(g.store, route.Row{
		Method: "PUT", ID: "updateGoalStatus", Summary: "Set the state of a goal.",
		Scopes: []authz.Scope{"agents:write"}, Role: authz.Admin,
	}, "/status", "status", setStatus))
}

func setStatus(e *resource.Edit[Goal], in *statusIn) error {
	if final := []string{achieved, abandoned, expired}; slices.Contains(final, e.Old.Status) && in.Status != e.Old.Status {
		return fault.WrongState("goal", e.Old.Status, "another state")
	}
	e.New.Status = in.Status
	if in.ProposalID != nil {
		e.New.ProposalID = in.ProposalID
	}
	if in.CheckPassed != nil {
		e.New.CheckPassed = in.CheckPassed
	}
	return nil
}

func (o Options) kind() resource.Kind[Goal] {
	return resource.Kind[Goal]{
		Name: "goal", Path: "/api/v1/governance/goals", IDField: "id", Tag: "Governance", Keys: []string{"goals"},
		PageSize: 50, MaxPageSize: 200,
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Admin},
		Omit:    []resource.Op{resource.OpPatch, resource.OpDelete},
		Indexes: []resource.Index[Goal]{
			{Name: "agent_id", Doc: "Only goals of this agent.", Of: func(g *Goal) string { return g.AgentID }},
			{
				Name: "status", Doc: "Only goals in this state: draft, active, achieved, abandoned or expired.",
				Of: func(g *Goal) string { return g.Status },
			},
		},
		Filters: []string{"agent_id", "status"},
		Default: func(g *Goal) { g.Status = draft },
		Label:   func(g *Goal) string { return g.Title },
		Validate: func(g *Goal) []fault.Field {
			if strings.TrimSpace(g.Title) == "" {
				return []fault.Field{{Field: "title", Message: "it is blank"}}
			}
			return nil
		},
		Before: func(e *resource.Edit[Goal]) error {
			if e.Action != resource.Created {
				return nil
			}
			return o.Agent(e.Tx, e.Who.TenantID, e.New.AgentID)
		},
		After: func(e *resource.Edit[Goal]) error {
			g, kind := e.New, "goal.moved"
			switch e.Action {
			case resource.Created:
				kind = "goal.created"
			case resource.Deleted:
				g, kind = e.Old, "goal.deleted"
			}
			return o.Ledger.AppendTx(e.Tx, e.Who.TenantID, ledger.Entry{
				Kind: kind, ActorUserID: e.Who.UserID, SubjectAgentID: g.AgentID,
				Details: map[string]any{"goal_id": g.ID, "title": g.Title, "status": g.Status},
			})
		},
	}
}
