package permission_test

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/constitution"
	"agentd/internal/governance/constitution/constitutionsql"
	"agentd/internal/governance/ledger"
	"agentd/internal/governance/permission"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

type object = map[string]any

// office is the permissions of a company with some agents, on a real database.
type office struct {
	*permission.Permissions
	t      *testing.T
	db     *sqldb.DB
	admin  authz.Caller
	agents []string
	rules  *constitution.Service

	mu      sync.Mutex
	gone    []string // agents that were deleted
	entries []string // kinds of the ledger's
}

func newOffice(t *testing.T, db *sqldb.DB) *office {
	t.Helper()
	o := &office{t: t, db: db, admin: authz.Caller{
		TenantID: ident.New(), UserID: "ada", Role: authz.Admin, Scopes: []authz.Scope{authz.Wildcard},
	}}
	for range 5 {
		o.agents = append(o.agents, ident.New())
	}
	return o.node(func() time.Duration { return 0 })
}

// node returns the permissions as another node has them, whose caches have a clock.
func (o *office) node(elapsed func() time.Duration) *office {
	n := &office{t: o.t, db: o.db, admin: o.admin, agents: o.agents}
	deps, _ := resourcetest.Deps(resourcesql.New(o.db), o.db)
	n.rules = constitution.New(constitution.Deps{
		Store: constitutionsql.New(o.db), Writer: o.db, Clock: clock.NewFake(), Elapsed: elapsed, Cursors: page.NewCursors(make([]byte, 32)),
		Ledger: ledger.New(ledger.Deps{Off: true, Log: slog.New(slog.DiscardHandler)}),
	})
	n.Permissions = permission.New(deps, permission.Options{
		Ledger: n, Versions: n.rules, Rules: n.rules,
		AgentTx: func(_ txn.Tx, tenant, id string) error {
			_, err := n.agent(o.t.Context(), tenant, id)
			return err
		},
		Agent: n.agent,
	})
	n.rules.Connect(constitution.Penalties{RevokeTx: n.RevokeTx}, nil)
	return n
}

func (o *office) agent(_ context.Context, tenant, id string) (permission.Creation, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if tenant != o.admin.TenantID || !slices.Contains(o.agents, id) || slices.Contains(o.gone, id) {
		return permission.Creation{}, fault.NewNotFound("agent")
	}
	return permission.Creation{By: "bob", At: time.Unix(1, 0)}, nil
}

// AppendTx implements ledger.Appender.
func (o *office) AppendTx(tx txn.Tx, _ string, e ledger.Entry) error {
	tx.AfterCommit(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.entries = append(o.entries, e.Kind)
	})
	return nil
}

// call calls an operation and returns its answer as JSON.
func (o *office) call(who authz.Caller, id, agent string, body object) (object, error) {
	o.t.Helper()
	routes := o.Routes()
	r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == id })]
	in := reflect.New(r.In)
	if f := in.Elem().FieldByName("AgentID"); f.IsValid() {
		f.SetString(agent)
	}
	text, err := json.Marshal(body)
	if err != nil {
		o.t.Fatal(err)
	}
	if f := in.Elem().FieldByName("Body"); f.IsValid() {
		if f.Type() == reflect.TypeFor[jsontext.Value]() {
			f.SetBytes(text)
		} else if err := json.Unmarshal(text, f.Addr().Interface()); err != nil {
			o.t.Fatal(err)
		}
	}
	got, err := r.Call(o.t.Context(), who, in.Interface())
	if err != nil {
		return nil, err
	}
	var answer object
	if reply, ok := got.(*route.Reply); ok {
		text = reply.JSON
	} else if text, err = json.Marshal(got); err != nil {
		o.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		o.t.Fatal(err)
	}
	return answer, nil
}

func (o *office) must(id, agent string, body object) object {
	o.t.Helper()
	got, err := o.call(o.admin, id, agent, body)
	if err != nil {
		o.t.Fatalf("%s: %v", id, err)
	}
	return got
}

