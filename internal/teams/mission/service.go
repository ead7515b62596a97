package mission

import (
	"context"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	kernelwork "agentd/internal/kernel/work"
	"agentd/internal/teams/objective"
)

// Deps are what missions need of others.
type Deps struct {
	Crew     *objective.Crew
	Missions Store
	// Session returns the agent of a session. Errors: fault.NotFound.
	Session func(ctx context.Context, tenant, id string) (agentID string, err error)
	// Agent and Team report whether a company has one. Errors: fault.NotFound.
	Agent   func(tx txn.Tx, tenant, id string) error
	Team    func(tx txn.Tx, tenant, id string) error
	Cursors *page.Cursors
}

// Service keeps and runs missions.
type Service struct{ Deps }

// New returns the missions.
func New(d Deps) *Service { return &Service{Deps: d} }

// Start is what a mission is started with.
type Start struct {
	_ struct{} `json:"-" name:"MissionStart"`

	SessionID      string      `json:"session_id" required:"true" maxLength:"36" ref:"session" doc:"The session that it belongs to. If available_agents is empty, the session's agent works on the objectives that name no agent."`
	Goal           string      `json:"goal" required:"true" minLength:"1" maxLength:"50000" doc:"What is to be reached."`
	Plan           *Plan       `json:"plan,omitzero" doc:"How. Without a plan the planner makes one."`
	Agents         []Available `json:"available_agents,omitzero" maxItems:"50" doc:"The agents that the planner may give objectives to. Needed without a plan, unless there is a planner_agent_id."`
	PlannerID      string      `json:"planner_agent_id,omitzero" maxLength:"36" ref:"agent" doc:"The agent that makes the plan. Default: the first of available_agents."`
	JudgeID        string      `json:"judge_agent_id,omitzero" maxLength:"36" ref:"agent" doc:"The agent that verifies results and decides at decision points. Default: the planner, or the first of available_agents, or the session's."`
	SkipClassify   bool        `json:"skip_classification,omitzero" doc:"The goal gets a plan however small it looks. Default: false."`
	Authorize      bool        `json:"requires_authorization,omitzero" doc:"A plan that the planner makes waits for POST …/authorize. Default: false."`
	Deadline       *time.Time  `json:"deadline,omitzero" format:"date-time" doc:"When it fails if it has not ended. Default: never."`
	MaxCostUSD     *float64    `json:"max_cost_usd,omitzero" minimum:"0" maximum:"1000000000" doc:"US dollars that all of its runs may cost, as far as prices are known. Default: no limit."`
	MaxConcurrency int         `json:"max_concurrency,omitzero" minimum:"1" maximum:"50" default:"8" doc:"Objectives that are worked on at a time."`
	MaxStrikes     int         `json:"max_strikes,omitzero" minimum:"1" maximum:"10" default:"3" doc:"Failures after which an objective is given up."`
}

// specOf returns what a mission is started with, and the plan that it begins with; nil:
// the planner makes one.
func (s *Service) specOf(ctx context.Context, tenant string, in *Start) (Spec, *Plan, error) {
	spec := Spec{
		Goal: in.Goal, Agents: in.Agents, PlannerID: in.PlannerID, JudgeID: in.JudgeID, Authorize: in.Authorize, Deadline: in.Deadline,
		MaxCostUSD: in.MaxCostUSD, MaxConcurrency: in.MaxConcurrency, MaxStrikes: in.MaxStrikes,
	}
	if strings.TrimSpace(in.Goal) == "" {
		return spec, nil, fault.BadFields(fault.Field{Field: "goal", Message: "it is blank"})
	}
	sessionAgent, err := s.Session(ctx, tenant, in.SessionID)
	if err != nil {
		return spec, nil, err
	}
	spec.WorkerID = sessionAgent
	if len(in.Agents) > 0 {
		spec.WorkerID = in.Agents[0].AgentID
	}
	if spec.PlannerID == "" && len(in.Agents) > 0 {
		spec.PlannerID = in.Agents[0].AgentID
	}
	if spec.JudgeID == "" {
		if spec.JudgeID = spec.PlannerID; spec.JudgeID == "" {
			spec.JudgeID = spec.WorkerID
		}
	}
	plan := in.Plan
	spec.Classification = Classify(in.Goal)
	switch {
	case plan != nil:
		spec.Classification = Classification{Classification: "mission", Score: 1, Confidence: 1}
		if plan.Classification != "" {
			spec.Classification.Classification = plan.Classification
		}
		if plan.Goal != "" {
			spec.Goal = plan.Goal
		}
	case in.SkipClassify:
		spec.Classification = Classification{Classification: "mission", Score: 1, Confidence: 1}
	}
	if plan == nil && spec.PlannerID == "" {
		return spec, nil, fault.New(fault.Malformed, "",
			"The mission has no plan and no agent that could make one. Send a plan, a planner_agent_id, or available_agents.")
	}
	if plan == nil && spec.Classification.Classification == "quick_reply" {
		title := in.Goal
		if len(title) > 500 {
			title = strings.ToValidUTF8(title[:490], "") + " […]"
		}
		plan = &Plan{Objectives: []objective.Planned{{Title: title, Description: in.Goal, Priority: "medium"}}}
		if title == in.Goal {
			plan.Objectives[0].Description = ""
		}
	}
	return spec, plan, nil
}

