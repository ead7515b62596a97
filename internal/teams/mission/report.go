package mission

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/teams/objective"
)

type (
	// report is what is known after a mission.
	report struct {
		_ struct{} `json:"-" name:"AfterActionReport"`

		AARID     string             `json:"aar_id" format:"uuid" required:"true"`
		MissionID string             `json:"mission_id" format:"uuid" required:"true"`
		TenantID  string             `json:"tenant_id" required:"true"`
		CreatedAt time.Time          `json:"created_at" required:"true"`
		Outcome   string             `json:"outcome" enum:"success,partial,failed,aborted" required:"true"`
		Phases    []Phase            `json:"phases" required:"true"`
		Outcomes  []objectiveOutcome `json:"objective_outcomes" required:"true"`
		Failures  *failureAnalysis   `json:"failure_analysis,omitzero" doc:"Absent where nothing failed."`
		Lessons   []lesson           `json:"lessons" required:"true"`
	}
	objectiveOutcome struct {
		_ struct{} `json:"-" name:"ObjectiveOutcome"`

		ObjectiveID string  `json:"objective_id" format:"uuid" required:"true"`
		Title       string  `json:"title" required:"true"`
		FinalStatus string  `json:"final_status" required:"true"`
		StrikesUsed int     `json:"strikes_used" required:"true"`
		AbortReason string  `json:"abort_reason,omitzero"`
		AgentID     string  `json:"final_agent_id,omitzero" doc:"The agent that worked on it last."`
		TeamID      string  `json:"final_team_id,omitzero"`
		DurationMS  *int64  `json:"duration_ms" doc:"From its first task to its end; null if nothing was done for it."`
		CostUSD     float64 `json:"cost_usd" required:"true" doc:"As far as prices are known."`
		Verified    bool    `json:"verified" required:"true"`
	}
	failureAnalysis struct {
		_ struct{} `json:"-" name:"FailureAnalysis"`

		FailedIDs []string    `json:"failed_objective_ids" required:"true"`
		Causes    []rootCause `json:"root_causes" required:"true"`
	}
	rootCause struct {
		_ struct{} `json:"-" name:"RootCause"`

		ObjectiveID string `json:"objective_id" format:"uuid" required:"true"`
		Category    string `json:"category" enum:"llm_timeout,tool_error,verification_failed,authorization_denied,external_error,max_duration_exceeded,unknown" required:"true"`
		Details     string `json:"details" required:"true"`
		Code        string `json:"code,omitzero" doc:"Error code of the run that failed."`
	}
	lesson struct {
		_ struct{} `json:"-" name:"MissionLesson"`

		Pattern        string `json:"pattern" required:"true" doc:"What was seen."`
		Recommendation string `json:"recommendation" required:"true"`
	}
)

func encode(r *report) (jsontext.Value, error) { return json.Marshal(r, json.Deterministic(true)) }

// reportID is the id of the report of a mission.
func reportID(missionID string) string { return ident.Derive(missionID, "report") }

// report makes the report of a mission that ends now.
func (d *drive) report() *report {
	r := &report{
		AARID: reportID(d.ID), MissionID: d.ID, TenantID: d.TenantID, CreatedAt: d.Now, Outcome: d.r.State.Outcome,
		Phases: d.r.State.Phases, Outcomes: []objectiveOutcome{}, Lessons: []lesson{},
	}
	failed := failureAnalysis{FailedIDs: []string{}, Causes: []rootCause{}}
	for i := range d.Objectives {
		o := &d.Objectives[i]
		one := objectiveOutcome{
			ObjectiveID: o.ID, Title: o.Plan.Title, FinalStatus: o.State.Status, StrikesUsed: o.State.Strikes, AbortReason: o.State.Abort,
			AgentID: o.State.AgentID, TeamID: o.State.TeamID, CostUSD: o.State.CostUSD, Verified: o.State.Verified,
		}
		if !o.State.StartedAt.IsZero() {
			one.DurationMS = new(o.State.EndedAt.Sub(o.State.StartedAt).Milliseconds())
		}
		r.Outcomes = append(r.Outcomes, one)
		if o.State.Status == objective.Failed {
			failed.FailedIDs = append(failed.FailedIDs, o.ID)
			category := o.State.Category
			if category == "" {
				category = "unknown"
			}
			failed.Causes = append(failed.Causes, rootCause{
				ObjectiveID: o.ID, Category: category, Details: o.State.Details, Code: o.State.Code,
			})
		}
	}
	if len(failed.FailedIDs) > 0 {
		r.Failures = &failed
	}
	r.Lessons = append(r.Lessons, d.lessons(r)...)
	return r
}

// lessons returns what the outcomes have in common.
func (d *drive) lessons(r *report) (lessons []lesson) {
	add := func(n int, pattern, recommendation string) {
		if n > 0 {
			lessons = append(lessons, lesson{Pattern: fmt.Sprintf(pattern, n), Recommendation: recommendation})
		}
	}
	count := map[string]int{}
	for _, o := range r.Outcomes {
		switch {
		case o.FinalStatus == objective.Completed && o.StrikesUsed > 0:
			count["again"]++
		case o.FinalStatus == objective.Completed && !o.Verified:
			count["unverified"]++
		}
		count[o.AbortReason]++
	}
	if r.Failures != nil {
		for _, c := range r.Failures.Causes {
			count[c.Category]++
		}
	}
	if d.r.State.PlanError != "" {
		add(1, "Missions that could not be planned: %d.", "Choose a planner that answers with JSON, or send the plan with the mission.")
	}
	add(count["again"], "Objectives that were reached only after strikes: %d.",
		"Say in their descriptions what the judge was missing; their progress_notes have it.")
	add(count["unverified"], "Objectives that were completed without verification: %d.", "Give them success_criteria.")
	add(count["verification_failed"], "Objectives that did not meet their success criteria: %d.",
		"Split them, give them to another agent, or make the criteria ones that the result can show.")
	add(count[objective.BudgetExhausted], "Objectives that used up a budget: %d.",
		"Raise max_runs, max_tokens or max_cost_usd, or make the objectives smaller.")
	add(count[objective.VerifierError], "Objectives that could not be verified: %d.",
		"Choose a judge that answers with the JSON that it is asked for.")
	add(count[objective.DeadlinePassed], "Objectives that missed their deadline: %d.",
		"Begin them earlier: let fewer objectives come before them, or raise max_concurrency.")
	add(count["authorization_denied"], "Objectives that a rule, a guardrail or a person refused: %d.",
		"Look at the rules that refused them before the next mission.")
	return lessons
}