func (o *office) put(agent string, body object) {
	o.t.Helper()
	o.must("setAgentPermissions", agent, body)
}

// judge judges a call of a tool, and returns the decision with its reason.
func (o *office) judge(agent, tool string) (policy.Effect, string) {
	o.t.Helper()
	actions := []string{"tool:" + tool}
	if tool == "spawn_agent" {
		actions = append(actions, "spawn")
	}
	ruling, err := o.Judge(o.t.Context(), policy.Run{TenantID: o.admin.TenantID, AgentID: agent}, policy.Act{Actions: actions})
	if err != nil {
		o.t.Fatal(err)
	}
	return ruling.Effect, ruling.Reason()
}

func each(t *testing.T, test func(t *testing.T, o *office)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(t, newOffice(t, db)) })
}

// fieldsOf returns the fields that an error names.
func fieldsOf(err error) (names []string) {
	if err == nil {
		return nil
	}
	for _, f := range fault.From(err).Fields {
		names = append(names, f.Field)
	}
	return names
}

func TestSets(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, o *office) {
		a, b := o.agents[0], o.agents[1]
		if _, err := o.call(o.admin, "getAgentPermissions", a, nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("of none: %v", err)
		}
		o.put(a, object{"agent_id": b, "tenant_id": "other", "allowed_tools": []string{"calculator"}, "created_at": "ignored"})
		got := o.must("getAgentPermissions", a, nil)
		delete(got, "created_at")
		delete(got, "updated_at")
		want := object{
			"agent_id": a, "tenant_id": o.admin.TenantID, "allowed_tools": []any{"calculator"}, "allowed_roles": []any{},
			"resource_permissions": []any{}, "max_budget_per_run_usd": 1.0, "max_spawn_depth": 3.0, "can_spawn": false,
			"can_self_modify": false, "parent_agent_id": nil, "budget_is_default": true,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the first (-want +got):\n%s", diff)
		}
		o.put(a, object{
			"max_budget_per_run_usd": nil, "max_spawn_depth": 2, "can_spawn": true, "can_self_modify": true, "allowed_roles": []string{"clerk"},
			"resource_permissions": []object{{"resource": "memory", "actions": []string{"read"}}}, "parent_agent_id": b,
		})
		got = o.must("getAgentPermissions", a, nil)
		changed := object{
			"allowed_tools": []any{"calculator"}, "max_budget_per_run_usd": 0.0, "max_spawn_depth": 2.0, "can_spawn": true, "can_self_modify": true,
			"allowed_roles": []any{"clerk"}, "parent_agent_id": b, "spawned_by": "ada", "budget_is_default": nil,
			"resource_permissions": []any{object{"resource": "memory", "actions": []any{"read"}}},
		}
		for field, value := range changed {
			if diff := cmp.Diff(value, got[field]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", field, diff)
			}
		}
		if diff := cmp.Diff([]string{"permission.set", "permission.set"}, o.entries); diff != "" {
			t.Error(diff)
		}
	})
}

