package objective

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
)

// Planned is an objective of a plan. It names others by their places in the plan, from 0.
type Planned struct {
	_ struct{} `json:"-" name:"PlannedObjective"`

	Title       string            `json:"title" required:"true" minLength:"1" maxLength:"500" doc:"What is to be reached, in a few words."`
	Description string            `json:"description,omitzero" maxLength:"50000" doc:"The same at length: all that the agent that works on it has to know."`
	Criteria    []string          `json:"success_criteria,omitzero" maxItems:"50" maxLength:"2000" doc:"What has to be true of the result, as the judge verifies it. Without any, the first result is taken."`
	Priority    string            `json:"priority,omitzero" enum:"low,medium,high,critical" default:"medium" doc:"Which objective goes first where not all can go at once."`
	DependsOn   []int             `json:"depends_on_indices,omitzero" maxItems:"50" doc:"The objectives that have to be completed before it; their results are shown to the agent that works on it."`
	AgentID     string            `json:"assigned_agent_id,omitzero" maxLength:"36" ref:"agent" doc:"Who works on it. Default: the first agent of the mission."`
	TeamID      string            `json:"assigned_team_id,omitzero" maxLength:"36" ref:"team" doc:"The team that works on it, in place of an agent."`
	Budget      *Budget           `json:"budget,omitzero" doc:"What its runs may use. Default: no bounds but those of the mission."`
	Intent      string            `json:"commanders_intent,omitzero" maxLength:"20000" doc:"Why it matters, and what must be kept if the plan changes. The agent that works on it reads it."`
	Rules       *Rules            `json:"roe,omitzero" doc:"What the agent that works on it may do, as instructions."`
	Deadline    *time.Time        `json:"deadline,omitzero" format:"date-time" doc:"When it fails if it is not completed. Default: never."`
	Decisions   []PlannedDecision `json:"decision_points,omitzero" maxItems:"10" doc:"What is decided by its result."`
}

// PlannedDecision is a Decision of a plan.
type PlannedDecision struct {
	_ struct{} `json:"-" name:"PlannedDecisionPoint"`

	Condition string          `json:"condition" required:"true" minLength:"1" maxLength:"2000" doc:"What is to be decided by the result of the objective."`
	Branches  []PlannedBranch `json:"branches" required:"true" minItems:"1" maxItems:"20" doc:"The ways to go on. Objectives that are not chosen are skipped."`
	Fallback  *int            `json:"fallback_objective_index,omitzero" minimum:"0" doc:"The objective to go on with where no branch fits. Default: all are skipped."`
}

// PlannedBranch is a Branch of a plan.
type PlannedBranch struct {
	_ struct{} `json:"-" name:"PlannedBranch"`

	When      string `json:"when" required:"true" minLength:"1" maxLength:"2000" doc:"When this is the way."`
	Objective int    `json:"objective_index" required:"true" minimum:"0" doc:"The objective that follows; it begins after this one."`
}

// Check returns every invalid field of a plan: places that there are not, and cycles.
func Check(planned []Planned) (wrong []fault.Field) {
	n := len(planned)
	add := func(i int, field, message string) {
		wrong = append(wrong, fault.Field{Field: "objectives[" + strconv.Itoa(i) + "]." + field, Message: message})
	}
	if n == 0 {
		return []fault.Field{{Field: "objectives", Message: "the plan has no objectives; it needs at least one"}}
	}
	if n > Max {
		return []fault.Field{{Field: "objectives", Message: fmt.Sprintf("the plan has %d objectives; a mission may have %d", n, Max)}}
	}
	place := func(i, at int, field string) {
		switch {
		case at < 0 || at >= n:
			add(i, field, fmt.Sprintf("there is no objective %d in the plan; they are counted from 0 to %d", at, n-1))
		case at == i:
			add(i, field, "an objective cannot follow itself")
		}
	}
	for i := range planned {
		p := &planned[i]
		if strings.TrimSpace(p.Title) == "" {
			add(i, "title", "it is blank")
		}
		if p.AgentID != "" && p.TeamID != "" {
			add(i, "assigned_team_id", "it is assigned to an agent already; name one of the two")
		}
		for j, at := range p.DependsOn {
			place(i, at, fmt.Sprintf("depends_on_indices[%d]", j))
		}
		for j := range p.Decisions {
			field := fmt.Sprintf("decision_points[%d]", j)
			for k := range p.Decisions[j].Branches {
				place(i, p.Decisions[j].Branches[k].Objective, fmt.Sprintf("%s.branches[%d].objective_index", field, k))
			}
			if f := p.Decisions[j].Fallback; f != nil {
				place(i, *f, field+".fallback_objective_index")
			}
		}
	}
	if wrong != nil {
		return wrong
	}
	if cycle := cycleOf(edges(planned)); cycle != nil {
		add(cycle[0], "depends_on_indices", "objectives wait for each other: "+joined(cycle)+"; leave one of these dependencies out")
	}
	return wrong
}

