package policy

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
)

// Act is what an agent is about to do.
type Act struct {
	// Actions are the names under which rules may judge it: tool:<name>, spawn,
	// delegate, message, model:<ref>, or free words.
	Actions   []string
	Arguments jsontext.Value // of a tool call; nil: none
	Sources   []string       // which untrusted sources the run has read
	// Facts are what conditions see of the agent and the run beside their IDs. It is
	// called only if a condition is evaluated; nil: nothing.
	Facts func() (agent, run map[string]any)
	// FactsKey is the same only where Facts returns the same about the run's agent and the
	// run; "": not known, or there are no Facts.
	FactsKey string
}

// Effect is what rules make of an act, in ascending order of weight.
type Effect int

// The effects.
const (
	Allow     Effect = iota
	Log              // allowed, and recorded
	Warn             // allowed, and recorded as a warning
	Approve          // waits for a person's approval
	Deny             // not done
	Revoke           // not done; the agent may do nothing until the sanction is lifted
	Terminate        // not done; the run ends and the agent is suspended
)

var effects = [...]string{"allow", "log", "warn", "require_approval", "block", "revoke_permissions", "terminate_agent"}

// String returns the name of the effect: the penalty of rules that have it.
func (e Effect) String() string { return effects[e] }

// Finding is a rule that judged an act.
type Finding struct {
	RuleID   string `json:"rule_id"`
	Severity string `json:"severity"`
	Action   string `json:"action"`   // the one that the rule matched
	Decision string `json:"decision"` // effect of this rule
	Message  string `json:"message"`
	Shadow   bool   `json:"shadow,omitzero"` // recorded, not obeyed
}

// Ruling is the result of judging an act. The zero Ruling allows it, by no rule.
type Ruling struct {
	Effect   Effect
	Findings []Finding
}

// Reason returns the message of the rule that decided; "" if the act is allowed.
func (r Ruling) Reason() string {
	for _, f := range r.Findings {
		if !f.Shadow && f.Decision == r.Effect.String() {
			return "rule " + f.RuleID + ": " + f.Message
		}
	}
	return ""
}

// Governor judges what agents are about to do by the rules of their company.
type Governor interface {
	// Judge is called right before an act. An error means that it could not be judged;
	// the act is not done.
	Judge(ctx context.Context, r Run, act Act) (Ruling, error)
	// RecordTx records a ruling with findings, in the commit of the step that it
	// decided, and carries out its penalties.
	RecordTx(tx txn.Tx, r Run, ruling Ruling) error
}

// Anarchy is the Governor of a deployment without governance.
type Anarchy struct{}

// Judge implements Governor.
func (Anarchy) Judge(context.Context, Run, Act) (Ruling, error) { return Ruling{}, nil }

// RecordTx implements Governor.
func (Anarchy) RecordTx(txn.Tx, Run, Ruling) error { return nil }

// actionsOf are the actions as which rules may judge calls of tools that reach other
// agents, beside tool:<name>.
var actionsOf = map[string][]string{
	"delegate_to_agent":  {"delegate", "message"},
	"delegate_to_worker": {"delegate", "message"},
	"a2a_send":           {"message"},
	"spawn_agent":        {"spawn"},
}

// ToolAct returns a tool call as an act of a run that has read sources.
func ToolAct(name, arguments string, sources []string) Act {
	act := Act{
		Actions: append([]string{"tool:" + name}, actionsOf[name]...), Arguments: jsontext.Value(arguments), Sources: sources,
	}
	if strings.TrimSpace(arguments) == "" {
		act.Arguments = nil
	}
	return act
}
