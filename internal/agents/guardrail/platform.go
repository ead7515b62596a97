package guardrail

import (
	"fmt"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/policy"
)

// PlatformRule is a guardrail of the operator's, which checks all agents of all tenants
// before their own ones.
type PlatformRule struct {
	_ struct{} `json:"-" name:"AdminConfigGuardrail"`

	Name   string        `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"Its name, which a run that it stops names."`
	Kind   string        `json:"kind" required:"true" enum:"regex,keyword,pii,cel" doc:"How the text is checked, as the kind of a guardrail."`
	Stage  string        `json:"stage" required:"true" enum:"input,output,both,tool" doc:"What is checked: the message, the answer, both, or tool calls and their results."`
	Action string        `json:"action" required:"true" enum:"block,redact,flag" doc:"What happens on a violation."`
	Config schema.Object `json:"config,omitzero" doc:"Settings of the kind, as those of a guardrail: pattern, keywords, entities, expression."`
}

// Platform is the operator's guardrails, ready to run. Nil: there are none.
type Platform struct{ rules []platformRule }

type platformRule struct {
	of Guardrail
	compiled
}

// CompilePlatform returns guardrails of the operator's, and what is wrong with them.
func CompilePlatform(all []PlatformRule) (*Platform, []fault.Field) {
	if len(all) == 0 {
		return nil, nil
	}
	p := &Platform{}
	var wrong []fault.Field
	for i, one := range all {
		g := Guardrail{Name: one.Name, Kind: one.Kind, Stage: one.Stage, Action: one.Action}
		c, invalid := (&Guardrails{}).compile(&g, one.Config)
		wrong = append(wrong, prefixFields(fmt.Sprintf("guardrails[%d]", i), invalid)...)
		p.rules = append(p.rules, platformRule{g, c})
	}
	return p, wrong
}

func (p *Platform) covers(stage policy.Stage) bool {
	if p == nil {
		return false
	}
	for i := range p.rules {
		if p.rules[i].of.covers(stage) {
			return true
		}
	}
	return false
}

// platform returns the operator's guardrails.
func (g Gate) platform() *Platform {
	if g.Platform == nil {
		return nil
	}
	return g.Platform()
}
