package guardrail

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/pii"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/policy"
)

// Settings are an agent's guardrails field: which guardrails check which stage, in
// which order.
type Settings struct {
	_ struct{} `json:"-" name:"AgentGuardrails"`

	Input   []Use    `json:"input,omitzero" nullable:"true" maxItems:"50" doc:"Guardrails that check messages, in this order."`
	Output  []Use    `json:"output,omitzero" nullable:"true" maxItems:"50" doc:"Guardrails that check answers, in this order."`
	Tool    []Use    `json:"tool,omitzero" nullable:"true" maxItems:"50" doc:"Guardrails that check tool calls and their results, in this order."`
	BuiltIn []string `json:"built_in,omitzero" nullable:"true" maxItems:"50" enum:"pii,secrets" doc:"Guardrails that need not be created, and are checked first: pii redacts personal data in messages and answers, secrets redacts API keys everywhere."`
}

// Use is the use of a guardrail by an agent.
type Use struct {
	_ struct{} `json:"-" name:"AgentGuardrailUse"`

	GuardrailID    string          `json:"guardrail_id,omitzero" required:"true" format:"uuid" doc:"The guardrail. If there is none with this id, its stage is blocked."`
	Enabled        *bool           `json:"enabled,omitzero" nullable:"true" doc:"false: this agent does not use it. Default: true."`
	ActionOverride *string         `json:"action_override,omitzero" nullable:"true" enum:"block,redact,flag,warn,log" doc:"The agent's action, instead of the guardrail's and the webhook's."`
	ConfigOverride schema.Nullable `json:"config_override,omitzero" doc:"Members that replace those of the guardrail's config for this agent; null removes one."`
}

func (u *Use) enabled() bool { return u.Enabled == nil || *u.Enabled }

// builtIn is a predefined guardrail.
type builtIn struct {
	name   string
	stages []policy.Stage
	compiled
}

// builtIns redact. "pii" does not check tool calls: an agent whose tool calls must not
// contain an address could not write to it.
var builtIns = []builtIn{
	{"pii", []policy.Stage{policy.Input, policy.Output}, compiled{checker: &spanChecker{find: piiFinder{entities: pii.Entities}}}},
	{"secrets", []policy.Stage{policy.Input, policy.Output, policy.Tool}, compiled{
		checker: &spanChecker{find: piiFinder{entities: []pii.Entity{pii.APIKey}}},
	}},
}

// none reports whether a guardrails field is empty, without decoding it.
func none(field jsontext.Value) bool {
	return len(field) == 0 || string(field) == "null" || string(field) == "{}"
}

// CheckSettings returns the invalid fields of an agent's guardrails field, with paths
// in the agent's body. It does not check that the guardrails exist, because they can
// be deleted later.
func CheckSettings(field schema.Nullable) []fault.Field {
	if none(jsontext.Value(field)) {
		return nil
	}
	_, invalid := readSettings(jsontext.Value(field))
	return prefixFields("guardrails", invalid)
}

func readSettings(field jsontext.Value) (*Settings, []fault.Field) {
	s, err := schema.Decode[Settings](field)
	if err != nil {
		e := fault.From(err)
		if len(e.Fields) == 0 {
			return nil, []fault.Field{{Field: "body", Message: e.Detail}}
		}
		return nil, e.Fields
	}
	return s, nil
}

func (s *Settings) uses(stage policy.Stage) []Use {
	switch stage {
	case policy.Input:
		return s.Input
	case policy.Output:
		return s.Output
	}
	return s.Tool
}

// builtIns returns the built-in guardrails that check a stage, in the agent's order.
func (s *Settings) builtIns(stage policy.Stage) (all []*builtIn) {
	for _, name := range s.BuiltIn {
		for i := range builtIns {
			if b := &builtIns[i]; b.name == name && slices.Contains(b.stages, stage) && !slices.Contains(all, b) {
				all = append(all, b)
			}
		}
	}
	return all
}
