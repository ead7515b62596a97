package guardrail

import (
	"cmp"
	"context"
	"fmt"

	"agentd/internal/base/fault"
	"agentd/internal/base/pii"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/rule"
)

// The parts of a call that the stage tool checks.
const (
	partArguments = "arguments"
	partResult    = "result"
)

// Common are the members of config that every kind has.
type Common struct {
	OnError     string  `json:"on_error" enum:"block,allow" doc:"What happens if the guardrail fails. Default: block; allow if its action is flag."`
	Part        string  `json:"part" enum:"arguments,result,both" doc:"Stage tool: which part of a call is checked."`
	Replacement *string `json:"replacement" nullable:"true" maxLength:"1000" doc:"Replaces what is redacted."`
}

// replacement returns what redacted text becomes.
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

// checkInput is a text to check.
type checkInput struct {
	run    policy.Run
	stage  policy.Stage
	part   string // of stage tool
	tool   string
	text   string
	action policy.Action // on a violation, unless the checker decides otherwise
}

// checkResult is a checker's result. The zero value means no violation.
type checkResult struct {
	violated bool
	reason   string        // why, as part of a sentence
	action   policy.Action // that the checker decides; "": the guardrail's
	text     string        // redacted
	redacted bool          // text is set
	usage    *judgeUsage
}

// judgeUsage is the usage of a judge's model call.
type judgeUsage struct {
	target model.Target
	usage  model.Usage
}

// checker checks texts. An error means that it could not; it is a sentence without
// its initial capital and full stop.
type checker interface {
	check(ctx context.Context, q checkInput) (checkResult, error)
}

// compiled is a guardrail that is ready to run.
type compiled struct {
	Common
	checker
}

// compile compiles a guardrail with a config. It returns the invalid fields, under
// config.
func (a *Guardrails) compile(g *Guardrail, config schema.Object) (compiled, []fault.Field) {
	if len(config) == 0 {
		config = schema.Object("{}")
	}
	var c compiled
	var invalid []fault.Field
	switch g.Kind {
	case Regex:
		c, invalid = build(config, newRegex)
	case Keyword:
		c, invalid = build(config, newKeyword)
	case PII:
		c, invalid = build(config, newPII)
	case CEL:
		c, invalid = build(config, newCEL)
	case Judge:
		c, invalid = build(config, func(in *judgeConfig) (compiled, []fault.Field) {
			return compiled{in.Common, &judge{in, a.options.Models, a.options.Client, g.TenantID, g.timeout()}}, nil
		})
	case Webhook:
		c, invalid = build(config, func(in *webhookConfig) (compiled, []fault.Field) {
			return compiled{in.Common, &webhook{g, a.options.Hooks, in.replacement()}}, nil
		})
	default:
		return c, []fault.Field{{Field: "kind", Message: "unknown kind"}}
	}
	return c, prefixFields("config", invalid)
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
	var invalid []fault.Field
	for i, k := range in.Keywords {
		if !w.add(k) {
			invalid = append(invalid, fault.Field{Field: fmt.Sprintf("keywords[%d]", i), Message: "must not be blank"})
		}
	}
	return compiled{in.Common, &spanChecker{find: keywordFinder{w, in.replacement()}}}, invalid
}

// celNames are the variables of an expression.
var celNames = []string{"text", "stage", "part", "tool", "arguments", "agent_id"}

func newCEL(in *celConfig) (compiled, []fault.Field) {
	r, err := rule.Compile(in.Expression, celNames...)
	if err != nil {
		return compiled{}, []fault.Field{{Field: "expression", Message: err.Error()}}
	}
	// A result has no arguments, so that a rule about them would fail for each one.
	in.Part = cmp.Or(in.Part, partArguments)
	return compiled{in.Common, &celChecker{r, in.replacement()}}, nil
}
