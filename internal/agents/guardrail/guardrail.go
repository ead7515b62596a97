// Package guardrail is what guardrails are, and the gate that asks them:
// checks of what goes into a run, what comes out of it, and what its tools are
// called with and give (interface.md sections 2 and 6, decisions.md D13).
//
// A guardrail that cannot be asked does not let pass: one that an agent names
// and that is gone or wrong blocks, and so does, unless its config says
// otherwise, a rule, judge or webhook that fails.
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

// Guardrail is a guardrail as it is stored and shown. A webhook can also be
// made in the reference's form, where phase says the stage, the kind is left
// out, and the actions warn and log mean flag.
type Guardrail struct {
	resource.Meta `json:"-"`

	Name    string        `json:"name" required:"true" minLength:"1" maxLength:"200"`
	Kind    string        `json:"kind" enum:"regex,keyword,pii,cel,judge,webhook" doc:"What looks at the text. Left out: webhook, where there is a webhook_url."`
	Stage   string        `json:"stage" enum:"input,output,both,tool" doc:"What is looked at: the message, the answer, both of them, or calls of tools and their results."`
	Action  string        `json:"action" enum:"block,redact,flag,warn,log" default:"block" doc:"What happens on a violation. warn and log are other names of flag."`
	Enabled bool          `json:"enabled" default:"true"`
	Config  schema.Object `json:"config" doc:"What the kind needs: patterns, keywords, entities, expression, prompt, and more."`

	WebhookURL string `json:"webhook_url,omitzero" format:"uri" maxLength:"2048" doc:"Of kind webhook: where the guardrail is asked."`
	Phase      string `json:"phase,omitzero" enum:"input,output,both" doc:"Of kind webhook: the stage under its other name."`
	TimeoutMS  int    `json:"timeout_ms,omitzero" minimum:"1" maximum:"60000" doc:"Of kind webhook and judge: how long an answer is waited for."`
	Secret     string `json:"secret,omitzero" secret:"true" maxLength:"500" doc:"Of kind webhook: signs the calls."`
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

// both is the stage of what looks at input and output.
const both = "both"

// MaxGuardrails is how many a tenant may have, so that a list shows them all.
const MaxGuardrails = 200

const (
	webhookTimeout = 5 * time.Second
	judgeTimeout   = 30 * time.Second
)

// action gives the policy's action for a name of it.
func action(name string) policy.Action {
	switch name {
	case "", "block":
		return policy.Block
	case "redact":
		return policy.Redact
	}
	return policy.Flag
}

// covers says whether the guardrail looks at a stage.
func (g *Guardrail) covers(stage policy.Stage) bool {
	return g.Stage == string(stage) || g.Stage == both && stage != policy.Tool
}

// hookConfig are fields of a webhook that may come in its config too, but are
// not kept there: what is in a config is shown.
type hookConfig struct {
	URL        string `json:"url"`
	WebhookURL string `json:"webhook_url"`
	TimeoutMS  int    `json:"timeout_ms"`
	Secret     string `json:"secret"`
}

// normalize takes every way in which a guardrail can be written to one. was is
// what it was before; nil at creation.
func (g *Guardrail) normalize(was *Guardrail) []fault.Field {
	if g.Kind == "" && (g.WebhookURL != "" || g.Phase != "") {
		g.Kind = Webhook
	}
	switch g.Kind {
	case Webhook:
		if wrong := g.liftConfig(); wrong != nil {
			return wrong
		}
		g.TimeoutMS = cmp.Or(g.TimeoutMS, int(webhookTimeout.Milliseconds()))
	case Judge:
		g.TimeoutMS = cmp.Or(g.TimeoutMS, int(judgeTimeout.Milliseconds()))
	default:
		g.TimeoutMS = 0
	}
	return g.normalizeStage(was)
}

// normalizeStage has stage and phase say the same: what the one that changed says.
func (g *Guardrail) normalizeStage(was *Guardrail) []fault.Field {
	old := Guardrail{}
	if was != nil {
		old = *was
	}
	phaseSaid := g.Phase != "" && g.Phase != old.Phase
	stageSaid := g.Stage != "" && g.Stage != old.Stage
	switch {
	case phaseSaid && stageSaid && g.Phase != g.Stage:
		return []fault.Field{{Field: "phase", Message: "it is another one than stage; send only one of them"}}
	case phaseSaid:
		g.Stage = g.Phase
	}
	g.Phase = ""
	if g.Kind == Webhook && g.Stage != string(policy.Tool) {
		g.Phase = g.Stage
	}
	return nil
}

// liftConfig moves what belongs beside the config out of it.
func (g *Guardrail) liftConfig() []fault.Field {
	if len(g.Config) == 0 {
		return nil
	}
	var members map[string]schema.Any
	var said hookConfig
	if err := json.Unmarshal(g.Config, &members); err != nil {
		return []fault.Field{{Field: "config", Message: "it cannot be read"}}
	}
	if err := json.Unmarshal(g.Config, &said); err != nil {
		return []fault.Field{{Field: "config", Message: "url and secret must be text, timeout_ms a whole number"}}
	}
	before := len(members)
	for _, name := range []string{"url", "webhook_url", "timeout_ms", "secret"} {
		delete(members, name)
	}
	if len(members) == before {
		return nil
	}
	g.WebhookURL = cmp.Or(said.URL, said.WebhookURL, g.WebhookURL)
	g.TimeoutMS = cmp.Or(said.TimeoutMS, g.TimeoutMS)
	g.Secret = cmp.Or(said.Secret, g.Secret)
	rest, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return []fault.Field{{Field: "config", Message: "it cannot be read"}}
	}
	g.Config = schema.Object(rest)
	return nil
}

// timeout is how long an answer is waited for.
func (g *Guardrail) timeout() time.Duration { return time.Duration(g.TimeoutMS) * time.Millisecond }