// create stores a mission, and the objectives of a plan that it begins with.
func (s *Service) create(ctx context.Context, who authz.Caller, in *Start) (*Record, *Plan, error) {
	spec, plan, err := s.specOf(ctx, who.TenantID, in)
	if err != nil {
		return nil, nil, err
	}
	now := s.Crew.Clock.Now()
	r := &Record{
		TenantID: who.TenantID, MissionID: ident.New(), SessionID: in.SessionID, Status: Planning, Spec: spec, KeyID: who.KeyID,
		UserID: who.UserID, CreatedAt: now, UpdatedAt: now,
	}
	r.State.Deadline = spec.Deadline
	r.State.Phases = []Phase{{Phase: "recon", StartedAt: now, CompletedAt: &now}}
	r.enter(Planning, now)
	var made []objective.Objective
	if plan != nil {
		if wrong := objective.Check(plan.Objectives); wrong != nil {
			for i := range wrong {
				wrong[i] = wrong[i].Under("plan")
			}
			return nil, nil, fault.BadFields(wrong...)
		}
		made = r.adopt(plan, now)
	}
	ctx = txn.WithAnswer(ctx, func() any { return started(r, plan) })
	return r, plan, s.Crew.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.checkReferences(tx, who.TenantID, in); err != nil {
			return err
		}
		if err := s.Missions.CreateTx(tx, r); err != nil {
			return err
		}
		if err := s.Crew.Store.CreateTx(tx, r.TenantID, r.MissionID, made); err != nil {
			return err
		}
		if spec.MaxCostUSD != nil {
			if err := s.Crew.Purse.PutBudgetTx(tx, r.TenantID, r.MissionID, run.NanoUSD(*spec.MaxCostUSD)); err != nil {
				return err
			}
		}
		return s.Crew.Queue.EnqueueTx(tx, s.item(r))
	})
}

// adopt sets the plan of a mission, and returns its objectives.
func (r *Record) adopt(plan *Plan, now time.Time) []objective.Objective {
	made := objective.Make(r.MissionID, plan.Objectives, now)
	for i := range made {
		r.State.ObjectiveIDs = append(r.State.ObjectiveIDs, made[i].ID)
	}
	if plan.Deadline != nil && (r.State.Deadline == nil || plan.Deadline.Before(*r.State.Deadline)) {
		r.State.Deadline = plan.Deadline
	}
	if plan.Authorization || r.Spec.Authorize {
		r.enter(Awaiting, now)
	} else {
		r.enter(Executing, now)
	}
	return made
}

// checkReferences looks up the agents and teams that a mission names. Errors:
// fault.NotFound.
func (s *Service) checkReferences(tx txn.Tx, tenant string, in *Start) error {
	seen := map[string]bool{"": true}
	check := func(id string, exists func(txn.Tx, string, string) error) error {
		if seen[id] {
			return nil
		}
		seen[id] = true
		return exists(tx, tenant, id)
	}
	agents, teams := []string{in.PlannerID, in.JudgeID}, []string(nil)
	for i := range in.Agents {
		agents = append(agents, in.Agents[i].AgentID)
	}
	if in.Plan != nil {
		for i := range in.Plan.Objectives {
			agents, teams = append(agents, in.Plan.Objectives[i].AgentID), append(teams, in.Plan.Objectives[i].TeamID)
		}
	}
	for _, id := range agents {
		if err := check(id, s.Agent); err != nil {
			return err
		}
	}
	for _, id := range teams {
		if err := check(id, s.Team); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) item(r *Record) kernelwork.Item {
	return kernelwork.Item{Kind: WorkKind, Key: r.MissionID, TenantID: r.TenantID, Due: s.Crew.Clock.Now()}
}

// enter moves a mission to a status, and notes the phase that it is in by that.
func (r *Record) enter(status string, now time.Time) {
	r.Status, r.UpdatedAt = status, now
	phase := map[string]string{Planning: "plan", Awaiting: "authorize", Executing: "execute", Paused: "execute", Verifying: "verify"}[status]
	phases := r.State.Phases
	if n := len(phases); n > 0 && phases[n-1].Phase == phase {
		return
	}
	r.State.Phases = closed(phases, now)
	if phase == "" {
		r.CompletedAt = now
		return
	}
	if phase == "execute" && r.State.StartedAt == nil {
		r.State.StartedAt = &now
	}
	// A phase that a mission comes back to goes on.
	for i := range r.State.Phases {
		if r.State.Phases[i].Phase == phase {
			again := r.State.Phases[i]
			r.State.Phases = append(r.State.Phases[:i:i], r.State.Phases[i+1:]...)
			again.CompletedAt = nil
			r.State.Phases = append(r.State.Phases, again)
			return
		}
	}
	r.State.Phases = append(r.State.Phases, Phase{Phase: phase, StartedAt: now})
}

func closed(phases []Phase, now time.Time) []Phase {
	for i := range phases {
		if phases[i].CompletedAt == nil {
			phases[i].CompletedAt = &now
			phases[i].DurationMS = now.Sub(phases[i].StartedAt).Milliseconds()
		}
	}
	return phases
}

// request stores what a caller asks of a mission, and wakes its worker.
func (s *Service) request(
	ctx context.Context, tenant, id string, answer func(*Record) any, change func(*Record) error,
) (r *Record, err error) {
	found, err := s.Missions.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	ctx = txn.WithAnswer(ctx, func() any { return answer(r) })
	err = s.Crew.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		// The item first, the row second, as its worker does.
		if err := s.Crew.Queue.EnqueueTx(tx, s.item(found)); err != nil {
			return err
		}
		r, err = s.Missions.RequestTx(tx, tenant, id, change)
		return err
	})
	return r, err
}
