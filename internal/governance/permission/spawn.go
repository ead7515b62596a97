package permission

import (
	"fmt"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/policy"
)

// denials collects why a child may not be created.
type denials struct {
	names   []string
	reasons []string
}

func (d *denials) add(name, format string, args ...any) {
	d.names = append(d.names, name)
	d.reasons = append(d.reasons, fmt.Sprintf(format, args...))
}

func (d *denials) refusal() *policy.Refusal {
	if d.names == nil {
		return nil
	}
	return &policy.Refusal{Reason: d.reasons[0], Denied: d.names}
}

// checkParent refuses what the parent and the policy refuse to every child of a depth
// and a role.
func (b *bounds) checkParent(d *denials, depth int64, role string) {
	for i, s := range b.sets {
		whose := "The agent"
		if i > 0 {
			whose = "The agent's parent " + s.ID
		}
		if s.Sanction != nil {
			d.add("sanction", "%s is under a sanction: %s", whose, s.Sanction.Reason)
		}
		if !s.CanSpawn {
			d.add("can_spawn", "%s may not spawn agents.", whose)
		}
		if len(s.AllowedRoles) > 0 && role != "" && !slices.Contains(s.AllowedRoles, role) {
			d.add("role:"+role, "%s may not spawn agents for the role %s.", whose, role)
		}
	}
	if b.levels() < 1 {
		d.add("max_spawn_depth", "There may be no level of agents below the agent.")
	}
	if depth > b.policy.MaxDepth {
		d.add("max_depth", "The policy of the company allows %d levels of agents, and this would be level %d.", b.policy.MaxDepth, depth)
	}
	if roles := b.policy.AllowedRoles; len(roles) > 0 && role != "" && !slices.Contains(roles, role) {
		d.add("role:"+role, "The policy of the company allows no agents for the role %s.", role)
	}
}

// needsRole reports whether children of the agent must have a role.
func (b *bounds) needsRole() bool {
	return len(b.policy.AllowedRoles) > 0 || slices.ContainsFunc(b.sets, func(s *Set) bool { return len(s.AllowedRoles) > 0 })
}

// checkSubset refuses asked permissions that the agent does not have itself.
func (b *bounds) checkSubset(d *denials, asked policy.Permissions) {
	for _, t := range asked.AllowedTools {
		for _, s := range b.sets {
			if !anyCovers(s.AllowedTools, t) {
				d.add("tool:"+t, "The parent may not use the tool %s itself.", t)
				break
			}
		}
	}
	for _, role := range asked.AllowedRoles {
		for _, s := range b.sets {
			if len(s.AllowedRoles) > 0 && !slices.Contains(s.AllowedRoles, role) {
				d.add("role:"+role, "The parent may not spawn agents for the role %s itself.", role)
				break
			}
		}
	}
	for _, s := range b.sets {
		for _, name := range missing(asked.ResourcePermissions, s.ResourcePermissions) {
			d.add("resource:"+name, "The parent does not have the permission %s itself.", name)
		}
	}
	if most := b.budget(); asked.MaxBudgetPerRunUSD != nil && most.bounded {
		if want := *asked.MaxBudgetPerRunUSD; want == 0 || want > most.usd {
			d.add("max_budget_per_run_usd", "The parent may spend %g US dollars in a run.", most.usd)
		}
	}
	if asked.MaxSpawnDepth != nil && *asked.MaxSpawnDepth > b.levels()-1 {
		d.add("max_spawn_depth", "The child may have at most %d levels of agents below it.", max(0, b.levels()-1))
	}
	if ptr.Value(asked.CanSelfModify) && slices.ContainsFunc(b.sets, func(s *Set) bool { return !s.CanSelfModify }) {
		d.add("can_self_modify", "The parent may not modify itself.")
	}
}

// SpawnTx implements policy.Spawns.
func (p *Permissions) SpawnTx(tx txn.Tx, who authz.Caller, s policy.Spawn) (*policy.Refusal, error) {
	if err := p.Versions.PermissionsChangedTx(tx, who.TenantID); err != nil {
		return nil, err
	}
	b, err := p.boundsTx(tx, who.TenantID, s.ParentID)
	if err != nil {
		return nil, err
	}
	depth := max(b.childDepth(), int64(s.Depth))
	var d denials
	b.checkParent(&d, depth, s.Role)
	if s.Role == "" && b.needsRole() {
		d.add("role", "The agent needs a role: those that agents may be spawned for are limited.")
	}
	for _, t := range s.Tools {
		if slices.ContainsFunc(b.sets, func(s *Set) bool { return !anyCovers(s.AllowedTools, t) }) {
			d.add("tool:"+t, "The agent may not use the tool %s itself.", t)
		}
	}
	if s.RunID == "" && depth > b.policy.RequireApprovalAboveDepth {
		if err := who.Check(authz.Admin, "agents:write"); err != nil {
			d.add("require_approval_above_depth", "An admin creates agents that are more than %d levels deep.", b.policy.RequireApprovalAboveDepth)
		}
	}
	if refused := d.refusal(); refused != nil {
		return refused, nil
	}
	child := p.childOf(b, s)
	child.SpawnedBy = who.UserID
	if s.RunID != "" {
		child.SpawnedBy = s.RunID
	}
	return nil, p.sets.CreateTx(tx, who, child)
}

