// Package guardrail stores guardrails and runs them: checks of a run's message, of its
// answer, and of the arguments and results of its tools.
//
// A guardrail that cannot run blocks: one that an agent names and that is deleted or
// invalid always, a rule, judge or webhook that fails unless on_error allows.
package guardrail

import (
	"cmp"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/resource"
)

// Guardrail is a guardrail as it is stored and shown. A webhook can also be written in
// the reference's form, without a kind, and with the actions warn and log for flag.
type Guardrail struct {
	resource.Meta `json:"-"`

	Name    string        `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"Name of the guardrail, as people see it."`
	Kind    string        `json:"kind" enum:"regex,keyword,pii,cel,judge,webhook" doc:"How the text is checked. Default: webhook, if webhook_url is set."`
	Phase   string        `json:"phase" enum:"input,output,both,tool" doc:"What is checked: the message, the answer, both, or tool calls and their results."`
	Stage   string        `json:"stage" enum:"input,output,both,tool" doc:"Another name of phase."`
	Action  string        `json:"action" enum:"block,redact,flag,warn,log" default:"block" doc:"What happens on a violation. warn and log are aliases of flag."`
	Enabled bool          `json:"enabled" default:"true" doc:"false: it checks nothing, for any agent."`
	Config  schema.Object `json:"config" doc:"Settings of the kind: patterns, keywords, entities, expression, prompt and others."`

	WebhookURL string `json:"webhook_url,omitzero" format:"uri" maxLength:"2048" doc:"Kind webhook: the URL that is called."`
	TimeoutMS  int    `json:"timeout_ms,omitzero" minimum:"1" maximum:"60000" doc:"Kinds webhook and judge: how long to wait for an answer."`
	Secret     string `json:"secret,omitzero" secret:"true" maxLength:"500" doc:"Kind webhook: the secret that signs the calls."`
}

// The kinds.
const (
	Regex   = "regex"
	Keyword = "keyword"
	PII     = "pii"
	CEL     = "cel"
	Judge   = "judge"
	Webhook = "webhook"
)

// both is the stage that checks input and output.
const both = "both"

// MaxGuardrails is how many a tenant may have; a list returns them all.
const MaxGuardrails = 200

const (
	webhookTimeout = 5 * time.Second
	judgeTimeout   = 30 * time.Second
)

// action returns the action with a name.
func action(name string) policy.Action {
	switch name {
	case "", "block":
		return policy.Block
	case "redact":
		return policy.Redact
	}
	return policy.Flag
}

// covers reports whether the guardrail checks a stage.
func (g *Guardrail) covers(stage policy.Stage) bool {
	return g.Stage == string(stage) || g.Stage == both && stage != policy.Tool
}

// hookConfig are fields of a webhook that are accepted in config too, but not stored
// there, because config is shown.
type hookConfig struct {
	URL        string `json:"url"`
	WebhookURL string `json:"webhook_url"`
	TimeoutMS  int    `json:"timeout_ms"`
	Secret     string `json:"secret"`
}

// normalize rewrites the alternative forms of a guardrail to one. old is the stored
// one, nil at creation.
func (g *Guardrail) normalize(old *Guardrail) []fault.Field {
	if g.Kind == "" && (g.WebhookURL != "" || g.Phase != "") {
		g.Kind = Webhook
	}
	switch g.Kind {
	case Webhook:
		if errs := g.liftConfig(); errs != nil {
			return errs
		}
		g.TimeoutMS = cmp.Or(g.TimeoutMS, int(webhookTimeout.Milliseconds()))
	case Judge:
		g.TimeoutMS = cmp.Or(g.TimeoutMS, int(judgeTimeout.Milliseconds()))
	default:
		g.TimeoutMS = 0
	}
	return g.normalizeStage(old)
}

// normalizeStage sets both names of the phase to the one that changed; both changed to
// different values is an error.
func (g *Guardrail) normalizeStage(old *Guardrail) []fault.Field {
	if old == nil {
		old = &Guardrail{}
	}
	phaseChanged := g.Phase != "" && g.Phase != old.Phase
	stageChanged := g.Stage != "" && g.Stage != old.Stage
	switch {
	case phaseChanged && stageChanged && g.Phase != g.Stage:
		return []fault.Field{{Field: "phase", Message: "differs from stage, its other name; send only one of them"}}
	case phaseChanged:
		g.Stage = g.Phase
	}
	g.Phase = g.Stage
	return nil
}

// liftConfig moves the fields of hookConfig out of the config.
func (g *Guardrail) liftConfig() []fault.Field {
	if len(g.Config) == 0 {
		return nil
	}
	var members map[string]schema.Any
	var hook hookConfig
	if err := json.Unmarshal(g.Config, &members); err != nil {
		return []fault.Field{{Field: "config", Message: "cannot be read"}}
	}
	if err := json.Unmarshal(g.Config, &hook); err != nil {
		return []fault.Field{{Field: "config", Message: "url and secret must be strings, timeout_ms a whole number"}}
	}
	before := len(members)
	for _, name := range []string{"url", "webhook_url", "timeout_ms", "secret"} {
		delete(members, name)
	}
	if len(members) == before {
		return nil
	}
	g.WebhookURL = cmp.Or(hook.URL, hook.WebhookURL, g.WebhookURL)
	g.TimeoutMS = cmp.Or(hook.TimeoutMS, g.TimeoutMS)
	g.Secret = cmp.Or(hook.Secret, g.Secret)
	rest, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return []fault.Field{{Field: "config", Message: "cannot be read"}}
	}
	g.Config = schema.Object(rest)
	return nil
}

// timeout returns how long to wait for an answer.
func (g *Guardrail) timeout() time.Duration { return time.Duration(g.TimeoutMS) * time.Millisecond }
