package agent

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
)

// The members of the fields on context and reasoning that runs read; other
// members are the client's own.
type (
	thinkingShape struct {
		Mode   string     `json:"mode" enum:"adaptive,fixed" nullable:"true"`
		Budget int64      `json:"budget_tokens" minimum:"1" maximum:"10000000" nullable:"true"`
		Effort schema.Any `json:"effort"` // a level, or a number
	}
	effortPolicyShape struct {
		Plan     string `json:"plan" enum:"low,medium,high,max" nullable:"true"`
		Act      string `json:"act" enum:"low,medium,high,max" nullable:"true"`
		Evaluate string `json:"evaluate" enum:"low,medium,high,max" nullable:"true"`
	}
	imageGenerationShape struct {
		Provider string `json:"provider" maxLength:"100" nullable:"true"`
		Model    string `json:"model" maxLength:"300" nullable:"true"`
	}
)

var shapes = []struct {
	field  string
	of     func(*Agent) schema.Nullable
	schema *schema.Schema
}{
	{"thinking", func(g *Agent) schema.Nullable { return g.Thinking }, schema.Of[thinkingShape]()},
	{"effort_policy", func(g *Agent) schema.Nullable { return g.EffortPolicy }, schema.Of[effortPolicyShape]()},
	{"image_generation", func(g *Agent) schema.Nullable { return g.ImageGeneration }, schema.Of[imageGenerationShape]()},
}

// misshapen lists what is wrong in these fields.
func misshapen(g *Agent) (wrong []fault.Field) {
	for _, s := range shapes {
		raw := s.of(g)
		if len(raw) == 0 || jsontext.Value(raw).Kind() == 'n' {
			continue
		}
		err := s.schema.Check(raw, false)
		if err == nil {
			continue
		}
		for _, f := range fault.From(err).Fields {
			wrong = append(wrong, f.Under(s.field))
		}
	}
	return append(wrong, wrongEffort(g.Thinking)...)
}

const effortsAre = "expected low, medium, high, max or a number from 0 to 100"

// wrongEffort checks the one member that is of two kinds.
func wrongEffort(raw schema.Nullable) []fault.Field {
	var t struct {
		Effort jsontext.Value `json:"effort"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &t) != nil || len(t.Effort) == 0 {
		return nil
	}
	switch t.Effort.Kind() {
	case 'n':
		return nil
	case '"':
		var level string
		if json.Unmarshal(t.Effort, &level) == nil {
			switch level {
			case "low", "medium", "high", "max":
				return nil
			}
		}
	case '0':
		var n float64
		if json.Unmarshal(t.Effort, &n) == nil && n >= 0 && n <= 100 {
			return nil
		}
	}
	return []fault.Field{{Field: "thinking.effort", Message: effortsAre}}
}
