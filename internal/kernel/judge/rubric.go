package judge

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
)

// What holds where a rubric does not say.
const (
	defaultScore      = 0.8
	defaultIterations = 3
)

// Rubric says what makes the result of a run good, and how far the run goes for it.
type Rubric struct {
	_ struct{} `json:"-" name:"OutcomeRubric"`

	Criteria      []Criterion `json:"criteria" required:"true" minItems:"1" maxItems:"20" doc:"What is looked at, each with a score of its own."`
	JudgeModel    string      `json:"judge_model,omitzero" maxLength:"300" doc:"The model that judges, as <provider>/<model>. Default: the run's own model."`
	MinScore      *float64    `json:"min_score,omitzero" minimum:"0" maximum:"1" doc:"The outcome is reached with this score or a higher one, from 0 to 1. Default: 0.8."`
	MaxIterations int         `json:"max_iterations,omitzero" minimum:"1" maximum:"10" doc:"How often a result is judged at most. Default: 3."`
	MaxCostUSD    *float64    `json:"max_cost_usd,omitzero" minimum:"0" doc:"US dollars for all model calls of the run, those of the judge too: the smaller one of this and resource_limits.max_cost_usd applies. 0: no bound."`
}

// Criterion is one thing that a judge looks at.
type Criterion struct {
	_ struct{} `json:"-" name:"OutcomeCriterion"`

	Name        string   `json:"name" required:"true" minLength:"1" maxLength:"100" doc:"A short name, unique in the rubric."`
	Description string   `json:"description,omitzero" maxLength:"2000" doc:"What makes a result good by this criterion, in words for the judge. The agent reads it too, where the result falls short."`
	Weight      *float64 `json:"weight,omitzero" minimum:"0" maximum:"1000" doc:"How much it counts in the score, beside the weights of the others. 0: it is judged and does not count. Default: 1."`
}

// Parse returns a rubric with what holds where it does not say, and every field that is
// wrong, below the given one. Neither: there is no rubric.
func Parse(raw []byte, field string) (*Rubric, []fault.Field) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	r := new(Rubric)
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, []fault.Field{{Field: field, Message: "it is not a rubric: an object with criteria"}}
	}
	if wrong := r.wrong(); len(wrong) > 0 {
		for i := range wrong {
			wrong[i] = wrong[i].Under(field)
		}
		return nil, wrong
	}
	if r.MinScore == nil {
		r.MinScore = new(defaultScore)
	}
	if r.MaxIterations == 0 {
		r.MaxIterations = defaultIterations
	}
	return r, nil
}

// wrong returns what contradicts itself; the shape was checked by the schema, and is
// checked again where a rubric comes another way.
func (r *Rubric) wrong() (wrong []fault.Field) {
	add := func(field, format string, args ...any) {
		wrong = append(wrong, fault.Field{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	switch n := len(r.Criteria); {
	case n == 0:
		add("criteria", "a rubric needs at least one criterion")
	case n > 20:
		add("criteria", "a rubric has at most 20 criteria, and this one has %d; join those that belong together", n)
		return wrong
	}
	seen, counts := map[string]int{}, false
	for i := range r.Criteria {
		c := &r.Criteria[i]
		at := fmt.Sprintf("criteria[%d].", i)
		name := strings.ToLower(strings.TrimSpace(c.Name))
		if first, twice := seen[name]; twice && name != "" {
			add(at+"name", "criteria[%d] has the same name; give each criterion a name of its own", first)
		}
		seen[name] = i
		if name == "" || len(c.Name) > 400 {
			add(at+"name", "expected a short name that is not blank, with up to 100 characters")
		}
		if len(c.Description) > 8000 {
			add(at+"description", "expected at most 2000 characters")
		}
		if w := c.weight(); !(w >= 0 && w <= 1000) {
			add(at+"weight", "expected a number from 0 to 1000")
		}
		counts = counts || c.weight() > 0
	}
	if !counts && len(r.Criteria) > 0 {
		add("criteria", "the weights of all criteria are 0, so that no result has a score; give one of them a weight above 0")
	}
	if s := r.MinScore; s != nil && !Valid(s) {
		add("min_score", "expected a number from 0 to 1, because scores are")
	}
	if n := r.MaxIterations; n < 0 || n > 10 {
		add("max_iterations", "expected a number from 1 to 10")
	}
	if c := r.MaxCostUSD; c != nil && !(*c >= 0) {
		add("max_cost_usd", "expected US dollars, or 0 for no bound")
	}
	return wrong
}

// Least returns the score with which the outcome is reached.
func (r *Rubric) Least() float64 {
	if r.MinScore == nil {
		return defaultScore
	}
	return *r.MinScore
}

func (c *Criterion) weight() float64 {
	if c.Weight == nil {
		return 1
	}
	return *c.Weight
}