// edges returns for each objective the ones that have to come before it.
func edges(planned []Planned) [][]int {
	before := make([][]int, len(planned))
	for i := range planned {
		before[i] = append(before[i], planned[i].DependsOn...)
		for _, d := range planned[i].Decisions {
			for _, b := range d.Branches {
				before[b.Objective] = append(before[b.Objective], i)
			}
			if d.Fallback != nil {
				before[*d.Fallback] = append(before[*d.Fallback], i)
			}
		}
	}
	return before
}

// cycleOf returns the places of a cycle, the first one at both ends; nil: there is none.
func cycleOf(before [][]int) []int {
	const fresh, open, closed = 0, 1, 2
	state, next := make([]int, len(before)), make([]int, len(before))
	for start := range before {
		if state[start] != fresh {
			continue
		}
		state[start] = open
		for path := []int{start}; len(path) > 0; {
			at := path[len(path)-1]
			if next[at] == len(before[at]) {
				state[at], path = closed, path[:len(path)-1]
				continue
			}
			to := before[at][next[at]]
			next[at]++
			switch state[to] {
			case fresh:
				state[to], path = open, append(path, to)
			case open:
				for path[0] != to {
					path = path[1:]
				}
				return append(path, to)
			}
		}
	}
	return nil
}

// Cyclic reports whether things wait for each other in a circle: before has for each id
// those that come before it; others than ids are none of the circle.
func Cyclic(ids []string, before [][]string) bool {
	at := map[string]int{}
	for i, id := range ids {
		at[id] = i
	}
	places := make([][]int, len(ids))
	for i := range before {
		for _, id := range before[i] {
			if j, ok := at[id]; ok {
				places[i] = append(places[i], j)
			}
		}
	}
	return cycleOf(places) != nil
}

func joined(places []int) string {
	words := make([]string, len(places))
	for i, at := range places {
		words[i] = strconv.Itoa(at)
	}
	return strings.Join(words, " -> ")
}

// Make returns the objectives of a plan that Check accepts. Their ids follow from the
// owner's, so that a plan that is stored again after a crash is the same.
func Make(owner string, planned []Planned, now time.Time) []Objective {
	all := make([]Objective, len(planned))
	for i := range all {
		all[i].ID = ident.Derive(owner, "objective", strconv.Itoa(i))
	}
	for i := range planned {
		p, o := &planned[i], &all[i]
		o.Seq, o.CreatedAt = i+1, now
		o.Plan = Plan{
			Title: p.Title, Description: p.Description, Criteria: p.Criteria, Priority: cmp.Or(p.Priority, "medium"),
			AgentID: p.AgentID, TeamID: p.TeamID, Intent: p.Intent, Rules: p.Rules, Deadline: p.Deadline,
		}
		if p.Budget != nil {
			o.Plan.Budget = *p.Budget
		}
		for _, at := range p.DependsOn {
			o.Plan.Dependencies = append(o.Plan.Dependencies, all[at].ID)
		}
		for _, d := range p.Decisions {
			made := Decision{Condition: d.Condition}
			for _, b := range d.Branches {
				made.Branches = append(made.Branches, Branch{When: b.When, ObjectiveID: all[b.Objective].ID})
			}
			if d.Fallback != nil {
				made.Fallback = all[*d.Fallback].ID
			}
			o.Plan.Decisions = append(o.Plan.Decisions, made)
		}
		o.State = State{Status: Pending, UpdatedAt: now}
	}
	return all
}
