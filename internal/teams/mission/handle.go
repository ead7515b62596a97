package mission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/model"
	kernelwork "agentd/internal/kernel/work"
	"agentd/internal/teams/group"
	"agentd/internal/teams/objective"
)

// planning is the purpose of the tasks of planners.
const planning = "plan"

// The codes of results.
const (
	resultVerified   = "all_objectives_verified"
	resultFailed     = "objectives_failed"
	resultUnplanned  = "planning_failed"
	resultAborted    = "aborted_by_operator"
	resultDeadline   = "deadline_passed"
	resultPaused     = "paused_by_operator"
	resultResumed    = "resumed_by_operator"
	resultAuthorized = "authorized_by_operator"
)

// drive is one worker's holding of a mission.
type drive struct {
	*Service
	objective.Drive
	r     *Record
	added []objective.Objective // in the next commit
}

// Handle is the work.Handler of WorkKind.
func (s *Service) Handle(ctx context.Context, held kernelwork.Lease) error {
	r, err := s.Missions.Get(ctx, held.TenantID, held.Key)
	switch {
	case fault.Is(err, fault.NotFound) || err == nil && final(r.Status):
		err = objective.ErrOver
	case err == nil:
		err = s.drive(ctx, held, r)
	}
	if errors.Is(err, objective.ErrOver) {
		return s.Crew.Writer.Write(ctx, func(tx txn.Tx) error { return s.Crew.Queue.FinishTx(tx, held) })
	}
	return err
}

func (s *Service) drive(ctx context.Context, held kernelwork.Lease, r *Record) (err error) {
	d := &drive{Service: s, r: r}
	d.Drive = objective.Drive{
		Crew: s.Crew, Ctx: ctx, Held: held, TaskSeq: &r.State.TaskSeq,
		Owner: objective.Owner{
			TenantID: r.TenantID, ID: r.MissionID, Kind: "mission", WorkKind: WorkKind, KeyID: r.KeyID, UserID: r.UserID,
			Lead:   r.Spec.PlannerID,
			LockTx: func(tx txn.Tx) error { return s.Missions.LockTx(tx, r.TenantID, r.MissionID) },
		},
		Set: objective.Set{
			Frame: r.Spec.Goal, Sources: r.State.Sources, Worker: r.Spec.WorkerID, Judge: r.Spec.JudgeID,
			MaxConcurrency: r.Spec.MaxConcurrency, MaxStrikes: r.Spec.MaxStrikes,
		},
		Journal: group.Journal{
			Log: s.Crew.Log, Hub: s.Crew.Hub, Clock: s.Crew.Clock, Tenant: r.TenantID, Stream: r.MissionID, Seq: &r.EventSeq,
		},
	}
	if d.Lead == "" {
		d.Lead = r.Spec.WorkerID
	}
	if r.Spec.MaxCostUSD != nil {
		d.Budgets = []string{r.MissionID}
	}
	d.Changed = d.objectiveChanged
	if d.Objectives, err = s.Crew.Store.List(ctx, r.TenantID, r.MissionID); err != nil {
		return err
	}
	if d.Tasks, err = s.Crew.Store.ListOpenTasks(ctx, r.TenantID, r.MissionID); err != nil {
		return err
	}
	return d.step()
}

// step looks what has ended, stores what follows, and starts it.
func (d *drive) step() error {
	if err := d.Observe(); err != nil {
		return err
	}
	d.count()
	switch at := d.r.State.Deadline; {
	case d.r.Abort:
		return d.end(Aborted, Stopped, resultAborted, reasonOf(d.r))
	case at != nil && !d.Now.Before(*at):
		return d.miss()
	}
	if done, err := d.advance(); err != nil || done {
		return err
	}
	if d.Planned() {
		if err := d.store(func(tx txn.Tx) error { return d.Queue.HoldTx(tx, d.Held, d.Crew.Lease) }, false); err != nil {
			return err
		}
	}
	ended, err := d.Start()
	if err != nil {
		return err
	}
	return d.store(func(tx txn.Tx) error {
		return d.WaitTx(tx, ptr.Value(d.r.State.Deadline), ended, func(tx txn.Tx) (bool, error) {
			asked, err := d.Missions.CountRequestsTx(tx, d.TenantID, d.ID)
			return asked != d.r.Asked, err
		})
	}, false)
}

