// Package initiative pursues goals for weeks: a strategist is asked at the times of a
// schedule what is to be done next, and agents and teams do it within a budget. What is
// configured is a resource; how far an initiative is stands in rows of its own, which
// only the worker that holds it changes.
package initiative

import (
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/ptr"
	"agentd/internal/kernel/resource"
)

// The states.
const (
	Active = "active"
	Paused = "paused"
)

// Initiative is goals that are pursued.
type Initiative struct {
	resource.Meta `json:"-"`

	CompanyID         string     `json:"company_id" readOnly:"true" doc:"The same as initiative_id."`
	Name              string     `json:"name" required:"true" minLength:"1" maxLength:"180" doc:"What it is called."`
	Description       string     `json:"description" maxLength:"20000" doc:"What it is, for people."`
	Mission           string     `json:"mission" required:"true" minLength:"1" maxLength:"20000" doc:"What it exists to do. The strategist and the agents that work on its objectives read it."`
	StrategicGoals    []Goal     `json:"strategic_goals" maxItems:"50" doc:"What it is to reach. An update replaces the list; a goal whose goal_id is sent back stays the one that it is."`
	StrategistAgentID string     `json:"strategist_agent_id" immutable:"true" maxLength:"36" ref:"agent" doc:"The agent that plans. Default: one is made, with the default model."`
	AgentIDs          []string   `json:"agent_ids" maxItems:"50" maxLength:"36" ref:"agent" doc:"The agents that the strategist may give objectives to, beside itself and those that it made."`
	TeamIDs           []string   `json:"team_ids" maxItems:"50" maxLength:"36" ref:"team" doc:"The teams that it may give objectives to."`
	CreatedAgentIDs   []string   `json:"created_agent_ids" readOnly:"true" doc:"Agents that the strategist made, as of the last tick."`
	Budget            Budget     `json:"budget" required:"true" merge:"1" doc:"What its runs may cost, as far as prices of models are known."`
	Status            string     `json:"status" readOnly:"true" enum:"active,paused" doc:"A paused one has no ticks, and begins nothing."`
	StatusReason      string     `json:"status_reason" readOnly:"true" doc:"Why it is paused: by_caller, or budget_exceeded."`
	Config            Config     `json:"config" merge:"1" doc:"How it works."`
	WorkspaceID       *string    `json:"workspace_id" maxLength:"36" ref:"workspace" doc:"Where the file tools of its runs work; null: each agent in its own."`
	LastTickAt        *time.Time `json:"last_tick_at" readOnly:"true" doc:"When the strategist was last asked."`
	LastSuccessAt     *time.Time `json:"last_successful_tick_at" readOnly:"true" doc:"When it last answered with a plan that could be used."`
}

// Goal is what an initiative is to reach.
type Goal struct {
	_ struct{} `json:"-" name:"StrategicGoal"`

	GoalID      string     `json:"goal_id,omitzero" maxLength:"36" doc:"A UUID; by default the server sets one. Sent back, it names the goal that stays."`
	Title       string     `json:"title" required:"true" minLength:"1" maxLength:"500" doc:"What is to be reached."`
	Description string     `json:"description" maxLength:"20000" doc:"The same at length."`
	KPIs        []KPI      `json:"kpis" maxItems:"20" doc:"How it is measured."`
	RootID      string     `json:"root_objective_id,omitzero" maxLength:"36" readOnly:"true" doc:"The objective that those of the goal are below; set by the server."`
	Deadline    *time.Time `json:"deadline,omitzero" format:"date-time" doc:"By when, for the strategist to plan by."`
	CompletedAt *time.Time `json:"completed_at,omitzero" format:"date-time" readOnly:"true" doc:"When the strategist found it reached; set by the server."`
}

// KPI is a measure of a goal.
type KPI struct {
	_ struct{} `json:"-" name:"GoalKpi"`

	Name    string   `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"What is measured; once in the goal."`
	Target  float64  `json:"target" doc:"The value to reach."`
	Current *float64 `json:"current,omitzero" doc:"The value now, which the strategist reports; it can be set too."`
}

