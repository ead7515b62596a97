package permission_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/governance/permission"
	"agentd/internal/kernel/policy"
	"agentd/internal/store/sqldb/sqldbtest"
)

// spawn has an agent spawn another in the name of a caller, and returns the child's set,
// or what it is denied.
func (o *office) spawn(who authz.Caller, s policy.Spawn) (*permission.Set, []string) {
	o.t.Helper()
	if s.ChildID == "" {
		s.ChildID = ident.New()
	}
	s.Depth = max(s.Depth, 1)
	var refused *policy.Refusal
	err := o.db.Write(o.t.Context(), func(tx txn.Tx) (err error) {
		refused, err = o.SpawnTx(tx, who, s)
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
	if refused != nil {
		if refused.Reason == "" {
			o.t.Errorf("%v without a reason", refused.Denied)
		}
		return nil, refused.Denied
	}
	o.mu.Lock()
	o.agents = append(o.agents, s.ChildID)
	o.mu.Unlock()
	set, err := o.Sets().Get(o.t.Context(), o.admin.TenantID, s.ChildID)
	if err != nil {
		o.t.Fatal(err)
	}
	return set, nil
}

func TestCheckSpawn(t *testing.T) {
	t.Parallel()
	o := newOffice(t, sqldbtest.Open(t, sqldbtest.SQLite))
	a := o.agents[0]
	check := func(asked object) object {
		t.Helper()
		return o.must("checkSpawnPermission", "", object{"parent_agent_id": a, "child_permissions": asked})
	}
	denied := func(asked object, names ...any) {
		t.Helper()
		got := check(asked)
		if diff := cmp.Diff(names, got["denied_permissions"]); diff != "" || got["allowed"] != false || got["reason"] == "" {
			t.Errorf("%v: %v %s", asked, got, diff)
		}
	}
	denied(object{}, "permission_set")
	o.put(a, object{"allowed_tools": []string{"calculator", "crm_*"}, "allowed_roles": []string{"clerk"}})
	denied(object{}, "can_spawn")
	o.put(a, object{"can_spawn": true, "resource_permissions": []object{{"resource": "memory", "actions": []string{"read"}}}})
	for _, asked := range []object{
		{},
		{
			"agent_id": "new", "tenant_id": "mine", "allowed_tools": []string{"crm_read", "crm_w*"}, "allowed_roles": []string{"clerk"}, "can_spawn": true,
			"max_budget_per_run_usd": 1, "max_spawn_depth": 2, "resource_permissions": []object{{"resource": "memory", "actions": []string{"read"}}},
		},
	} {
		if got := check(asked); got["allowed"] != true || len(got) != 1 {
			t.Errorf("%v: %v", asked, got)
		}
	}
	denied(object{"allowed_tools": []string{"calculator", "*", "http_fetch"}}, "tool:*", "tool:http_fetch")
	denied(object{"allowed_roles": []string{"boss"}}, "role:boss")
	denied(object{"max_budget_per_run_usd": 1.01}, "max_budget_per_run_usd")
	denied(object{"max_budget_per_run_usd": 0}, "max_budget_per_run_usd") // 0 is no cap
	denied(object{"max_spawn_depth": 3}, "max_spawn_depth")
	denied(object{"can_self_modify": true}, "can_self_modify")
	denied(object{"resource_permissions": []object{{"resource": "memory", "actions": []string{"read", "write"}}}}, "resource:memory:write")
	o.put(a, object{"max_spawn_depth": 0})
	denied(object{}, "max_spawn_depth")
	o.put(a, object{"max_spawn_depth": 3})
	o.must("setSpawnPolicy", "", object{
		"child_budget_ratio": 1, "max_depth": 0, "allowed_roles": []string{}, "require_approval_above_depth": 1, "max_children_per_agent": 1,
	})
	denied(object{}, "max_depth")
}

// A child has the intersection of what was asked, what its parent may, and what the
// policy allows.
func TestSpawnedSets(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, o *office) {
		a := o.agents[0]
		o.put(a, object{
			"allowed_tools": []string{"calculator", "crm_*"}, "allowed_roles": []string{"clerk", "temp"}, "can_spawn": true, "can_self_modify": true,
			"max_budget_per_run_usd": 4, "resource_permissions": []object{{"resource": "memory", "actions": []string{"read", "write"}}},
		})
		same := func(set *permission.Set, want permission.Set) {
			t.Helper()
			want.Meta, want.ParentAgentID, want.SpawnedBy = set.Meta, &a, set.SpawnedBy
			if diff := cmp.Diff(want, *set, cmp.AllowUnexported(policy.Resource{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		memory := func(actions ...string) []policy.Resource {
			return []policy.Resource{{Resource: "memory", Actions: actions}}
		}
		all, _ := o.spawn(o.admin, policy.Spawn{ParentID: a, Role: "clerk"})
		same(all, permission.Set{
			AllowedTools: []string{"calculator", "crm_*"}, AllowedRoles: []string{"clerk", "temp"}, ResourcePermissions: memory("read", "write"),
			MaxBudgetPerRunUSD: 2, MaxSpawnDepth: 2, CanSpawn: true,
		})
		some, _ := o.spawn(o.admin, policy.Spawn{ParentID: a, Role: "clerk", RunID: "run", Asked: policy.Permissions{
			AllowedTools: []string{"crm_read", "http_fetch", "calc*"}, AllowedRoles: []string{"temp", "boss"}, CanSpawn: new(false),
			ResourcePermissions: []policy.Resource{{Resource: "memory", Actions: []string{"read", "delete"}}, {Resource: "files", Actions: []string{"read"}}},
			MaxBudgetPerRunUSD:  new(0.5), MaxSpawnDepth: new(int64(9)), CanSelfModify: new(true),
		}})
		same(some, permission.Set{
			AllowedTools: []string{"crm_read", "calculator"}, AllowedRoles: []string{"temp"}, ResourcePermissions: memory("read"),
			MaxBudgetPerRunUSD: 0.5, MaxSpawnDepth: 2, CanSelfModify: true,
		})
		if all.SpawnedBy != "ada" || some.SpawnedBy != "run" {
			t.Errorf("spawned by %s and %s", all.SpawnedBy, some.SpawnedBy)
		}
		if big, _ := o.spawn(o.admin, policy.Spawn{ParentID: a, Role: "temp", Asked: policy.Permissions{MaxBudgetPerRunUSD: new(3.0)}}); big.MaxBudgetPerRunUSD != 2 {
			t.Errorf("a budget of %v", big.MaxBudgetPerRunUSD)
		}
	})
}

func TestSpawningIsDenied(t *testing.T) {
	t.Parallel()
	o := newOffice(t, sqldbtest.Open(t, sqldbtest.SQLite))
	developer := o.admin
	developer.Role = authz.Developer
	denied := func(who authz.Caller, s policy.Spawn, names ...string) {
		t.Helper()
		if _, got := o.spawn(who, s); !slices.Equal(got, names) {
			t.Errorf("%+v: denied %v", s, got)
		}
	}
	a := o.agents[0]
	o.put(a, object{"allowed_tools": []string{"calculator"}})
	denied(o.admin, policy.Spawn{ParentID: a}, "can_spawn")
	o.put(a, object{"can_spawn": true, "allowed_roles": []string{"clerk"}})
	denied(o.admin, policy.Spawn{ParentID: a, Role: "boss"}, "role:boss")
	denied(o.admin, policy.Spawn{ParentID: a}, "role")
	denied(o.admin, policy.Spawn{ParentID: a, Role: "clerk", Tools: []string{"calculator", "http_fetch"}}, "tool:http_fetch")
	o.must("setSpawnPolicy", "", object{
		"child_budget_ratio": 1, "max_depth": 3, "allowed_roles": []string{"clerk"}, "require_approval_above_depth": 1, "max_children_per_agent": 20,
	})
	first, _ := o.spawn(developer, policy.Spawn{ParentID: a, Role: "clerk"})
	denied(developer, policy.Spawn{ParentID: first.ID, Role: "clerk", Depth: 2}, "require_approval_above_depth")
	second, _ := o.spawn(o.admin, policy.Spawn{ParentID: first.ID, Role: "clerk", Depth: 2}) // an admin's call is the approval
	if effect, _ := o.judge(a, "spawn_agent"); effect != policy.Deny {
		t.Errorf("spawn_agent is no tool of the agent: %v", effect)
	}
	o.put(a, object{"allowed_tools": []string{"*"}})
	o.put(first.ID, object{"allowed_tools": []string{"*"}})
	effects := map[string]policy.Effect{a: policy.Allow, first.ID: policy.Approve}
	for agent, want := range effects {
		if effect, reason := o.judge(agent, "spawn_agent"); effect != want {
			t.Errorf("%v %s", effect, reason)
		}
	}
	third, _ := o.spawn(o.admin, policy.Spawn{ParentID: second.ID, Role: "clerk", Depth: 3})
	denied(o.admin, policy.Spawn{ParentID: third.ID, Role: "clerk", Depth: 4}, "max_spawn_depth", "max_depth")
	o.put(a, object{"can_spawn": false}) // also those below it
	denied(o.admin, policy.Spawn{ParentID: first.ID, Role: "clerk", Depth: 2}, "can_spawn")
	if effect, _ := o.judge(first.ID, "spawn_agent"); effect != policy.Deny {
		t.Errorf("a child may spawn, and its parent may not: %v", effect)
	}
}

// What a run may spend follows the sets above its agent, also after they were reduced.
func TestBudgets(t *testing.T) {
	t.Parallel()
	o := newOffice(t, sqldbtest.Open(t, sqldbtest.SQLite))
	a, free := o.agents[0], o.agents[1]
	budget := func(agent string, usd float64, bounded, lenient bool) {
		t.Helper()
		u, b, l, err := o.Budget(t.Context(), o.admin.TenantID, agent)
		if u != usd || b != bounded || l != lenient || err != nil {
			t.Errorf("%v %v %v %v", u, b, l, err)
		}
	}
	budget(a, 0, false, false)
	o.put(a, object{"can_spawn": true, "allowed_tools": []string{"*"}})
	budget(a, 1, true, true)
	child, _ := o.spawn(o.admin, policy.Spawn{ParentID: a})
	budget(child.ID, 0.5, true, true)
	o.put(a, object{"max_budget_per_run_usd": 0.4})
	budget(a, 0.4, true, false)
	budget(child.ID, 0.2, true, false)
	o.put(a, object{"max_budget_per_run_usd": 0})
	budget(a, 0, false, false)
	budget(child.ID, 0.5, true, true)
	of, _ := o.spawn(o.admin, policy.Spawn{ParentID: free})
	budget(of.ID, 0, false, false)
	o.must("setSpawnPolicy", "", object{
		"child_budget_ratio": 0, "max_depth": 3, "allowed_roles": []string{}, "require_approval_above_depth": 5, "max_children_per_agent": 20,
	})
	budget(of.ID, 0, true, false) // nothing to spend
	budget(child.ID, 0, true, false)
}

// Children of an agent without a set are bound by one that it gets later.
func TestChildrenOfFreeAgents(t *testing.T) {
	t.Parallel()
	o := newOffice(t, sqldbtest.Open(t, sqldbtest.SQLite))
	a := o.agents[0]
	child, _ := o.spawn(o.admin, policy.Spawn{ParentID: a, Tools: []string{"calculator", "spawn_agent"}})
	if !child.CanSpawn || child.MaxSpawnDepth != 2 || !slices.Equal(child.AllowedTools, []string{"*"}) {
		t.Errorf("%+v", child)
	}
	if effect, reason := o.judge(child.ID, "http_fetch"); effect != policy.Allow {
		t.Errorf("%v %s", effect, reason)
	}
	o.put(a, object{"allowed_tools": []string{"calculator"}})
	if effect, _ := o.judge(child.ID, "http_fetch"); effect != policy.Deny {
		t.Errorf("the child may do more than its parent: %v", effect)
	}
}
