// Package constitution keeps the rules that the agents of a company act under, and
// judges acts by them. A constitution has versions: each change is a new one, made of
// typed amendments that stand in the ledger.
package constitution

import (
	"fmt"
	"slices"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/rule"
)

// Limits of a constitution.
const (
	MaxRules = 2000
	MaxBytes = 1 << 20 // of all rules, as JSON
)

// Names that conditions may use.
var names = []string{"args", "agent", "run", "tenant", "sources"}

// Types of rules.
const (
	Prohibition = "prohibition"
	Requirement = "requirement"
	Permission  = "permission"
)

// Rule is one rule. One without an action is a principle for people: no act is
// judged by it.
type Rule struct {
	_ struct{} `json:"-" name:"ConstitutionRule"`

	RuleID          string   `json:"rule_id" maxLength:"100" doc:"Name of the rule, unique in the constitution. Required, but in an amendment, which names the rule itself."`
	Principle       string   `json:"principle" required:"true" maxLength:"2000" doc:"What it is for, in a sentence. An agent whose act is refused reads it."`
	Description     string   `json:"description" maxLength:"10000" doc:"More, for people."`
	Severity        string   `json:"severity" enum:"info,warning,error,blocker" default:"error" doc:"error and blocker forbid, warning allows and warns, info only records."`
	Scope           string   `json:"scope" enum:"global,tenant,agent" default:"tenant" doc:"agent: only the agents of scope_targets; otherwise all agents of the company."`
	ScopeTargets    []string `json:"scope_targets" maxItems:"1000" maxLength:"100" doc:"IDs of agents, for the scope agent."`
	RuleType        string   `json:"rule_type" enum:"prohibition,requirement,permission" default:"prohibition" doc:"A permission lifts prohibitions of lower priority that are not immutable. Requirements are listed as obligations; acts are not judged by them."`
	Action          string   `json:"action" maxLength:"200" doc:"Which acts it judges: tool:<name>, spawn, delegate, message, model:<ref>, or a word of your own for checks; a * at the end matches any ending. Empty: none."`
	ObligatedAction string   `json:"obligated_action" maxLength:"200" doc:"What a requirement demands."`
	Penalty         string   `json:"penalty" enum:",block,warn,log,require_approval,revoke_permissions,terminate_agent" doc:"What follows. Left out: block for error and blocker, warn for warning, log for info. Only error and blocker may do more than warn."`
	Priority        int64    `json:"priority" minimum:"-1000000" maximum:"1000000" doc:"A permission lifts only prohibitions of strictly lower priority."`
	Immutable       bool     `json:"immutable" doc:"Whether it can no longer be changed, removed or lifted."`
	Condition       string   `json:"condition" maxLength:"8192" doc:"CEL over args, agent, run, tenant and sources; the rule judges only acts for which it is true. Empty: all. Where it cannot be evaluated, the rule blocks."`
	Shadow          bool     `json:"shadow" doc:"Whether it is only recorded what the rule would have done."`
}

// complete fills what was left out.
func (r *Rule) complete() {
	if r.Severity == "" {
		r.Severity = "error"
	}
	if r.Scope == "" {
		r.Scope = "tenant"
	}
	if r.RuleType == "" {
		r.RuleType = Prohibition
	}
	if r.ScopeTargets == nil {
		r.ScopeTargets = []string{}
	}
	if r.Penalty == "" {
		r.Penalty = map[string]string{"warning": "warn", "info": "log"}[r.Severity]
	}
	if r.Penalty == "" {
		r.Penalty = "block"
	}
}

func (r *Rule) forbids() bool { return r.Severity == "error" || r.Severity == "blocker" }

// check returns what is wrong with a complete rule. path is its place in the body.
func (r *Rule) check(path string) (wrong []fault.Field) {
	add := func(field, format string, args ...any) {
		wrong = append(wrong, fault.Field{Field: path + field, Message: fmt.Sprintf(format, args...)})
	}
	if r.RuleID == "" {
		wrong = append(wrong, fault.Field{Field: path + "rule_id", Message: fault.Missing, Code: fault.CodeRequired})
	}
	if star := strings.IndexByte(r.Action, '*'); star >= 0 && star != len(r.Action)-1 {
		add("action", "has a * before its end; only the last character may be one.")
	}
	if r.Scope == "agent" && len(r.ScopeTargets) == 0 {
		add("scope_targets", "is empty; a rule of the scope agent names the agents that it is for.")
	}
	if !r.forbids() && r.RuleType == Prohibition && r.Penalty != "warn" && r.Penalty != "log" {
		add("penalty", "is %s; a rule of the severity %s can only warn or log.", r.Penalty, r.Severity)
	}
	if r.Condition != "" {
		if _, err := rule.Compile(r.Condition, names...); err != nil {
			add("condition", "is not valid: %v.", err)
		}
	}
	return wrong
}

// effect is what the rule does to an act that breaks it.
func (r *Rule) effect() policy.Effect {
	for _, e := range []policy.Effect{policy.Log, policy.Warn, policy.Approve, policy.Deny, policy.Revoke, policy.Terminate} {
		if e.String() == r.Penalty {
			return e
		}
	}
	return policy.Deny
}

// binds reports whether the rule is for an agent.
func (r *Rule) binds(agent string) bool {
	return r.Scope != "agent" || slices.Contains(r.ScopeTargets, agent)
}