func TestInvalidSets(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, o *office) {
		a, b, c := o.agents[0], o.agents[1], o.agents[2]
		for _, test := range []struct {
			body  object
			field string
		}{
			{object{"max_budget_per_run_usd": -1}, "max_budget_per_run_usd"},
			{object{"max_budget_per_run_usd": "1"}, "max_budget_per_run_usd"},
			{object{"allowed_tools": "calculator"}, "allowed_tools"},
			{object{"allowed_tools": []int{1}}, "allowed_tools[0]"},
			{object{"resource_permissions": []object{{"resource": "memory", "actions": []string{"eat"}}}}, "resource_permissions[0].actions[0]"},
			{object{"max_spawn_depth": -1}, "max_spawn_depth"},
			{object{"can_spawn": "yes"}, "can_spawn"},
			{object{"parent_agent_id": a}, "parent_agent_id"},
		} {
			if _, err := o.call(o.admin, "setAgentPermissions", a, test.body); !slices.Contains(fieldsOf(err), test.field) {
				t.Errorf("%v: %v %v", test.body, err, fieldsOf(err))
			}
		}
		if _, err := o.call(o.admin, "getAgentPermissions", a, nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("something was written: %v", err)
		}
		o.put(b, object{"parent_agent_id": a})
		o.put(c, object{"parent_agent_id": b})
		refused := map[string]object{
			a: {"parent_agent_id": c}, // a circle
			b: {"parent_agent_id": nil},
			c: {"parent_agent_id": a},
		}
		for agent, body := range refused {
			if _, err := o.call(o.admin, "setAgentPermissions", agent, body); !slices.Contains(fieldsOf(err), "parent_agent_id") {
				t.Errorf("%v: %v", body, err)
			}
		}
		stranger := o.admin
		stranger.TenantID = ident.New()
		unknown := map[string]error{
			"unknown":   second(o.call(o.admin, "setAgentPermissions", ident.New(), object{})),
			"no id":     second(o.call(o.admin, "setAgentPermissions", "x", object{})),
			"foreign":   second(o.call(stranger, "setAgentPermissions", b, object{})),
			"parent":    second(o.call(o.admin, "setAgentPermissions", o.agents[3], object{"parent_agent_id": ident.New()})),
			"read":      second(o.call(stranger, "getAgentPermissions", b, nil)),
			"lineage":   second(o.call(stranger, "getPermissionLineage", b, nil)),
			"check":     second(o.call(stranger, "checkSpawnPermission", "", object{"parent_agent_id": b, "child_permissions": object{}})),
			"no parent": second(o.call(o.admin, "checkSpawnPermission", "", object{"parent_agent_id": "x", "child_permissions": object{}})),
		}
		for id, err := range unknown {
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

func second(_ object, err error) error { return err }

// A call is within the agent's set, and within those of the agents above it, also after
// they were reduced.
func TestCallsAreWithinTheSet(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, o *office) {
		parent, child, free := o.agents[0], o.agents[1], o.agents[2]
		if effect, _ := o.judge(free, "anything"); effect != policy.Allow {
			t.Errorf("no set at all: %v", effect)
		}
		o.put(parent, object{"allowed_tools": []string{"*"}})
		o.put(child, object{"allowed_tools": []string{"calculator", "crm_*"}, "parent_agent_id": parent})
		allowed := func(agent string, tools ...string) {
			t.Helper()
			for _, tool := range []string{"calculator", "crm_read", "crm", "http_fetch"} {
				effect, reason := o.judge(agent, tool)
				want := policy.Deny
				if slices.Contains(tools, tool) {
					want = policy.Allow
				}
				if effect != want {
					t.Errorf("%s: %v %s", tool, effect, reason)
				}
			}
		}
		allowed(parent, "calculator", "crm_read", "crm", "http_fetch")
		allowed(child, "calculator", "crm_read")
		allowed(free, "calculator", "crm_read", "crm", "http_fetch")
		o.put(parent, object{"allowed_tools": []string{"calculator"}})
		allowed(child, "calculator")
		if _, reason := o.judge(child, "crm_read"); !strings.Contains(reason, "parent "+parent+" may not use the tool crm_read") {
			t.Errorf("the reason is %q", reason)
		}
		o.put(parent, object{"allowed_tools": []string{}})
		allowed(parent)
		allowed(child)
	})
}