// childOf returns the set of a child: the intersection of what was asked, what its
// parent may and what the policy allows.
func (p *Permissions) childOf(b *bounds, s policy.Spawn) *Set {
	child, asked := p.blank(s.ChildID), s.Asked
	child.ParentAgentID = &s.ParentID
	levels := b.levels()
	if len(b.sets) == 0 {
		levels = firstDepth - int64(s.Depth) + 1
	}
	child.MaxSpawnDepth = max(0, levels-1)
	if asked.MaxSpawnDepth != nil {
		child.MaxSpawnDepth = min(child.MaxSpawnDepth, *asked.MaxSpawnDepth)
	}
	child.CanSpawn = true // the parent spawns this one, and its set binds too
	if asked.CanSpawn != nil {
		child.CanSpawn = *asked.CanSpawn
	}
	child.CanSelfModify = ptr.Value(asked.CanSelfModify)
	child.AllowedTools = []string{"*"}
	if asked.AllowedTools != nil {
		child.AllowedTools = asked.AllowedTools
	}
	child.AllowedRoles = append(child.AllowedRoles, asked.AllowedRoles...)
	child.ResourcePermissions = append(child.ResourcePermissions, asked.ResourcePermissions...)
	for _, above := range b.sets {
		child.AllowedTools = within(child.AllowedTools, above.AllowedTools)
		child.CanSelfModify = child.CanSelfModify && above.CanSelfModify
		child.AllowedRoles = cutRoles(child.AllowedRoles, above.AllowedRoles)
		child.ResourcePermissions = cutResources(child.ResourcePermissions, above.ResourcePermissions)
	}
	child.MaxBudgetPerRunUSD = ptr.Value(asked.MaxBudgetPerRunUSD)
	child.BudgetIsDefault = asked.MaxBudgetPerRunUSD == nil
	if most := b.budget(); most.bounded {
		if share := most.usd * b.policy.ChildBudgetRatio; child.MaxBudgetPerRunUSD == 0 || share < child.MaxBudgetPerRunUSD {
			child.MaxBudgetPerRunUSD, child.BudgetIsDefault = share, child.BudgetIsDefault && most.lenient
		}
	}
	return child
}

// cutRoles returns the roles that both lists allow. An empty list allows any, so a cut
// that leaves none keeps those above, which bind at every act.
func cutRoles(asked, above []string) []string {
	if len(above) == 0 {
		return asked
	}
	cut := slices.DeleteFunc(slices.Clone(asked), func(r string) bool { return !slices.Contains(above, r) })
	if len(cut) == 0 {
		return slices.Clone(above)
	}
	return cut
}

// cutResources is cutRoles of resource permissions.
func cutResources(asked, above []policy.Resource) []policy.Resource {
	if len(above) == 0 {
		return asked
	}
	cut := []policy.Resource{}
	for _, r := range asked {
		actions := slices.DeleteFunc(slices.Clone(r.Actions), func(a string) bool { return !grants(above, kindOf(r.Resource), a) })
		if len(actions) > 0 {
			cut = append(cut, policy.Resource{Resource: r.Resource, Actions: actions})
		}
	}
	if len(cut) == 0 {
		return slices.Clone(above)
	}
	return cut
}

// check returns what check-spawn answers about a child of an agent. Errors:
// fault.NotFound for the parent.
func (p *Permissions) check(b *bounds, asked policy.Permissions) *policy.Refusal {
	var d denials
	if len(b.sets) == 0 {
		d.add("permission_set", "The parent has no permission set.")
		return d.refusal()
	}
	b.checkParent(&d, b.childDepth(), "")
	b.checkSubset(&d, asked)
	return d.refusal()
}

// MayModifyItselfTx refuses an agent whose set keeps it from changing itself. Errors:
// fault.Forbidden.
func (p *Permissions) MayModifyItselfTx(tx txn.Tx, tenant, agent string) error {
	b, err := p.boundsTx(tx, tenant, agent)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(b.sets, func(s *Set) bool { return !s.CanSelfModify || s.Sanction != nil }) || len(b.sets) == 0 {
		return fault.New(fault.Forbidden, "SELF_MODIFICATION_DENIED",
			"The agent may not change its own permissions: can_self_modify is not in its permission set.")
	}
	return nil
}
