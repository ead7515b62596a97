package permission

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/resource"
)

// SpawnPolicy bounds which agents may be created by agents.
type SpawnPolicy struct {
	resource.Meta `json:"-"`

	ChildBudgetRatio          float64  `json:"child_budget_ratio" required:"true" minimum:"0" maximum:"1" doc:"The share of its parent's budget that a child has at most; 0: nothing to spend."`
	MaxDepth                  int64    `json:"max_depth" required:"true" minimum:"0" maximum:"30" doc:"Levels of agents below one that a person created."`
	AllowedRoles              []string `json:"allowed_roles" required:"true" maxItems:"200" maxLength:"200" doc:"Roles that agents may be spawned for. Empty: any."`
	RequireApprovalAboveDepth int64    `json:"require_approval_above_depth" required:"true" minimum:"0" maximum:"100" doc:"A person approves children that are deeper."`
	MaxChildrenPerAgent       int64    `json:"max_children_per_agent" required:"true" minimum:"0" maximum:"1000" doc:"Children of one agent, without deleted ones."`
}

func (p *Permissions) policyKind() resource.Kind[SpawnPolicy] {
	return resource.Kind[SpawnPolicy]{
		Name: "spawn_policy", Names: "spawn_policies", Noun: "SpawnPolicy", Path: "/api/v1/governance/spawn-policies", Tag: "Governance",
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Admin},
		Default: func(s *SpawnPolicy) {
			s.ChildBudgetRatio, s.MaxDepth, s.AllowedRoles, s.RequireApprovalAboveDepth, s.MaxChildrenPerAgent = 0.5, 5, []string{}, 5, 20
		},
		After: func(e *resource.Edit[SpawnPolicy]) error {
			kind, s := "permission.spawn_policy_set", e.New
			if e.Action == resource.Deleted {
				kind, s = "permission.spawn_policy_removed", e.Old
			}
			return p.Ledger.AppendTx(e.Tx, e.Who.TenantID, ledger.Entry{Kind: kind, ActorUserID: e.Who.UserID, Details: s})
		},
	}
}

// policyID returns the ID of a company's policy: there is one.
func policyID(tenant string) string { return ident.Derive(tenant, "spawn-policy") }

func (p *Permissions) spawnPolicy(ctx context.Context, tenant string) (SpawnPolicy, error) {
	return p.orDefault(p.policies.Get(ctx, tenant, policyID(tenant)))
}

func (p *Permissions) spawnPolicyTx(tx txn.Tx, tenant string) (SpawnPolicy, error) {
	return p.orDefault(p.policies.GetTx(tx, tenant, policyID(tenant)))
}

func (p *Permissions) orDefault(s *SpawnPolicy, err error) (SpawnPolicy, error) {
	if fault.Is(err, fault.NotFound) {
		return *p.policies.Blank(), nil
	}
	if err != nil {
		return SpawnPolicy{}, err
	}
	return *s, nil
}

// SpawnLimitsTx implements policy.Spawns.
func (p *Permissions) SpawnLimitsTx(tx txn.Tx, tenant string) (policy.SpawnLimits, error) {
	s, err := p.spawnPolicyTx(tx, tenant)
	return policy.SpawnLimits{MaxDepth: int(s.MaxDepth), MaxChildren: int(s.MaxChildrenPerAgent)}, err
}

// putPolicyTx replaces a company's policy.
func (p *Permissions) putPolicyTx(tx txn.Tx, who authz.Caller, s *SpawnPolicy) error {
	id := policyID(who.TenantID)
	_, err := p.policies.GetTx(tx, who.TenantID, id)
	if fault.Is(err, fault.NotFound) {
		s.ID = id
		return p.policies.CreateTx(tx, who, s)
	}
	if err != nil {
		return err
	}
	_, err = p.policies.UpdateTx(tx, who, id, func(old *SpawnPolicy) error {
		meta := old.Meta
		*old, old.Meta = *s, meta
		return nil
	})
	return err
}
