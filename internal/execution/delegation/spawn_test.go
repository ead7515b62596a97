package delegation

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
)

// made calls spawn_agent, which must succeed, and returns its result.
func (r *rig) made(call tool.Call) spawned {
	r.t.Helper()
	got := r.do(r.t.Context(), call)
	var s spawned
	if err := json.Unmarshal([]byte(got.Output), &s); err != nil || got.Failed {
		r.t.Fatalf("%+v: %v", got, err)
	}
	return s
}

func (r *rig) read(id string) agent.Agent {
	r.t.Helper()
	g, err := r.agents.Get(r.t.Context(), r.who.TenantID, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

func TestSpawn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	call := r.call("spawn_agent", "c1", map[string]any{"name": "helper", "prompt": "Help.", "role": "helping", "tools": []string{"calculator", "calculator"}})
	s := r.made(call)
	if diff := cmp.Diff(spawned{AgentID: s.AgentID, Name: "helper", Tools: []string{"calculator"}, Depth: 1}, s); diff != "" {
		t.Error(diff)
	}
	child, parent := r.read(s.AgentID), r.parent
	want := parent.Config // what binds the parent binds the child
	want.Name, want.Description, want.Prompts = "helper", "helping", agent.Prompts{System: "Help."}
	want.BuiltInTools = []string{"calculator"}
	want.MCP, want.Schedule = child.MCP, child.Schedule // checked below: nothing that leads outside
	want.Metadata = schema.Object(fmt.Sprintf(`{"parent_agent_id":"%s","spawn_depth":1,"spawned_by_run":"%s","role":"helping"}`, parent.ID, r.runID))
	wanted, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(child.Config)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(wanted), string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(string(child.MCP), "servers") || len(child.Schedule) > 0 && string(child.Schedule) != "null" {
		t.Errorf("MCP %s, schedule %s", child.MCP, child.Schedule)
	}
	if again := r.made(call); again.AgentID != s.AgentID {
		t.Errorf("a repeat made %s beside %s", again.AgentID, s.AgentID)
	}
	all := r.made(r.call("spawn_agent", "c2", map[string]any{"name": "all", "prompt": "x"}))
	if diff := cmp.Diff([]string{"calculator", "delegate_to_agent", "http_fetch"}, all.Tools); diff != "" {
		t.Errorf("tools if none are named: %s", diff)
	}
	if none := r.made(r.call("spawn_agent", "c3", map[string]any{"name": "none", "prompt": "x", "tools": []string{}})); len(none.Tools) != 0 {
		t.Errorf("tools of an empty list: %v", none.Tools)
	}
}

func TestSpawnRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, test := range map[string]struct {
		arguments map[string]any
		want      string
	}{
		"foreign_tool": {map[string]any{"name": "x", "prompt": "x", "tools": []string{"calculator", "web_search"}}, "only pass on tools that it has itself: calculator"},
		"blank_name":   {map[string]any{"name": " ", "prompt": "x"}, "blank"},
		"no_prompt":    {map[string]any{"name": "x"}, "missing property 'prompt'"},
		"a_model":      {map[string]any{"name": "x", "prompt": "x", "model": map[string]any{}}, "'model' not allowed"},
	} {
		got := r.do(t.Context(), r.call("spawn_agent", "c-"+name, test.arguments))
		if !got.Failed || !strings.Contains(got.Output, test.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	r.runs.all[r.runID].Metadata = schema.Object(`{"source":"delegation","depth":5}`)
	got := r.do(t.Context(), r.call("spawn_agent", "c-task", map[string]any{"name": "x", "prompt": "x", "task": "y"}))
	if !got.Failed || !strings.Contains(got.Output, "handed on 5 times") {
		t.Errorf("a task too deep: %+v", got)
	}
	if n := r.children(t, r.parent.ID); n != 0 {
		t.Errorf("%d agents were made", n)
	}
	if _, err := r.agents.Store().Move(t.Context(), r.who, r.parent.ID, "suspend", nil); err != nil {
		t.Fatal(err)
	}
	got = r.do(t.Context(), r.call("spawn_agent", "c-suspended", map[string]any{"name": "x", "prompt": "x"}))
	if !got.Failed || !strings.Contains(got.Output, "suspended") {
		t.Errorf("of a suspended agent: %+v", got)
	}
	call := r.call("spawn_agent", "c-gone", map[string]any{"name": "x", "prompt": "x"})
	call.AgentID = ident.New()
	if got = r.do(t.Context(), call); !got.Failed || !strings.Contains(got.Output, "no such agent") {
		t.Errorf("of no agent: %+v", got)
	}
}

func (r *rig) children(t *testing.T, parent string) int {
	t.Helper()
	found, err := r.agents.Store().List(t.Context(), r.who.TenantID, resource.Find{Where: map[string]string{"parent_agent_id": parent}, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

func TestSpawnDepth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for depth := 1; depth <= MaxSpawn+1; depth++ {
		call := r.call("spawn_agent", "c", map[string]any{"name": fmt.Sprint(depth), "prompt": "x", "tools": []string{"spawn_agent"}})
		if depth > MaxSpawn {
			got := r.do(t.Context(), call)
			if !got.Failed || !strings.Contains(got.Output, "3 deep") {
				t.Errorf("%+v", got)
			}
			break
		}
		s := r.made(call)
		if s.Depth != depth {
			t.Fatalf("depth %d, want %d", s.Depth, depth)
		}
		next := r.read(s.AgentID)
		r.parent, r.runID = &next, ident.New()
	}
}

// The number of children is exact however many are made at once; those that
// are deleted make room.
func TestSpawnChildren(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var making sync.WaitGroup
	var mu sync.Mutex
	failed := 0
	for i := range MaxChildren + 10 {
		call := r.call("spawn_agent", fmt.Sprint(i), map[string]any{"name": "x", "prompt": "x"})
		making.Go(func() {
			got, err := r.tools.Call(t.Context(), call)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || got.Failed && !strings.Contains(got.Output, "may have 20 agents") {
				t.Errorf("%+v, %v", got, err)
			}
			if got.Failed {
				failed++
			}
		})
	}
	making.Wait()
	if n := r.children(t, r.parent.ID); n != MaxChildren || failed != 10 {
		t.Errorf("%d children, %d refused", n, failed)
	}
	found, err := r.agents.Store().List(t.Context(), r.who.TenantID, resource.Find{Where: map[string]string{"parent_agent_id": r.parent.ID}, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.agents.Store().Delete(t.Context(), r.who, found[0].ID); err != nil {
		t.Fatal(err)
	}
	r.made(r.call("spawn_agent", "more", map[string]any{"name": "x", "prompt": "x"}))
}

func TestSpawnWithTask(t *testing.T) {
	t.Parallel()
	for status, want := range map[run.Status]string{run.Completed: "42", run.Failed: "The agent did not do the task: its run ended as failed."} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				call := r.call("spawn_agent", "c", map[string]any{"name": "x", "prompt": "x", "task": "6*7"})
				time.AfterFunc(time.Minute, func() { r.runs.end(r.runs.children()[0], status, `{"text":"42"}`, "") })
				first := r.await(t.Context(), call)
				var s spawned
				if err := json.Unmarshal([]byte(first.Output), &s); err != nil || s.Answer != want || first.Failed != (status != run.Completed) {
					t.Errorf("%+v, %v", first, err)
				}
				task, _ := r.runs.Get(t.Context(), r.who.TenantID, r.runs.children()[0])
				if task.AgentID != s.AgentID {
					t.Errorf("the task is another agent's: %+v", task)
				}
				if again := r.do(t.Context(), call); again.Output != first.Output || r.runs.made != 1 || r.children(t, r.parent.ID) != 1 {
					t.Errorf("repeated: %+v, %d tasks", again, r.runs.made)
				}
			})
		})
	}
}

// reply calls the route.
func (r *rig) route(who authz.Caller, parent string, body spawnBody) (map[string]any, error) {
	r.t.Helper()
	in := &spawnIn{AgentID: parent, Body: body}
	got, err := r.spawnRoute(r.t.Context(), who, in)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(got.JSON, &doc); err != nil {
		r.t.Fatal(err)
	}
	return doc, nil
}

func TestSpawnRoute(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, err := r.route(r.who, r.parent.ID, spawnBody{Name: "child", Role: "helps", Prompts: agent.Prompts{System: "x"}, Tools: []string{"calculator", "spawn_agent"}})
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.route(r.who, first["agent_id"].(string), spawnBody{Name: "grandchild", Model: &agent.ModelConfig{Provider: "custom", ModelRef: "own"}, Task: "go"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"agent_id": second["agent_id"], "chain": []any{r.parent.ID, first["agent_id"], second["agent_id"]}, "depth": 2.0,
		"parent_id": first["agent_id"], "spawned_by": r.who.UserID, "spawned_at": second["created_at"],
	}
	if diff := cmp.Diff(want, second["lineage"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if m := second["model"].(map[string]any); m["model_ref"] != "own" || second["fallback_model"] != nil || second["tenant_id"] != r.who.TenantID {
		t.Errorf("%v", second)
	}
	task, err := r.runs.Get(t.Context(), r.who.TenantID, second["task_run_id"].(string))
	if err != nil || task.AgentID != second["agent_id"] || string(task.Input) != `{"message":"go"}` {
		t.Errorf("%+v, %v", task, err)
	}
	if _, has := first["task_run_id"]; has {
		t.Error("a task that was not given")
	}
	if err := r.agents.Store().Delete(t.Context(), r.who, r.parent.ID); err != nil {
		t.Fatal(err)
	}
	third, err := r.route(r.who, first["agent_id"].(string), spawnBody{Name: "late"})
	if err != nil || len(third["lineage"].(map[string]any)["chain"].([]any)) != 3 {
		t.Errorf("of an agent whose parent is gone: %v, %v", third, err)
	}
}

func TestSpawnRouteRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.route(r.who, r.parent.ID, spawnBody{Name: "x", Tools: []string{"web_search", "calculator", "x"}})
	want := map[string]any{"details": checkResult{Reason: fault.From(err).Detail, Denied: []string{"tool:web_search", "tool:x"}}}
	if f := fault.From(err); f.Kind != fault.Forbidden || f.Code != "SPAWN_DENIED" || cmp.Diff(want, f.Extra) != "" {
		t.Errorf("%v: %v", err, f.Extra)
	}
	few := r.who
	few.Scopes = []authz.Scope{"agents:write"}
	if _, err = r.route(few, r.parent.ID, spawnBody{Name: "x", Task: "go"}); fault.From(err).Code != "MISSING_SCOPE" {
		t.Errorf("a task without runs:create: %v", err)
	}
	r.runs.refuse = fault.New(fault.Unavailable, "", "Later.")
	if _, err = r.route(r.who, r.parent.ID, spawnBody{Name: "x", Task: "go"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a task that does not start: %v", err)
	}
	foreign := r.who
	foreign.TenantID = ident.New()
	if _, err = r.route(foreign, r.parent.ID, spawnBody{Name: "x"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another tenant's agent: %v", err)
	}
	if _, err = r.route(r.who, r.parent.ID, spawnBody{Name: " "}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a blank name: %v", err)
	}
	if n := r.children(t, r.parent.ID); n != 0 {
		t.Errorf("%d agents stay", n)
	}
}

// The agent of a task may be deleted while the task is under way: its call does not
// create it again.
func TestSpawnedAgentIsDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	call := r.call("spawn_agent", "c", map[string]any{"name": "x", "prompt": "x", "task": "y"})
	call.Awaits = r.do(t.Context(), call).Await
	if err := r.agents.Store().Delete(t.Context(), r.who, deriveID(call, "agent")); err != nil {
		t.Fatal(err)
	}
	r.runs.end(call.Awaits.RunID, run.Failed, "", "The agent was deleted.")
	if got := r.do(t.Context(), call); !got.Failed || !strings.Contains(got.Output, "The agent was deleted.") {
		t.Errorf("%+v", got)
	}
	if n := r.children(t, r.parent.ID); n != 0 {
		t.Errorf("%d agents were made again", n)
	}
}

// arbiter decides about spawned agents as a test has it.
type arbiter struct {
	asked   []policy.Spawn
	refusal *policy.Refusal
	limits  policy.SpawnLimits
}

func (a *arbiter) SpawnLimitsTx(txn.Tx, string) (policy.SpawnLimits, error) { return a.limits, nil }

func (a *arbiter) SpawnTx(_ txn.Tx, _ authz.Caller, s policy.Spawn) (*policy.Refusal, error) {
	a.asked = append(a.asked, s)
	return a.refusal, nil
}

// What is asked for a child, by people and by agents, is decided by the company's
// permissions; what they refuse is not created.
func TestSpawnPermissions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.route(r.who, r.parent.ID, spawnBody{Name: "x", BudgetUSD: new(1.0)}); fault.From(err).Code != "governance_not_enabled" {
		t.Errorf("without governance: %v", err)
	}
	a := &arbiter{limits: policy.SpawnLimits{MaxDepth: 1, MaxChildren: 2}}
	r.spawns = a
	asked := policy.Permissions{AllowedTools: []string{"calculator"}, MaxBudgetPerRunUSD: new(5.0), CanSpawn: new(true)}
	child, err := r.route(r.who, r.parent.ID, spawnBody{Name: "x", Role: "clerk", Permissions: asked, BudgetUSD: new(2.0)})
	if err != nil {
		t.Fatal(err)
	}
	made := r.made(r.call("spawn_agent", "c", map[string]any{"name": "x", "prompt": "x", "tools": []string{"calculator"}, "budget_usd": 0.5}))
	byPerson := asked
	byPerson.MaxBudgetPerRunUSD = new(2.0)
	want := []policy.Spawn{
		{ParentID: r.parent.ID, ChildID: child["agent_id"].(string), Role: "clerk", Depth: 1, Asked: byPerson},
		{
			ParentID: r.parent.ID, ChildID: made.AgentID, Depth: 1, RunID: r.runID, Tools: []string{"calculator"},
			Asked: policy.Permissions{MaxBudgetPerRunUSD: new(0.5)},
		},
	}
	if diff := cmp.Diff(want, a.asked, cmp.AllowUnexported(policy.Permissions{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	refused := func(parent, permission string) {
		t.Helper()
		_, err := r.route(r.who, parent, spawnBody{Name: "x"})
		if f := fault.From(err); f == nil || f.Code != "SPAWN_DENIED" || !strings.Contains(fmt.Sprint(f.Extra["details"]), permission) {
			t.Errorf("%s: %v", permission, err)
		}
	}
	refused(r.parent.ID, "max_children_per_agent")
	refused(made.AgentID, "max_spawn_depth")
	a.limits = policy.SpawnLimits{MaxDepth: 9, MaxChildren: 9}
	a.refusal = &policy.Refusal{Reason: "No.", Denied: []string{"can_spawn"}}
	refused(r.parent.ID, "can_spawn")
	if n := r.children(t, r.parent.ID); n != 2 {
		t.Errorf("%d children", n)
	}
}
