package guardrail

import (
	"cmp"
	"context"
	"fmt"

	"agentd/internal/agents/guardrail/pii"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/rule"
)

// The parts of a call that the stage tool looks at.
const (
	partArguments = "arguments"
	partResult    = "result"
)

// Common are the members of a config that every kind has.
type Common struct {
	OnError     string  `json:"on_error" enum:"block,allow" doc:"What happens where the guardrail cannot decide. Left out: block, but allow where it only flags."`
	Part        string  `json:"part" enum:"arguments,result,both" doc:"Of stage tool: what of a call is looked at."`
	Replacement *string `json:"replacement" nullable:"true" maxLength:"1000" doc:"What stands in place of what is redacted."`
}

// replacement is what redacted text becomes.
func (c Common) replacement() string {
	if c.Replacement != nil {
		return *c.Replacement
	}
	return "[REDACTED]"
}

type regexConfig struct {
	Common
	Pattern  string   `json:"pattern" maxLength:"2000"`
	Patterns []string `json:"patterns" maxItems:"100" maxLength:"2000"`
}

type keywordConfig struct {
	Common
	Keywords      []string `json:"keywords" required:"true" minItems:"1" maxItems:"1000" minLength:"1" maxLength:"200"`
	CaseSensitive bool     `json:"case_sensitive"`
}

type piiConfig struct {
	Common
	Entities []string `json:"entities" enum:"email,phone,credit_card,iban,ip_address,us_ssn,api_key"`
}

type celConfig struct {
	Common
	Expression string `json:"expression" required:"true"`
}

type judgeConfig struct {
	Common
	Prompt    string  `json:"prompt" required:"true" minLength:"1" maxLength:"20000"`
	Model     string  `json:"model" maxLength:"300"`
	Threshold float64 `json:"threshold" minimum:"0" maximum:"1" default:"0.5"`
}

type webhookConfig struct {
	Common
}

// checkInput is a text that is checked.
type checkInput struct {
	run    policy.Run
	stage  policy.Stage
	part   string // of stage tool
	tool   string
	text   string
	action policy.Action // what a violation leads to, unless the checker knows better
}

// checkResult is a checker's answer. The zero finding is that all is well.
type checkResult struct {
	violated bool
	reason   string        // what is wrong, as a part of a sentence
	action   policy.Action // what the checker wants done; "": what was asked for
	text     string        // with what was found taken out
	redacted bool          // text is set
	usage    *judgeUsage
}

// judgeUsage is what a judge cost.
type judgeUsage struct {
	target model.Target
	usage  model.Usage
}

// checker looks at texts. An error is that it cannot decide; it is a sentence
// without its first capital and its full stop.
type checker interface {
	check(ctx context.Context, q checkInput) (checkResult, error)
}

// compiled is a guardrail ready to be asked.
type compiled struct {
	Common
	checker
}

// compile makes what asks a guardrail with a config. Errors are the wrong
// fields, under config.
func (a *Guardrails) compile(g *Guardrail, config schema.Object) (compiled, []fault.Field) {
	if len(config) == 0 {
		config = schema.Object("{}")
	}
	var c compiled
	var wrong []fault.Field
	switch g.Kind {
	case Regex:
		c, wrong = build(config, newRegex)
	case Keyword:
		c, wrong = build(config, newKeyword)
	case PII:
		c, wrong = build(config, newPII)
	case CEL:
		c, wrong = build(config, newCEL)
	case Judge:
		c, wrong = build(config, func(in *judgeConfig) (compiled, []fault.Field) {
			return compiled{in.Common, &judge{in, a.options.Models, a.options.Client, g.TenantID, g.timeout()}}, nil
		})
	case Webhook:
		c, wrong = build(config, func(in *webhookConfig) (compiled, []fault.Field) {
			return compiled{in.Common, &webhook{g, a.options.Hooks, in.replacement()}}, nil
		})
	default:
		return c, []fault.Field{{Field: "kind", Message: "there is no such kind"}}
	}
	return c, prefixFields("config", wrong)
}

func build[C any](config schema.Object, with func(*C) (compiled, []fault.Field)) (compiled, []fault.Field) {
	in, err := schema.Decode[C](config)
	if err != nil {
		e := fault.From(err)
		if len(e.Fields) == 0 {
			return compiled{}, []fault.Field{{Field: "body", Message: e.Detail}}
		}
		return compiled{}, e.Fields
	}
	return with(in)
}

func newPII(in *piiConfig) (compiled, []fault.Field) {
	entities := make([]pii.Entity, len(in.Entities))
	for i, e := range in.Entities {
		entities[i] = pii.Entity(e)
	}
	if len(entities) == 0 {
		entities = pii.Entities
	}
	return compiled{in.Common, &spanChecker{find: piiFinder{entities, in.Replacement}}}, nil
}

func newKeyword(in *keywordConfig) (compiled, []fault.Field) {
	w := newWords(!in.CaseSensitive)
	var wrong []fault.Field
	for i, k := range in.Keywords {
		if !w.add(k) {
			wrong = append(wrong, fault.Field{Field: fmt.Sprintf("keywords[%d]", i), Message: "it is blank"})
		}
	}
	return compiled{in.Common, &spanChecker{find: keywordFinder{w, in.replacement()}}}, wrong
}

// celNames are the variables of an expression.
var celNames = []string{"text", "stage", "part", "tool", "arguments", "agent_id"}

func newCEL(in *celConfig) (compiled, []fault.Field) {
	r, err := rule.Compile(in.Expression, celNames...)
	if err != nil {
		return compiled{}, []fault.Field{{Field: "expression", Message: err.Error()}}
	}
	// Results have no arguments, and a rule about them would block every one.
	in.Part = cmp.Or(in.Part, partArguments)
	return compiled{in.Common, &celChecker{r, in.replacement()}}, nil
}