// Budget is what the runs of an initiative may cost.
type Budget struct {
	_ struct{} `json:"-" name:"InitiativeBudget"`

	TotalUSD   float64 `json:"total_usd" required:"true" minimum:"0" maximum:"1000000000" doc:"US dollars in all. When they are used up, the initiative is paused."`
	SpentUSD   float64 `json:"spent_usd" readOnly:"true" doc:"US dollars that were spent, as of the last event; set by the server. GET …/budget is exact."`
	DailyUSD   float64 `json:"daily_limit_usd" required:"true" minimum:"0" maximum:"1000000000" doc:"US dollars of one day in UTC. When they are used up, nothing begins before the next day."`
	AlertAtPct float64 `json:"alert_threshold_pct" required:"true" minimum:"0" maximum:"100" doc:"Percent of the total, and of the daily limit, at which the event initiative.budget_alert is emitted; 0: never."`
}

// Config is how an initiative works.
type Config struct {
	_ struct{} `json:"-" name:"InitiativeConfig"`

	Schedule       string `json:"schedule" maxLength:"200" doc:"When the strategist is asked: a cron expression of five fields, at most every five minutes. Default: 0 * * * *, which is hourly."`
	Timezone       string `json:"timezone" maxLength:"100" doc:"Time zone of the schedule, such as Europe/Berlin. Default: UTC."`
	MaxConcurrency int    `json:"max_concurrency" minimum:"1" maximum:"50" doc:"Objectives that are worked on at a time. Default: 4."`
	MaxStrikes     int    `json:"max_strikes" minimum:"1" maximum:"10" doc:"Failures after which an objective is given up. Default: 3."`
	MaxNew         int    `json:"max_new_objectives" minimum:"1" maximum:"50" doc:"Objectives that one tick may add. Default: 10."`
	JudgeAgentID   string `json:"judge_agent_id" maxLength:"36" ref:"agent" doc:"The agent that verifies results. Default: the strategist."`
}

func (c *Config) complete() {
	set := func(v *int, to int) {
		if *v == 0 {
			*v = to
		}
	}
	if c.Schedule == "" {
		c.Schedule = "0 * * * *"
	}
	if c.Timezone == "" {
		c.Timezone = "UTC"
	}
	set(&c.MaxConcurrency, 4)
	set(&c.MaxStrikes, 3)
	set(&c.MaxNew, 10)
}

const example = `{"name":"Newsletter","mission":"A weekly newsletter that people read","strategic_goals":[{"title":"Weekly issues",` +
	`"kpis":[{"name":"subscribers","target":1000}]}],"budget":{"total_usd":100,"daily_limit_usd":5,"alert_threshold_pct":80}}`

// kind is the kind of resource. The store of the worker, which sets what is readOnly, has
// none of the hooks.
func (s *Service) kind(hooks bool) resource.Kind[Initiative] {
	k := resource.Kind[Initiative]{
		Name: "initiative", Path: "/api/v1/initiatives", Tag: "Initiatives", Keys: []string{"companies"}, PageSize: 50, MaxPageSize: 100,
		Example: example,
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
		Omit:    []resource.Op{resource.OpDelete}, // its answer is 204; see Routes
		Put:     resource.PutMerges,
		Counted: true,
		State:   func(i *Initiative) *string { return &i.Status },
		Default: func(i *Initiative) {
			i.Status, i.StrategicGoals, i.AgentIDs, i.TeamIDs, i.CreatedAgentIDs = Active, []Goal{}, []string{}, []string{}, []string{}
			i.Config.complete()
		},
		Label:    func(i *Initiative) string { return i.Name },
		Validate: s.validate,
	}
	if hooks {
		k.Before, k.After = s.before, s.after
	}
	return k
}