// The parent's last set binds a child whose parent was deleted; what binds no one is
// removed.
func TestSetsOfDeletedAgents(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, o *office) {
		parent, child := o.agents[0], o.agents[1]
		o.put(parent, object{"allowed_tools": []string{"calculator"}})
		o.put(child, object{"allowed_tools": []string{"*"}, "parent_agent_id": parent})
		end := func(id string) {
			t.Helper()
			o.gone = append(o.gone, id)
			if err := o.AgentDeleted(t.Context(), o.admin.TenantID, id); err != nil {
				t.Fatal(err)
			}
		}
		end(parent)
		if effect, _ := o.judge(child, "http_fetch"); effect != policy.Deny {
			t.Errorf("without its parent the child may do more: %v", effect)
		}
		if l := o.must("getPermissionLineage", child, nil); !reflect.DeepEqual(l["chain"], []any{parent, child}) {
			t.Errorf("lineage %v", l)
		}
		end(child)
		for _, id := range []string{parent, child} {
			if _, err := o.call(o.admin, "getAgentPermissions", id, nil); !fault.Is(err, fault.NotFound) {
				t.Errorf("a set stayed: %v", err)
			}
		}
	})
}

func TestResourcePermissions(t *testing.T) {
	t.Parallel()
	o := newOffice(t, sqldbtest.Open(t, sqldbtest.SQLite))
	a, child := o.agents[0], o.agents[1]
	o.put(child, object{"allowed_tools": []string{"*"}, "parent_agent_id": a})
	for _, test := range []struct {
		permissions []object
		allowed     []string
	}{
		{nil, []string{"memory_save", "memory_search", "knowledge_search", "read_file", "list_files", "write_file", "calculator"}},
		{[]object{{"resource": "memory", "actions": []string{"read", "delete"}}}, []string{"memory_search", "calculator"}},
		{[]object{{"resource": "memories", "actions": []string{"write"}}}, []string{"memory_save", "calculator"}},
		{[]object{{"resource": "files", "actions": []string{"read"}}}, []string{"read_file", "list_files", "calculator"}},
		{[]object{{"resource": "Workspace", "actions": []string{"write"}}}, []string{"write_file", "calculator"}},
		{[]object{{"resource": "knowledge_base", "actions": []string{"read"}}}, []string{"knowledge_search", "calculator"}},
		{[]object{{"resource": "*", "actions": []string{"read"}}}, []string{"memory_search", "knowledge_search", "read_file", "list_files", "calculator"}},
		{[]object{{"resource": "printers", "actions": []string{"read", "write"}}}, []string{"calculator"}},
	} {
		o.put(a, object{"allowed_tools": []string{"*"}, "resource_permissions": test.permissions})
		for _, agent := range []string{a, child} {
			for _, tool := range []string{"memory_save", "memory_search", "knowledge_search", "read_file", "list_files", "write_file", "calculator"} {
				if effect, reason := o.judge(agent, tool); (effect == policy.Allow) != slices.Contains(test.allowed, tool) {
					t.Errorf("%v: %s is %v, %s", test.permissions, tool, effect, reason)
				}
			}
		}
	}
}

// A sanction keeps an agent, and those below it, from everything, and only null lifts it.
func TestSanctions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, o *office) {
		a, child := o.agents[0], o.agents[1]
		o.put(child, object{"allowed_tools": []string{"*"}, "parent_agent_id": a})
		run := policy.Run{TenantID: o.admin.TenantID, AgentID: a, RunID: "r1"}
		broken := policy.Ruling{Effect: policy.Revoke, Findings: []policy.Finding{{
			RuleID: "no-mail", Severity: "error", Action: "tool:mail", Decision: "revoke_permissions", Message: "No mail.",
		}}}
		for range 2 { // it may be broken again at the same moment
			if err := o.db.Write(t.Context(), func(tx txn.Tx) error { return o.RecordTx(tx, run, broken) }); err != nil {
				t.Fatal(err)
			}
		}
		for _, agent := range []string{a, child} {
			ruling, err := o.Judge(t.Context(), policy.Run{TenantID: o.admin.TenantID, AgentID: agent}, policy.Act{Actions: []string{"model:m"}})
			if err != nil || ruling.Effect != policy.Deny || !strings.Contains(ruling.Reason(), "under a sanction and may do nothing: rule no-mail: No mail.") {
				t.Errorf("%+v %v", ruling, err)
			}
		}
		if s := o.must("getAgentPermissions", a, nil)["sanction"].(object); s["run_id"] != "r1" {
			t.Errorf("the sanction %v", s)
		}
		o.put(a, object{"sanction": object{"reason": "another"}, "max_spawn_depth": 1})
		if effect, _ := o.judge(a, "calculator"); effect != policy.Deny {
			t.Error("something else than null lifted the sanction")
		}
		o.put(a, object{"sanction": nil})
		for _, agent := range []string{a, child} {
			if effect, reason := o.judge(agent, "calculator"); effect != policy.Allow {
				t.Errorf("after it was lifted: %v %s", effect, reason)
			}
		}
		want := []string{"permission.set", "permission.revoked", "permission.set", "permission.set", "permission.restored"}
		if diff := cmp.Diff(want, o.entries); diff != "" {
			t.Error(diff)
		}
	})
}

