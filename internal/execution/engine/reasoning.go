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

// phase of a run. An agent's effort_policy sets the reasoning effort by it.
type phase string

const (
	phasePlan     phase = "plan"     // after a message of the user
	phaseAct      phase = "act"      // after a tool's result
	phaseEvaluate phase = "evaluate" // the closing answer
)

// thinking is the agent's field thinking; agent.checkThinking validates it.
// The effort is a level, or a number from 0 to 100.
type thinking struct {
	Mode   string         `json:"mode"` // adaptive (default) | fixed
	Budget int64          `json:"budget_tokens"`
	Effort jsontext.Value `json:"effort"`
}

// levels are the efforts that agents can have, from low to high.
var levels = []string{"low", "medium", "high", "max"}

// defaultEfforts are the values of reasoning_effort that a model takes unless the
// catalogue or the agent lists others. Some models take xhigh or max too.
var defaultEfforts = []string{"low", "medium", "high"}

// allEfforts is every value of reasoning_effort, from low to high.
var allEfforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Fields of requests.
const (
	effortField   = "reasoning_effort"
	parallelCalls = "parallel_tool_calls" // endpoints refuse it in a request without tools
)

// extraFields returns the further fields of a call: those that the caller
// requested, and how the agent has its model reason, unless the caller
// requested an effort.
func extraFields(
	spec *run.AgentSpec, in phase, takes model.Capabilities, requested map[string]jsontext.Value,
) map[string]jsontext.Value {
	agents := reasoningFields(spec, in, takes)
	if len(requested) == 0 {
		return agents
	}
	fields := maps.Clone(requested)
	delete(fields, parallelCalls)
	effort := fields[effortField]
	if effort == nil {
		maps.Copy(fields, agents)
		return fields
	}
	var level string
	if takes.Efforts != nil && json.Unmarshal(effort, &level) == nil {
		effort = encode(nearestEffort(level, takes.Efforts))
	}
	if thinks := takes.Thinking == nil || *takes.Thinking; thinks && string(effort) != `""` {
		fields[effortField] = effort
	} else {
		delete(fields, effortField)
	}
	return fields
}

// reasoningFields returns the fields that set how a model reasons in a phase:
// the part of the agent's thinking and effort_policy that the model takes. Nil:
// none.
//
// In the mode fixed every call reasons alike. Otherwise effort_policy, where it
// has the phase, goes before the effort of thinking.
func reasoningFields(spec *run.AgentSpec, in phase, takes model.Capabilities) map[string]jsontext.Value {
	if absent(spec.Thinking) && absent(spec.EffortPolicy) || takes.Thinking != nil && !*takes.Thinking {
		return nil
	}
	var think thinking
	var policy map[phase]string
	// Other shapes were refused when the agent was written.
	_ = json.Unmarshal([]byte(spec.Thinking), &think)
	_ = json.Unmarshal([]byte(spec.EffortPolicy), &policy)
	level := levelOf(think)
	if think.Mode != "fixed" && policy[in] != "" {
		level = policy[in]
	}
	fields := map[string]jsontext.Value{}
	if value := nearestEffort(level, takes.Efforts); value != "" {
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

// levelOf returns the effort of an agent's thinking: the one that is set, or the
// one that its budget amounts to.
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

// nearestEffort returns the value of reasoning_effort for a level: itself, or
// the nearest below it that the model takes, or the lowest one. "": the model
// takes none.
func nearestEffort(level string, takes []string) string {
	if takes == nil {
		takes = defaultEfforts
	}
	best := ""
	for _, value := range allEfforts {
		switch {
		case !slices.Contains(takes, value):
		case best == "", slices.Index(allEfforts, value) <= slices.Index(allEfforts, level):
			best = value
		}
	}
	return best
}
