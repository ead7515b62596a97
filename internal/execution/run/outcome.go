package run

import (
	"slices"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/judge"
)

// OutcomeStatus is what became of the outcome that a run was to reach.
type OutcomeStatus string

// The states of an outcome.
const (
	OutcomeOpen       OutcomeStatus = "open"
	OutcomeReached    OutcomeStatus = "reached"
	OutcomeNotReached OutcomeStatus = "not_reached"
	OutcomeNotJudged  OutcomeStatus = "not_judged" // the run ended before any verdict, or the judge failed
)

// What ended the work on an outcome.
const (
	EndedByScore      = "score"
	EndedByIterations = "iterations"
	EndedByLimit      = "limit"  // of the run
	EndedByBudget     = "budget" // of the run
	EndedByJudge      = "judge"  // it gave no verdict
	EndedByRun        = "run"    // the run ended for another reason
)

// Outcome is what a run with a rubric has reached.
type Outcome struct {
	_ struct{} `json:"-" name:"RunOutcome"`

	Status   OutcomeStatus    `json:"status" enum:"open,reached,not_reached,not_judged" required:"true" doc:"open: the run works on it. not_judged: the run ended before any verdict, or its judge gave none."`
	EndedBy  string           `json:"ended_by,omitzero" enum:"score,iterations,limit,budget,judge,run" doc:"What ended the work. limit and budget: those of the run; judge: it gave no verdict; run: the run ended for another reason, which its status tells."`
	Score    *float64         `json:"score" doc:"The best score so far, from 0 to 1; null before the first verdict."`
	Verdicts []OutcomeVerdict `json:"verdicts,omitzero" doc:"The verdicts, oldest first. Not in summaries."`
	Rubric   *judge.Rubric    `json:"rubric,omitzero" doc:"The rubric that applies. Not in summaries."`
}

// OutcomeVerdict is what a judge said of one result of a run.
type OutcomeVerdict struct {
	Iteration int            `json:"iteration" required:"true" doc:"From 1."`
	StepID    string         `json:"step_id" format:"uuid" required:"true" doc:"The step of type judge."`
	AnswerSeq int64          `json:"answer_step_seq" required:"true" doc:"Number of the step whose answer was judged."`
	Score     float64        `json:"score" required:"true" doc:"The total of the scores by their weights, from 0 to 1."`
	MinScore  float64        `json:"min_score" required:"true" doc:"The score that was needed."`
	Reached   bool           `json:"reached" required:"true" doc:"Whether the outcome is reached."`
	Criteria  []judge.Scored `json:"criteria" required:"true" doc:"The scores, in the order of the rubric."`
}

// With returns the outcome with one more verdict.
func (o *Outcome) With(v OutcomeVerdict) *Outcome {
	next := Outcome{Status: OutcomeOpen}
	if o != nil {
		next = *o
	}
	next.Verdicts = append(slices.Clip(next.Verdicts), v)
	if best := next.Best(); best != nil {
		next.Score = new(best.Score)
	}
	return &next
}

// Best returns the verdict with the highest score, the first of several; nil if there is
// none.
func (o *Outcome) Best() (best *OutcomeVerdict) {
	if o == nil {
		return nil
	}
	for i := range o.Verdicts {
		if v := &o.Verdicts[i]; best == nil || v.Score > best.Score {
			best = v
		}
	}
	return best
}

// Ended returns the outcome with what became of it.
func (o *Outcome) Ended(by string) *Outcome {
	next := Outcome{}
	if o != nil {
		next = *o
	}
	next.EndedBy = by
	switch {
	case by == EndedByScore:
		next.Status = OutcomeReached
	case by == EndedByJudge || len(next.Verdicts) == 0:
		next.Status = OutcomeNotJudged
	default:
		next.Status = OutcomeNotReached
	}
	return &next
}

// Stored returns what is stored of it: the rubric is among the run's options.
func (o *Outcome) Stored() *Outcome {
	if o == nil || o.Rubric == nil {
		return o
	}
	next := *o
	next.Rubric = nil
	return &next
}

// showOutcome sets what follows from the options and the state of the run.
func (r *Record) showOutcome() {
	rubric := r.Options.Outcome
	if rubric == nil {
		return
	}
	next := Outcome{Status: OutcomeOpen}
	if r.Outcome != nil {
		next = *r.Outcome
	}
	if next.Status == OutcomeOpen && r.Status.Final() {
		next = *next.Ended(EndedByRun)
	}
	next.Rubric = rubric
	r.Outcome = &next
}

// JudgeInput is the input of a step of type judge.
type JudgeInput struct {
	Iteration int   `json:"iteration"`
	AnswerSeq int64 `json:"answer_step_seq"`
	Truncated bool  `json:"truncated,omitzero"` // a limit of the run cut its answer off
	Again     bool  `json:"again,omitzero"`     // the judge's answer before this one was no verdict
}

// JudgeOutput is the output of a completed step of type judge.
type JudgeOutput struct {
	Score    float64        `json:"score"`
	Reached  bool           `json:"reached"`
	Criteria []judge.Scored `json:"criteria"`
	Model    string         `json:"model,omitzero"`
	// Feedback is the message with which the run works on; "": it does not.
	Feedback string `json:"feedback,omitzero"`
}

// OutcomeJudgedData is the data of the event outcome.judged.
type OutcomeJudgedData struct {
	StepRef
	Iteration int            `json:"iteration" doc:"From 1."`
	AnswerSeq int64          `json:"answer_step_seq" doc:"Number of the step whose answer was judged."`
	Score     float64        `json:"score" doc:"The total of the scores by their weights, from 0 to 1."`
	MinScore  float64        `json:"min_score" doc:"The score that is needed."`
	Reached   bool           `json:"reached" doc:"Whether the outcome is reached."`
	Criteria  []judge.Scored `json:"criteria" doc:"The scores, in the order of the rubric."`
}

// setOutcome sets the rubric of a new run: that of the request or, if it has none, that of
// the agent. What the rubric lets the run spend is a limit of the run.
func (r *Record) setOutcome(spec *AgentSpec) error {
	if spec.OnMachine {
		if r.Options.Outcome != nil {
			return fault.BadFields(fault.Field{
				Field: "outcome", Message: "a machine carries the agent's runs, which are not judged; leave it out",
			})
		}
		return nil
	}
	if r.Options.Outcome == nil {
		r.Options.Outcome = spec.Outcome
	}
	if o := r.Options.Outcome; o != nil {
		r.ResourceLimits = r.ResourceLimits.Narrow(Limits{MaxCostUSD: o.MaxCostUSD})
	}
	return nil
}