// advance moves the mission as far as it goes without waiting, and reports whether it
// has ended.
func (d *drive) advance() (done bool, err error) {
	if d.r.Status == Planning {
		if done, err := d.plan(); done || err != nil || d.r.Status == Planning {
			return done, err
		}
	}
	if d.r.Status == Awaiting {
		if !d.r.Authorized {
			return false, nil
		}
		d.move(Executing, resultAuthorized)
	}
	d.Hold = d.r.Hold
	if err := d.Advance(); err != nil {
		return false, err
	}
	if d.Broke {
		for i := range d.Objectives {
			if o := &d.Objectives[i]; !o.Over() {
				o.State.Details, o.State.Category = "The budget of the mission is used up.", "max_duration_exceeded"
				d.Finish(o, objective.Failed, objective.BudgetExhausted)
			}
		}
		if err := d.Advance(); err != nil {
			return false, err
		}
	}
	if d.Over() {
		return true, d.conclude()
	}
	switch busy := d.Busy(); {
	case d.Hold && !busy:
		d.move(Paused, resultPaused)
	case d.r.Status == Paused && !d.Hold:
		d.move(Executing, resultResumed)
	case d.r.Status == Paused:
	case busy && d.onlyJudged():
		d.move(Verifying, "")
	default:
		d.move(Executing, "")
	}
	return false, nil
}

// onlyJudged reports whether all that is under way is the judge's, and nothing else waits.
func (d *drive) onlyJudged() bool {
	for i := range d.Tasks {
		if t := &d.Tasks[i]; !t.Applied && t.Purpose != objective.Judge {
			return false
		}
	}
	return !slices.ContainsFunc(d.Objectives, func(o objective.Objective) bool {
		return o.State.Status == objective.Pending || o.State.Status == objective.Blocked
	})
}

// count adds up what ended tasks used.
func (d *drive) count() {
	for i := range d.Tasks {
		if t := &d.Tasks[i]; t.Ended() && !t.Applied {
			d.r.State.Tokens += t.Tokens
			d.r.State.CostUSD += t.CostUSD
			d.r.State.Calls += t.Calls
			if t.Attempt > 1 {
				d.r.State.Retries++
			}
		}
	}
}

// move moves the mission to a status. code says why, where a caller asked for it.
func (d *drive) move(to, code string) {
	from := d.r.Status
	if from == to {
		return
	}
	d.r.enter(to, d.Now)
	d.r.State.Code = code
	d.Journal.Emit("status_change", statusChange{From: from, To: to, Outcome: d.r.State.Outcome, Summary: d.r.State.Summary, Code: code})
}

type statusChange struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Outcome string `json:"outcome,omitzero"`
	Summary string `json:"result_summary,omitzero"`
	Code    string `json:"result_code,omitzero"`
}

// objectiveChanged emits that an objective has another status, and notes what a later
// worker need not do again.
func (d *drive) objectiveChanged(o *objective.Objective, from string) {
	d.Journal.Emit("objective_change", map[string]any{
		"objective_id": o.ID, "title": o.Plan.Title, "from": from, "to": o.State.Status, "abort_reason": o.State.Abort,
	})
	switch o.State.Status {
	case objective.Completed:
		id := ident.Derive(d.ID, "checkpoint", o.ID)
		d.r.State.Checkpoints = append(d.r.State.Checkpoints, id)
		if o.State.Verified {
			d.r.State.Verified++
		}
		d.Journal.Emit("checkpoint_added", map[string]any{"checkpoint_id": id, "objective_id": o.ID})
	case objective.Failed:
		d.r.State.FailedIDs = append(d.r.State.FailedIDs, o.ID)
	}
}

// plan asks the planner, or takes its plan, and reports whether the mission has ended.
func (d *drive) plan() (done bool, err error) {
	i := slices.IndexFunc(d.Tasks, func(t objective.Task) bool { return t.Purpose == planning && !t.Applied })
	if i < 0 {
		d.ask(1, "")
		return false, nil
	}
	t := &d.Tasks[i]
	if !t.Ended() {
		return false, nil
	}
	t.Applied = true
	d.r.State.Sources = model.JoinSources(d.r.State.Sources, t.Sources)
	d.Set.Sources = d.r.State.Sources
	plan, wrong := d.read(t)
	switch {
	case wrong == "":
		d.added = d.r.adopt(plan, d.Now)
		d.Objectives = d.added
		d.Reindex()
		d.Journal.Emit("status_change", statusChange{From: Planning, To: d.r.Status})
		return false, nil
	case t.Attempt < 2:
		d.ask(2, wrong)
		return false, nil
	}
	d.r.State.PlanError = wrong
	return true, d.end(Failed, Unreached, resultUnplanned, "The planner made no plan that could be used. "+wrong)
}

// ask asks the planner, again with what was wrong with its first answer.
func (d *drive) ask(attempt int, wrong string) {
	var b strings.Builder
	b.WriteString(d.r.Spec.Goal)
	b.WriteString("\n\n[Agents that can work on it]\n")
	for _, a := range d.r.Spec.Agents {
		fmt.Fprintf(&b, "- assigned_agent_id %s: %s. %s\n", a.AgentID, a.Name, a.Description)
	}
	if len(d.r.Spec.Agents) == 0 {
		fmt.Fprintf(&b, "- assigned_agent_id %s\n", d.r.Spec.WorkerID)
	}
	if wrong != "" {
		b.WriteString("\n[What was wrong with your last plan]\n" + wrong + "\n")
	}
	d.Plan(objective.Task{
		Purpose: planning, Attempt: attempt, AgentID: d.r.Spec.PlannerID, Message: b.String(), Inherited: d.r.State.Sources,
		Instructions: "The message is a goal. Make a plan of the objectives that lead to it; each is worked on by an agent that knows " +
			"nothing but what the objective says and the results that it depends on. Answer with nothing but JSON: " +
			`{"objectives":[{"title":"…","description":"all that has to be known","success_criteria":["what has to be true of the result"],` +
			`"priority":"low, medium, high or critical","depends_on_indices":[0],"assigned_agent_id":"…"}]}. ` +
			"Objectives are counted from 0, and must not wait for each other in circles. Use as few as the goal needs.",
	})
}

