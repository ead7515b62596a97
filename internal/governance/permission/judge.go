package permission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/policy"
)

// Rules under which the decisions of permissions are recorded.
const (
	SetRule    = "permission-set"
	PolicyRule = "spawn-policy"
)

// Judge implements policy.Governor: the rules judge what the agent's permissions allow.
func (p *Permissions) Judge(ctx context.Context, r policy.Run, act policy.Act) (policy.Ruling, error) {
	b, err := p.boundsOf(ctx, r.TenantID, r.AgentID)
	if err != nil {
		return policy.Ruling{}, err
	}
	if b == nil {
		return p.judgeByRules(ctx, r, act)
	}
	if action, message := b.refuse(act.Actions); message != "" {
		return found(SetRule, action, policy.Deny, message), nil
	}
	ruling, err := p.judgeByRules(ctx, r, act)
	if err == nil && slices.Contains(act.Actions, "spawn") && b.mustAsk() {
		asked := found(PolicyRule, "spawn", policy.Approve, fmt.Sprintf(
			"A person approves agents that agents create more than %d levels deep.", b.policy.RequireApprovalAboveDepth))
		ruling.Effect = max(ruling.Effect, asked.Effect)
		ruling.Findings = append(ruling.Findings, asked.Findings...)
	}
	return ruling, err
}

func (p *Permissions) judgeByRules(ctx context.Context, r policy.Run, act policy.Act) (policy.Ruling, error) {
	if p.Rules == nil {
		return policy.Ruling{}, nil
	}
	return p.Rules.Judge(ctx, r, act)
}

// RecordTx implements policy.Governor.
func (p *Permissions) RecordTx(tx txn.Tx, r policy.Run, ruling policy.Ruling) error {
	if p.Rules == nil {
		return nil
	}
	return p.Rules.RecordTx(tx, r, ruling)
}

func found(rule, action string, effect policy.Effect, message string) policy.Ruling {
	return policy.Ruling{Effect: effect, Findings: []policy.Finding{{
		RuleID: rule, Severity: "error", Action: action, Decision: effect.String(), Message: message,
	}}}
}

// mustAsk reports whether a person approves the agent's next child.
func (b *bounds) mustAsk() bool { return b.childDepth() > b.policy.RequireApprovalAboveDepth }

// childDepth returns how deep a child of the agent would be, by the sets above it: 1 for
// a child of an agent at the top.
func (b *bounds) childDepth() int64 {
	n := int64(len(b.sets))
	if n > 0 && b.sets[n-1].ParentAgentID != nil {
		n++ // the agent at the top has no set
	}
	return max(1, n)
}

// refuse returns the action that the sets forbid, and why; "" if they allow the act.
func (b *bounds) refuse(actions []string) (action, message string) {
	action = "act"
	if len(actions) > 0 {
		action = actions[0]
	}
	for i, s := range b.sets {
		whose := "The agent"
		if i > 0 {
			whose = "The agent's parent " + s.ID
		}
		if s.Sanction != nil {
			return action, whose + " is under a sanction and may do nothing: " + s.Sanction.Reason
		}
		for _, a := range actions {
			name, isTool := strings.CutPrefix(a, "tool:")
			switch {
			case isTool && !anyCovers(s.AllowedTools, name):
				return a, fmt.Sprintf("%s may not use the tool %s.", whose, name)
			case isTool && !mayUse(s.ResourcePermissions, name):
				u := uses[name][0]
				return a, fmt.Sprintf("%s may not %s %s.", whose, u.action, u.resource)
			case a == "spawn" && !s.CanSpawn:
				return a, whose + " may not spawn agents."
			}
		}
	}
	return "", ""
}
