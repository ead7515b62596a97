package objective

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/teams/group"
)

// Set is the objectives of one owner with the tasks that are not applied. Its methods
// decide what comes next; they depend on nothing else.
type Set struct {
	Objectives     []Objective
	Tasks          []Task
	Now            time.Time
	Frame          string   // what the objectives are for; the agents that work on them read it
	Sources        []string // untrusted ones that whatever made the plans has read
	Worker         string   // the agent that works on objectives that name no agent
	Judge          string   // the agent that verifies and decides
	MaxConcurrency int      // objectives that are in progress at a time
	MaxStrikes     int      // failures of one objective
	Hold           bool     // nothing new is begun
	Broke          bool     // set by Next: a run failed because the owner's budget is used up; nothing new is begun

	// Changed is called with each objective that gets another status.
	Changed func(o *Objective, from string)

	at      map[string]int   // of Objectives
	below   map[string][]int // the objectives that are part of another one
	touched map[string]bool
	planned []Task
}

// Next applies the tasks that have ended, and returns the tasks that follow: their
// objective, agent or team, purpose and message are set.
func (s *Set) Next() []Task {
	s.index()
	s.planned = nil
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if j, ok := s.at[t.ObjectiveID]; ok && t.Ended() && !t.Applied {
			s.apply(&s.Objectives[j], t)
			t.Applied = true
		}
	}
	s.expire()
	for s.settle() {
		continue
	}
	s.begin()
	for s.settle() { // an objective whose budget is used up fails as it begins
		continue
	}
	return s.planned
}

// Touched returns the objectives whose state was changed since the last call.
func (s *Set) Touched() (changed []Objective) {
	for _, o := range s.Objectives {
		if s.touched[o.ID] {
			changed = append(changed, o)
		}
	}
	s.touched = nil
	return changed
}

// Over reports whether all objectives are over.
func (s *Set) Over() bool {
	return !slices.ContainsFunc(s.Objectives, func(o Objective) bool { return !o.Over() })
}

// Busy reports whether an objective is in progress.
func (s *Set) Busy() bool {
	return slices.ContainsFunc(s.Objectives, func(o Objective) bool { return o.State.Status == InProgress && !s.parent(&o) })
}

// Find returns an objective by its id, nil if there is none.
func (s *Set) Find(id string) *Objective {
	s.index()
	if i, ok := s.at[id]; ok {
		return &s.Objectives[i]
	}
	return nil
}

// Finish ends an objective from outside, such as one that its owner finds reached.
func (s *Set) Finish(o *Objective, status, abort string) {
	o.State.Abort = abort
	s.move(o, status)
}

// Reindex is to be called after objectives were added or taken away.
func (s *Set) Reindex() { s.at = nil }

func (s *Set) index() {
	if s.at != nil {
		return
	}
	s.at, s.below = make(map[string]int, len(s.Objectives)), map[string][]int{}
	for i := range s.Objectives {
		s.at[s.Objectives[i].ID] = i
		if parent := s.Objectives[i].Plan.ParentID; parent != "" {
			s.below[parent] = append(s.below[parent], i)
		}
	}
}

func (s *Set) touch(o *Objective) {
	if s.touched == nil {
		s.touched = map[string]bool{}
	}
	s.touched[o.ID], o.State.UpdatedAt = true, s.Now
}

func (s *Set) move(o *Objective, to string) {
	from := o.State.Status
	if from == to {
		return
	}
	o.State.Status = to
	if to == InProgress && o.State.StartedAt.IsZero() {
		o.State.StartedAt = s.Now
	}
	if o.Over() {
		o.State.EndedAt = s.Now
	}
	s.touch(o)
	if s.Changed != nil {
		s.Changed(o, from)
	}
}

func (s *Set) note(o *Objective, text string) {
	o.State.Notes = append(o.State.Notes, cut(text, maxSummary))
	if extra := len(o.State.Notes) - maxNotes; extra > 0 {
		o.State.Notes = o.State.Notes[extra:]
	}
	s.touch(o)
}

// apply stores what follows from the end of a task.
func (s *Set) apply(o *Objective, t *Task) {
	o.State.Tokens += t.Tokens
	o.State.CostUSD += t.CostUSD
	s.touch(o)
	if o.Over() {
		return
	}
	switch {
	case t.ErrorCode == run.CodeBudgetExceeded && o.Plan.Budget.MaxCostUSD == nil:
		s.Broke = true
		s.note(o, "Nothing is left to pay for it.")
		s.move(o, Pending)
	case t.ErrorCode == run.CodeBudgetExceeded:
		s.fail(o, BudgetExhausted, "max_duration_exceeded", t.Error, t.ErrorCode)
	case t.Purpose == Work:
		s.worked(o, t)
	case t.Purpose == Judge:
		s.applyVerdict(o, t)
	case t.Purpose == Decide:
		s.decided(o, t)
	}
}