// Other nodes obey a change within a second, without a signal.
func TestPermissionsReachOtherNodes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, o *office) {
		var passed atomic.Int64 // caches look at the time in the background, too
		other := o.node(func() time.Duration { return time.Duration(passed.Load()) })
		o.put(o.agents[0], object{"allowed_tools": []string{"*"}})
		if effect, _ := other.judge(o.agents[0], "calculator"); effect != policy.Allow {
			t.Fatal("not allowed at first")
		}
		o.put(o.agents[0], object{"allowed_tools": []string{}})
		passed.Add(int64(time.Second))
		if effect, _ := other.judge(o.agents[0], "calculator"); effect != policy.Deny {
			t.Error("another node allows what was taken away a second ago")
		}
	})
}

func TestLineage(t *testing.T) {
	t.Parallel()
	o := newOffice(t, sqldbtest.Open(t, sqldbtest.SQLite))
	top, middle, bottom := o.agents[0], o.agents[1], o.agents[2]
	o.put(middle, object{"parent_agent_id": top})
	o.put(bottom, object{"parent_agent_id": middle})
	got := o.must("getPermissionLineage", bottom, nil)
	delete(got, "spawned_at")
	want := object{"agent_id": bottom, "chain": []any{top, middle, bottom}, "depth": 2.0, "parent_id": middle, "spawned_by": "ada"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := o.must("getPermissionLineage", top, nil); got["depth"] != 0.0 || got["parent_id"] != nil || !reflect.DeepEqual(got["chain"], []any{top}) {
		t.Errorf("of an agent without a set: %v", got)
	}
	if _, err := o.call(o.admin, "getPermissionLineage", ident.New(), nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("of none: %v", err)
	}
}

func TestSpawnPolicy(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, o *office) {
		defaults := object{
			"tenant_id": o.admin.TenantID, "child_budget_ratio": 0.5, "max_depth": 5.0, "allowed_roles": []any{},
			"require_approval_above_depth": 5.0, "max_children_per_agent": 20.0,
		}
		same := func(want object) {
			t.Helper()
			got := o.must("getSpawnPolicy", "", nil)
			delete(got, "updated_at")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
		same(defaults)
		body := object{
			"child_budget_ratio": 0.25, "max_depth": 2.0, "allowed_roles": []any{"clerk"}, "require_approval_above_depth": 1.0, "max_children_per_agent": 4.0,
		}
		for range 2 {
			o.must("setSpawnPolicy", "", body)
		}
		body["tenant_id"] = o.admin.TenantID
		same(body)
		for range 2 {
			o.must("deleteSpawnPolicy", "", nil)
		}
		same(defaults)
		want := []string{"permission.spawn_policy_set", "permission.spawn_policy_set", "permission.spawn_policy_removed"}
		if diff := cmp.Diff(want, o.entries); diff != "" {
			t.Error(diff)
		}
	})
}