func (s *Service) validate(i *Initiative) (wrong []fault.Field) {
	add := func(field, message string) { wrong = append(wrong, fault.Field{Field: field, Message: message}) }
	if strings.TrimSpace(i.Name) == "" {
		add("name", "it is blank")
	}
	if strings.TrimSpace(i.Mission) == "" {
		add("mission", "it is blank")
	}
	ids := map[string]bool{}
	for n := range i.StrategicGoals {
		g := &i.StrategicGoals[n]
		if g.GoalID != "" && ids[g.GoalID] {
			add(goalField(n, "goal_id"), "this goal is in the list already")
		}
		ids[g.GoalID] = true
		names := map[string]bool{}
		for k := range g.KPIs {
			if names[g.KPIs[k].Name] {
				add(goalField(n, "kpis"), "two of them have the same name")
			}
			names[g.KPIs[k].Name] = true
		}
	}
	i.Config.complete()
	if _, err := s.Cron(i.Config.Schedule, i.Config.Timezone); err != nil {
		add("config.schedule", err.Error())
	}
	return wrong
}

// strategistSuffix ends the names of strategists that were made for an initiative.
const strategistSuffix = " (strategist)"

// before completes a write of a caller, and looks up what it newly refers to.
func (s *Service) before(e *resource.Edit[Initiative]) error {
	i, old := e.New, e.Old
	i.CompanyID = i.ID
	if old == nil {
		old = &Initiative{}
	}
	i.Budget.SpentUSD = old.Budget.SpentUSD
	i.keepGoals(old)
	if err := s.checkReferences(e, old); err != nil {
		return err
	}
	if e.Action == resource.Created && i.StrategistAgentID == "" {
		var err error
		i.StrategistAgentID, err = s.Agents.CreateTx(e.Tx, e.Who, i.Name+strategistSuffix, strategistPrompt)
		return err
	}
	return nil
}

// keepGoals sets what the server knows of goals that stay, and the ids of new ones.
func (i *Initiative) keepGoals(old *Initiative) {
	if i.StrategicGoals == nil {
		i.StrategicGoals = []Goal{}
	}
	for n := range i.StrategicGoals {
		g := &i.StrategicGoals[n]
		known := old.goal(g.GoalID)
		if known == nil {
			known = &Goal{}
			if !ident.Valid(g.GoalID) {
				g.GoalID = ident.New()
			}
		}
		g.RootID, g.CompletedAt = known.RootID, known.CompletedAt
		if g.KPIs == nil {
			g.KPIs = []KPI{}
		}
	}
}

func (i *Initiative) goal(id string) *Goal {
	for n := range i.StrategicGoals {
		if i.StrategicGoals[n].GoalID == id {
			return &i.StrategicGoals[n]
		}
	}
	return nil
}

func (s *Service) checkReferences(e *resource.Edit[Initiative], old *Initiative) error {
	i, tenant := e.New, e.Who.TenantID
	for _, one := range []struct{ id, before string }{
		{i.StrategistAgentID, old.StrategistAgentID}, {i.Config.JudgeAgentID, old.Config.JudgeAgentID},
	} {
		if one.id != "" && one.id != one.before {
			if err := s.Agents.CheckTx(e.Tx, tenant, one.id); err != nil {
				return err
			}
		}
	}
	agent := func(id string) error { return s.Agents.CheckTx(e.Tx, tenant, id) }
	team := func(id string) error { return s.Team(e.Tx, tenant, id) }
	if err := resource.CheckReferences("agent_ids", "agent", i.AgentIDs, old.AgentIDs, agent); err != nil {
		return err
	}
	if err := resource.CheckReferences("team_ids", "team", i.TeamIDs, old.TeamIDs, team); err != nil {
		return err
	}
	if id := ptr.Value(i.WorkspaceID); id != "" && id != ptr.Value(old.WorkspaceID) {
		return s.Workspace(e.Tx, tenant, id)
	}
	return nil
}