func (s *Set) worked(o *Objective, t *Task) {
	if !t.Done() {
		s.strike(o, categoryOf(t), t.Error, t.ErrorCode)
		return
	}
	o.State.Result, o.State.Sources = cut(t.Text, maxResult), t.Sources
	if len(o.Plan.Criteria) > 0 && s.Judge != "" {
		s.judge(o, 1)
		return
	}
	s.reached(o)
}

// verdict is what a judge answers.
type verdict struct {
	Verified *bool  `json:"verified"`
	Reason   string `json:"reason"`
}

func (s *Set) applyVerdict(o *Objective, t *Task) {
	var v verdict
	if !t.Done() || !group.Object(t.Text, &v) || v.Verified == nil {
		if t.Attempt < 2 {
			s.judge(o, t.Attempt+1)
			return
		}
		details := t.Error
		if t.Done() {
			details = "The judge did not answer with the JSON that it was asked for."
		}
		s.fail(o, VerifierError, "external_error", details, t.ErrorCode)
		return
	}
	if *v.Verified {
		o.State.Verified = true
		s.reached(o)
		return
	}
	o.State.Feedback = cut(v.Reason, maxSummary*4)
	s.strike(o, "verification_failed", v.Reason, "")
}

// reached completes an objective, once the decisions that follow from it are made.
func (s *Set) reached(o *Objective) {
	if o.State.Decided < len(o.Plan.Decisions) {
		s.decide(o, 1)
		return
	}
	o.State.Feedback = ""
	s.move(o, Completed)
}

// choice is what a judge answers at a decision point.
type choice struct {
	Branch *int `json:"branch"`
}

func (s *Set) decided(o *Objective, t *Task) {
	if o.State.Decided >= len(o.Plan.Decisions) { // the plan was changed meanwhile
		s.reached(o)
		return
	}
	d := &o.Plan.Decisions[o.State.Decided]
	var c choice
	ok := t.Done() && group.Object(t.Text, &c) && c.Branch != nil && *c.Branch >= 0 && *c.Branch <= len(d.Branches)
	if !ok && t.Attempt < 2 {
		s.decide(o, t.Attempt+1)
		return
	}
	chosen := d.Fallback
	if ok && *c.Branch > 0 {
		chosen = d.Branches[*c.Branch-1].ObjectiveID
	}
	if at := s.Find(chosen); at != nil && !at.Over() {
		at.State.Chosen = true
		s.touch(at)
		s.note(o, "Decided: "+d.Condition+" -> "+at.Plan.Title)
	} else {
		s.note(o, "Decided: "+d.Condition+" -> none")
	}
	o.State.Decided++
	s.reached(o)
}

// strike counts a failure. The objective is begun again until it has too many.
func (s *Set) strike(o *Objective, category, details, code string) {
	o.State.Strikes++
	o.State.Category, o.State.Details, o.State.Code = category, cut(details, maxSummary*4), code
	s.note(o, fmt.Sprintf("Strike %d: %s", o.State.Strikes, details))
	if o.State.Strikes >= s.MaxStrikes {
		o.State.Abort = fmt.Sprintf("exhausted_strikes_%d", o.State.Strikes)
		s.move(o, Failed)
		return
	}
	s.move(o, Pending)
}

func (s *Set) fail(o *Objective, abort, category, details, code string) {
	o.State.Abort, o.State.Category, o.State.Details, o.State.Code = abort, category, cut(details, maxSummary*4), code
	s.note(o, details)
	s.move(o, Failed)
}

// expire fails the objectives whose time is up.
func (s *Set) expire() {
	for i := range s.Objectives {
		o := &s.Objectives[i]
		if at := o.Plan.Deadline; at != nil && !s.Now.Before(*at) && !o.Over() {
			s.fail(o, DeadlinePassed, "max_duration_exceeded", "Its deadline passed before it was reached.", "")
		}
	}
}

// settle moves objectives whose state follows from that of others, and reports whether
// there were any.
func (s *Set) settle() (moved bool) {
	waits := s.undecided()
	for i := range s.Objectives {
		o := &s.Objectives[i]
		if o.Over() {
			continue
		}
		before := o.State.Status
		switch {
		case s.parent(o):
			s.follow(o)
		case o.State.Status != Pending && o.State.Status != Blocked:
		default:
			s.gate(o, waits)
		}
		moved = moved || o.State.Status != before
	}
	return moved
}

// gate moves an objective that waits, by those that it waits for.
func (s *Set) gate(o *Objective, waits map[string]bool) {
	for _, id := range o.Plan.Dependencies {
		switch d := s.Find(id); {
		case d == nil || d.State.Status == Failed:
			s.fail(o, DependencyFailed, "external_error", "An objective that it depends on failed.", "")
			return
		case d.State.Status == Skipped:
			s.move(o, Skipped)
			return
		}
	}
	undecided, branch := waits[o.ID]
	switch {
	case !branch || o.State.Chosen:
		s.move(o, Pending)
	case undecided:
		s.move(o, Blocked)
	default:
		s.move(o, Skipped)
	}
}