// read reads the plan in the answer of a planner, or returns in a sentence why it cannot
// be used.
func (d *drive) read(t *objective.Task) (plan *Plan, wrong string) {
	if !t.Done() {
		return nil, "The run of the planner did not complete: " + t.Error
	}
	plan, err := ParsePlan(t.Text)
	if err != nil {
		f := fault.From(err)
		wrong = f.Detail
		for _, field := range f.Fields {
			wrong += " " + field.Field + ": " + field.Message + "."
			if len(wrong) > 2000 {
				break
			}
		}
		return nil, wrong
	}
	for i := range plan.Objectives {
		p := &plan.Objectives[i]
		known := func(a Available) bool { return a.AgentID == p.AgentID }
		if p.AgentID != "" && p.AgentID != d.r.Spec.WorkerID && !slices.ContainsFunc(d.r.Spec.Agents, known) {
			return nil, fmt.Sprintf("objectives[%d].assigned_agent_id: it is none of the agents that can work on it.", i)
		}
		if p.TeamID != "" {
			return nil, fmt.Sprintf("objectives[%d].assigned_team_id: only agents can work on it.", i)
		}
	}
	return plan, ""
}

// ParsePlan reads the plan in the answer of a planner, which may have words around it.
// Errors: fault.Malformed, fault.Invalid with every invalid field.
func ParsePlan(text string) (*Plan, error) {
	start, end := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if start < 0 || end < start {
		return nil, fault.New(fault.Malformed, "", "There is no JSON in the answer.")
	}
	plan, err := schema.Decode[Plan]([]byte(text[start : end+1]))
	if err != nil {
		return nil, err
	}
	if wrong := objective.Check(plan.Objectives); wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	return plan, nil
}

// miss ends a mission whose deadline has passed.
func (d *drive) miss() error {
	outcome := Unreached
	if len(d.r.State.Checkpoints) > 0 {
		outcome = Partial
	}
	return d.end(Failed, outcome, resultDeadline, "The deadline of the mission passed.")
}

// conclude ends a mission whose objectives are all over.
func (d *drive) conclude() error {
	reached, failed := 0, len(d.r.State.FailedIDs)
	for i := range d.Objectives {
		if d.Objectives[i].State.Status == objective.Completed {
			reached++
		}
	}
	switch {
	case failed == 0:
		return d.end(Completed, Success, resultVerified, fmt.Sprintf("All %d objectives were reached.", reached))
	case reached > 0:
		return d.end(Failed, Partial, resultFailed, fmt.Sprintf("%d of %d objectives were reached.", reached, len(d.Objectives)))
	}
	return d.end(Failed, Unreached, resultFailed, "No objective was reached.")
}

func reasonOf(r *Record) string {
	if r.Reason != "" {
		return "The mission was aborted: " + r.Reason
	}
	return "The mission was aborted."
}

// end ends the mission, and the runs that have not.
func (d *drive) end(status, outcome, code, summary string) error {
	if err := d.CancelAll("The mission ended."); err != nil {
		return err
	}
	for i := range d.Objectives {
		if o := &d.Objectives[i]; !o.Over() {
			o.State.Details, o.State.Category = summary, "max_duration_exceeded"
			d.Finish(o, objective.Failed, objective.Ended)
		}
	}
	d.r.State.Outcome, d.r.State.Summary = outcome, summary
	d.move(status, code)
	report := d.report()
	enc, err := encode(report)
	if err != nil {
		return err
	}
	d.r.Report = enc
	d.Journal.Emit("aar_finalized", map[string]any{"aar_id": report.AARID})
	d.Journal.Emit("terminal", statusChange{From: "", To: status, Outcome: outcome, Summary: summary, Code: code})
	return d.store(func(tx txn.Tx) error { return d.Queue.FinishTx(tx, d.Held) }, true)
}

// store commits what was decided. The item of work first, the row second, as callers do.
func (d *drive) store(lease txn.Op, last bool) error {
	added := d.added
	err := d.Commit(lease, func(tx txn.Tx) error {
		if err := d.Missions.UpdateTx(tx, d.r); err != nil {
			return err
		}
		return d.Crew.Store.CreateTx(tx, d.TenantID, d.ID, added)
	}, last)
	if err == nil {
		d.added = nil
	}
	return err
}
