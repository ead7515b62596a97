package constitution

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/policy"
)

// maxConflicts bounds the conflicts of a report.
const maxConflicts = 100

// DeadlockReport has the requirements that prohibitions contradict.
type DeadlockReport struct {
	_ struct{} `json:"-" name:"DeadlockReport"`

	HasDeadlock      bool           `json:"has_deadlock" required:"true" doc:"Whether a requirement can never be met: a prohibition without a condition contradicts it."`
	ConflictingRules []RuleConflict `json:"conflicting_rules" required:"true" doc:"At most 100."`
	Recommendation   string         `json:"recommendation" required:"true"`
	CheckedAt        time.Time      `json:"checked_at" required:"true"`
}

// RuleConflict is a requirement and a prohibition for the same acts of the same agents.
type RuleConflict struct {
	_ struct{} `json:"-" name:"RuleConflict"`

	Prohibition string   `json:"prohibition" required:"true" doc:"Its rule_id."`
	Requirement string   `json:"requirement" required:"true" doc:"Its rule_id."`
	Action      string   `json:"action" required:"true" doc:"The acts that are required and prohibited."`
	AgentIDs    []string `json:"agent_ids,omitzero" doc:"The agents that both are for; absent: all."`
	Conditional bool     `json:"conditional,omitzero" doc:"Whether the prohibition has a condition, so that the requirement can be met where it is not true."`
}

func (s *Service) checkDeadlock(ctx context.Context, who authz.Caller, _ *struct{}) (*DeadlockReport, error) {
	c, err := s.get(ctx, who, &getIn{})
	if err != nil {
		return nil, err
	}
	if c.Virtual {
		return nil, fault.New(fault.NotFound, "", "The company has no constitution that could be checked.")
	}
	report := &DeadlockReport{ConflictingRules: []RuleConflict{}, CheckedAt: s.Clock.Now()}
	if report.ConflictingRules, err = conflicts(ctx, c.Rules); err != nil {
		return nil, err
	}
	conditional := 0
	for _, found := range report.ConflictingRules {
		if found.Conditional {
			conditional++
		}
	}
	total := len(report.ConflictingRules)
	report.HasDeadlock = total > conditional
	switch {
	case report.HasDeadlock:
		report.Recommendation = fmt.Sprintf("Change %d of the rules: remove the prohibition or the requirement, narrow its scope, or add a "+
			"permission of higher priority.", total-conditional)
	case total > 0:
		report.Recommendation = "No requirement is impossible; read the conditions of the prohibitions that are listed."
	default:
		report.Recommendation = "Nothing is to be done: no requirement is contradicted."
	}
	return report, nil
}

// conflicts returns the requirements that a prohibition contradicts, at most
// maxConflicts, in the order of the rules.
func conflicts(ctx context.Context, rules []Rule) ([]RuleConflict, error) {
	var prohibitions, permissions []*Rule
	for i := range rules {
		switch r := &rules[i]; {
		case r.Shadow || r.Action == "":
		case r.RuleType == Permission && r.Condition == "":
			permissions = append(permissions, r)
		case r.RuleType == Prohibition && r.effect() >= policy.Deny && r.forbids():
			prohibitions = append(prohibitions, r)
		}
	}
	found := []RuleConflict{}
	for i := range rules {
		required := &rules[i]
		if required.RuleType != Requirement || required.Shadow || required.ObligatedAction == "" {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, p := range prohibitions {
			if !covers(p.Action, required.ObligatedAction) {
				continue
			}
			agents, some := common(required, p)
			if !some || lifted(permissions, p, required, agents) {
				continue
			}
			found = append(found, RuleConflict{
				Prohibition: p.RuleID, Requirement: required.RuleID, Action: required.ObligatedAction, AgentIDs: agents, Conditional: p.Condition != "",
			})
			if len(found) == maxConflicts {
				return found, nil
			}
		}
	}
	return found, nil
}

// covers reports whether each act of an action is one of a rule's action.
func covers(action, act string) bool {
	prefix, open := strings.CutSuffix(action, "*")
	return action == act || open && strings.HasPrefix(act, prefix)
}

// common returns the agents that two rules are both for; nil: all. some is false if
// there are none.
func common(a, b *Rule) (agents []string, some bool) {
	switch {
	case a.Scope != "agent" && b.Scope != "agent":
		return nil, true
	case a.Scope != "agent":
		return b.ScopeTargets, true
	}
	for _, id := range a.ScopeTargets {
		if b.binds(id) {
			agents = append(agents, id)
		}
	}
	return agents, len(agents) > 0
}

// lifted reports whether a permission lifts a prohibition for all acts of a requirement
// and all the agents.
func lifted(permissions []*Rule, prohibition, required *Rule, agents []string) bool {
	if prohibition.Immutable {
		return false
	}
	for _, p := range permissions {
		if p.Priority <= prohibition.Priority || !covers(p.Action, required.ObligatedAction) {
			continue
		}
		all := p.Scope != "agent"
		if !all && agents != nil {
			all = true
			for _, id := range agents {
				all = all && p.binds(id)
			}
		}
		if all {
			return true
		}
	}
	return false
}