// undecided returns the objectives that decisions are about, and whether one of these
// decisions is still to be made.
func (s *Set) undecided() map[string]bool {
	waits := map[string]bool{}
	for i := range s.Objectives {
		o := &s.Objectives[i]
		for j, d := range o.Plan.Decisions {
			open := !o.Over() && o.State.Decided <= j
			for _, b := range d.Branches {
				waits[b.ObjectiveID] = waits[b.ObjectiveID] || open
			}
			if d.Fallback != "" {
				waits[d.Fallback] = waits[d.Fallback] || open
			}
		}
	}
	return waits
}

// parent reports whether an objective is reached by its children.
func (s *Set) parent(o *Objective) bool {
	s.index()
	return o.Plan.Root || len(s.below[o.ID]) > 0
}

// follow moves a parent as its children moved. The root of a goal ends by its owner.
func (s *Set) follow(o *Objective) {
	begun, open, failed := false, false, false
	for _, i := range s.below[o.ID] {
		c := &s.Objectives[i]
		begun = begun || c.State.Status != Pending && c.State.Status != Blocked
		open = open || !c.Over()
		failed = failed || c.State.Status == Failed
	}
	switch {
	case begun && (open || o.Plan.Root):
		s.move(o, InProgress)
	case open || o.Plan.Root:
	case failed:
		s.fail(o, DependencyFailed, "external_error", "An objective below it failed.", "")
	default:
		s.move(o, Completed)
	}
}

var priorities = []string{"critical", "high", "medium", "low"}

// begin begins objectives that wait for nothing, the most important ones first.
func (s *Set) begin() {
	if s.Hold || s.Broke {
		return
	}
	var ready []*Objective
	busy := 0
	for i := range s.Objectives {
		o := &s.Objectives[i]
		switch {
		case s.parent(o):
		case o.State.Status == InProgress:
			busy++
		case o.State.Status == Pending && s.free(o):
			ready = append(ready, o)
		}
	}
	slices.SortStableFunc(ready, func(a, b *Objective) int {
		return slices.Index(priorities, a.Plan.Priority) - slices.Index(priorities, b.Plan.Priority)
	})
	for _, o := range ready {
		if busy >= s.MaxConcurrency {
			return
		}
		if limit := o.Plan.Budget.MaxRuns; limit != nil && o.State.Runs >= *limit {
			s.fail(o, BudgetExhausted, "max_duration_exceeded", fmt.Sprintf("Its %d runs are used up.", *limit), "")
			continue
		}
		if s.work(o) {
			busy++
		}
	}
}

// free reports whether nothing is left that an objective waits for.
func (s *Set) free(o *Objective) bool {
	return !slices.ContainsFunc(o.Plan.Dependencies, func(id string) bool {
		d := s.Find(id)
		return d == nil || d.State.Status != Completed
	})
}

// categoryOf returns why a run failed, in the words of after-action reports.
func categoryOf(t *Task) string {
	switch code := t.ErrorCode; {
	case t.Status == run.TimedOut || code == run.CodeMaxDuration:
		return "max_duration_exceeded"
	case t.Status == run.Rejected || t.Status == run.GuardrailBlocked, code == run.CodePolicyBlocked, code == run.CodeApprovalRejected:
		return "authorization_denied"
	case code == run.CodeModelRateLimited, code == run.CodeModelError && strings.Contains(t.Error, "time"):
		return "llm_timeout"
	case code == run.CodeStepCrashed:
		return "tool_error"
	case code == run.CodeModelError, code == run.CodeModelRefused, code == run.CodeContentFiltered, code == run.CodeAgentDeleted,
		code == run.CodeQuotaExceeded:
		return "external_error"
	}
	return "unknown"
}

// plan adds a task for an objective, unless its budget is used up.
func (s *Set) plan(o *Objective, t Task) bool {
	b := &o.Plan.Budget
	if b.MaxTokens != nil {
		if t.MaxTokens = *b.MaxTokens - o.State.Tokens; t.MaxTokens <= 0 {
			s.fail(o, BudgetExhausted, "max_duration_exceeded", fmt.Sprintf("Its %d tokens are used up.", *b.MaxTokens), "")
			return false
		}
	}
	if b.MaxCostUSD != nil {
		if *b.MaxCostUSD <= o.State.CostUSD {
			s.fail(o, BudgetExhausted, "max_duration_exceeded", fmt.Sprintf("Its %g US dollars are used up.", *b.MaxCostUSD), "")
			return false
		}
		t.Budgets = []string{o.ID}
	}
	t.ObjectiveID, t.Inherited = o.ID, model.JoinSources(s.Sources, t.Inherited, o.State.Sources)
	s.planned = append(s.planned, t)
	s.move(o, InProgress)
	return true
}

// cut returns the beginning of a text.
func cut(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + " […]"
	}
	return text
}
