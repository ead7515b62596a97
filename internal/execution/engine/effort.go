package engine

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// phase of a run, by which an agent's effort_policy sets how hard the model
// thinks.
type phase string

const (
	phasePlan     phase = "plan"     // somebody spoke, and the model decides what to do
	phaseAct      phase = "act"      // a tool answered
	phaseEvaluate phase = "evaluate" // the closing answer
)

// phaseOf is the phase of the call that is about to be made.
func (a *attempt) phaseOf() phase {
	switch n := len(a.messages); {
	case a.closing:
		return phaseEvaluate
	case n > 0 && a.messages[n-1].Role == model.Tool:
		return phaseAct
	}
	return phasePlan
}

// thinking is the agent's field thinking (agent.checkThinking is its gate).
// The effort is a level, or a number from 0 to 100.
type thinking struct {
	Mode   string         `json:"mode"` // adaptive (default) | fixed
	Budget int64          `json:"budget_tokens"`
	Effort jsontext.Value `json:"effort"`
}

// levels are the efforts of agents, and after them what endpoints have above
// the highest of the usual ones, from low to high.
var levels = []string{"low", "medium", "high", "max"}

// usualEfforts is what reasoning_effort takes where nobody says more. Some
// models take xhigh or max too; the catalogue or the agent says so.
var usualEfforts = []string{"low", "medium", "high"}

// ladder is every value of reasoning_effort, by its height.
var ladder = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

const (
	effortField   = "reasoning_effort"
	parallelCalls = "parallel_tool_calls" // which endpoints refuse where no tools are
)

// extra gives the further fields of a call: what its caller wishes, and how the
// agent has its model think, unless the caller says how hard.
func extra(spec *run.AgentSpec, in phase, takes model.Capabilities, wishes map[string]jsontext.Value) map[string]jsontext.Value {
	own := effort(spec, in, takes)
	if len(wishes) == 0 {
		return own
	}
	fields := maps.Clone(wishes)
	delete(fields, parallelCalls)
	wish := fields[effortField]
	if wish == nil {
		maps.Copy(fields, own)
		return fields
	}
	var level string
	if takes.Efforts != nil && json.Unmarshal(wish, &level) == nil {
		wish = encode(taken(level, takes.Efforts))
	}
	if thinks := takes.Thinking == nil || *takes.Thinking; thinks && string(wish) != `""` {
		fields[effortField] = wish
	} else {
		delete(fields, effortField)
	}
	return fields
}

// effort gives the fields that tell a model how to think in a phase: what of
// the agent's thinking and effort_policy the model takes. Nil: nothing is said.
//
// In the mode fixed every call thinks alike. Otherwise effort_policy, where it
// names the phase, goes before the effort of thinking.
func effort(spec *run.AgentSpec, in phase, takes model.Capabilities) map[string]jsontext.Value {
	if absent(spec.Thinking) && absent(spec.EffortPolicy) || takes.Thinking != nil && !*takes.Thinking {
		return nil
	}
	var think thinking
	var policy map[phase]string
	// What is of another shape was refused when the agent was written.
	_ = json.Unmarshal([]byte(spec.Thinking), &think)
	_ = json.Unmarshal([]byte(spec.EffortPolicy), &policy)
	level := levelOf(think)
	if think.Mode != "fixed" && policy[in] != "" {
		level = policy[in]
	}
	fields := map[string]jsontext.Value{}
	if value := taken(level, takes.Efforts); value != "" {
		fields[effortField] = encode(value)
	}
	if think.Budget > 0 {
		if field, value := takes.BudgetField(think.Budget); field != "" {
			fields[field] = value
			delete(fields, effortField) // an endpoint that takes a budget refuses both
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return fields
}

func absent(v schema.Nullable) bool { return len(v) == 0 || jsontext.Value(v).Kind() == 'n' }

// levelOf is the effort of an agent's thinking: what it says, or what its
// budget amounts to.
func levelOf(t thinking) string {
	switch t.Effort.Kind() {
	case '"':
		var level string
		if json.Unmarshal(t.Effort, &level) == nil {
			return level
		}
	case '0':
		var n float64
		if json.Unmarshal(t.Effort, &n) == nil {
			return levels[min(max(int(n/100*float64(len(levels))), 0), len(levels)-1)]
		}
	}
	switch {
	case t.Budget <= 0:
		return "medium"
	case t.Budget <= 2048:
		return "low"
	case t.Budget <= 8192:
		return "medium"
	}
	return "high"
}

// taken is the value of reasoning_effort for a level: itself, or the nearest
// below it that the model takes, or the lowest one. "": it takes none.
func taken(level string, takes []string) string {
	if takes == nil {
		takes = usualEfforts
	}
	best := ""
	for _, value := range ladder {
		switch {
		case !slices.Contains(takes, value):
		case best == "", slices.Index(ladder, value) <= slices.Index(ladder, level):
			best = value
		}
	}
	return best
}
