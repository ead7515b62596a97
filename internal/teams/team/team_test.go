package team

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// exists knows these ids.
func exists(ids ...string) func(txn.Tx, string, string) error {
	return func(_ txn.Tx, _, id string) error {
		if slices.Contains(ids, id) {
			return nil
		}
		return fault.NewNotFound("agent")
	}
}

func TestTeams(t *testing.T) {
	t.Parallel()
	a, b, c := ident.New(), ident.New(), ident.New()
	plain := fmt.Sprintf(`{"name":"Team %%d","supervisor_agent_id":%q,"workers":[{"agent_id":%q}]}`, a, b)
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		resourcetest.Kind(t, resourcesql.New(db), db, func(deps resource.Deps) *resource.Store[Team] {
			return New(deps, Options{Agent: exists(a, b, c), Workspace: exists("w")}).Store()
		}, resourcetest.Samples{
			Minimal: plain,
			Defaults: map[string]string{
				"topology": `"supervisor"`, "delegation_strategy": `"supervisor_decides"`, "merge_strategy": `"supervisor_merges"`,
				"message_protocol": `"shared_context"`, "workspace_id": `null`, "swarm_config": `null`, "goal_config": `null`,
				"workers": fmt.Sprintf(`[{"agent_id":%q,"role":"worker","permissions":{"can_read_other_results":true}}]`, b),
				"policies": `{"max_rounds":10,"timeout_ms":0,"early_termination":true,"subtask_timeout_ms":0,"on_worker_failure":"retry",
					"max_worker_retries":1,"require_all_workers":false,"max_graph_nodes":50,"max_concurrency":8}`,
			},
			Full: fmt.Sprintf(`{"name":"Team %%d","description":"d","topology":"swarm","supervisor_agent_id":%q,"agent_ids":[%q],
				"workers":[{"agent_id":%q,"role":"r","permissions":{"can_read_other_results":false,"max_tokens":5,"max_steps_per_subtask":2}}],
				"delegation_strategy":"round_robin","merge_strategy":"vote","message_protocol":"message_passing",
				"orchestration_mode":"strict_addressed","supervisor_mode":"auto_dispatch","workspace_id":"w",
				"goal_config":{"max_iterations":4,"judge_agent_id":%q,"budget":{"max_runs":3,"max_tokens":5,"max_cost_usd":0.5}},
				"swarm_config":{"initial_agent_id":%q,"max_handoffs":3,"handoff_context_strategy":"summary"},
				"policies":{"max_rounds":2,"timeout_ms":4000000,"early_termination":false,"consensus_threshold":0.5,"subtask_timeout_ms":7,
				"on_worker_failure":"skip","max_worker_retries":2,"require_all_workers":true,"max_graph_nodes":9,"max_concurrency":3,
				"validation":{"enabled":true,"criteria":[{"name":"c","description":"d","weight":0.5}],"min_score":0.2,"max_revision_rounds":3,
				"validator_agent_id":%q,"auto_revise":false}}}`, a, b, c, a, c, a),
			Refused: []resourcetest.Refused{
				{Body: `{}`, Fields: []string{"name", "supervisor_agent_id", "workers"}},
				{Body: `{"name":" "}`, Fields: []string{"name", "supervisor_agent_id", "workers"}},
				{Body: `{"name":"x","workers":[{}]}`, Fields: []string{"workers[0].agent_id", "supervisor_agent_id"}},
				{
					Body:   fmt.Sprintf(`{"name":"x","supervisor_agent_id":%q,"workers":[{"agent_id":%q},{"agent_id":%q}]}`, a, b, b),
					Fields: []string{"workers[1].agent_id"},
				},
				{Body: fmt.Sprintf(`{"name":"x","supervisor_agent_id":%q,"workers":[{"agent_id":%q}]}`, a, a), Fields: []string{"workers[0].agent_id"}},
				{
					Body:   fmt.Sprintf(`{"name":"x","topology":"swarm","agent_ids":[%q,"stranger"],"swarm_config":{"initial_agent_id":%q}}`, a, a),
					Fields: []string{"agent_ids[1]"},
				},
				{Body: `{"name":"x","topology":"swarm"}`, Fields: []string{"swarm_config"}},
				{
					Body:   fmt.Sprintf(`{"name":"x","topology":"swarm","agent_ids":[%q],"swarm_config":{"initial_agent_id":%q}}`, a, b),
					Fields: []string{"swarm_config.initial_agent_id"},
				},
				{Body: fmt.Sprintf(`{"name":"x","supervisor_agent_id":%q,"agent_ids":[%q]}`, a, b), Fields: []string{"agent_ids", "workers"}},
				{Body: `{"name":"x","topology":"goal_driven","supervisor_mode":"tool_driven"}`, Fields: []string{"supervisor_mode", "supervisor_agent_id", "workers"}},
				{
					Body:   fmt.Sprintf(`{"name":"x","topology":"pipeline","orchestration_mode":"vote_based","supervisor_agent_id":%q,"workers":[{"agent_id":%q}]}`, a, b),
					Fields: []string{"orchestration_mode"},
				},
				{
					Body: fmt.Sprintf(`{"name":"x","topology":"swarm","agent_ids":[%q],"swarm_config":{"initial_agent_id":%q},
						"policies":{"validation":{"criteria":[{"name":"c","weight":0},{"name":"c","weight":0}]}}}`, a, a),
					Fields: []string{"policies.validation.criteria[1].name", "policies.validation.criteria", "policies.validation.validator_agent_id"},
				},
			},
			Changes: []resourcetest.Changed{
				{Patch: `{"policies":{"max_rounds":5,"timeout_ms":1}}`, Want: map[string]string{
					"policies": `{"max_rounds":5,"timeout_ms":3600000,"early_termination":false,"consensus_threshold":0.5,"subtask_timeout_ms":7,
						"on_worker_failure":"skip","max_worker_retries":2,"require_all_workers":true,"max_graph_nodes":9,"max_concurrency":3,
						"validation":{"enabled":true,"criteria":[{"name":"c","description":"d","weight":0.5}],"min_score":0.2,"max_revision_rounds":3,
						"validator_agent_id":"` + a + `","auto_revise":false}}`,
				}},
				{Patch: fmt.Sprintf(`{"workers":[{"agent_id":%q}]}`, c), Want: map[string]string{
					"workers": fmt.Sprintf(`[{"agent_id":%q,"role":"r","permissions":{"can_read_other_results":false,"max_tokens":5,"max_steps_per_subtask":2}}]`, c),
				}},
			},
		})
	})
}

// full is a gate that lets nothing in.
type full struct{ quota.Gate }

var errFull = errors.New("the plan has no teams")

func (full) Reserve(_ txn.Tx, _ string, r quota.Resource) error {
	if r == quota.Teams {
		return errFull
	}
	return nil
}

func TestTeamsOfAPlan(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	deps, _ := resourcetest.Deps(resourcesql.New(db), db)
	teams := New(deps, Options{Agent: exists("a", "b"), Quota: full{}})
	made := teams.Store().Blank()
	made.Name, made.SupervisorAgentID, made.Workers = "x", "a", []Worker{{AgentID: "b"}}
	if err := teams.Store().Create(t.Context(), authz.Caller{TenantID: ident.New()}, made); !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
}

// The graph of a team has a node for each member, follows its changes, and goes with
// it; a node that is not active takes its member out of later runs.
func TestGraph(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		deps, _ := resourcetest.Deps(resourcesql.New(db), db)
		deleted := ""
		teams := New(deps, Options{Agent: exists("boss", "a", "b", "c"), Deleted: func(_ txn.Tx, _, id string) error {
			deleted = id
			return nil
		}})
		who := authz.Caller{TenantID: ident.New(), UserID: "ada"}
		made := teams.Store().Blank()
		made.Name, made.SupervisorAgentID, made.Workers = "x", "boss", []Worker{{AgentID: "a"}, {AgentID: "b"}}
		if err := teams.Store().Create(t.Context(), who, made); err != nil {
			t.Fatal(err)
		}
		g := teams.graphs
		shown := func(terminated bool) (nodes, edges []string) {
			got, err := g.get(t.Context(), who, &graphIn{TeamID: made.ID, Terminated: terminated})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range got.Nodes {
				nodes = append(nodes, n.AgentID+" "+n.Role+" "+n.Status+" "+n.SpawnedBy+n.GoalSummary)
			}
			for _, e := range got.Edges {
				edges = append(edges, e.From+" "+e.To+" "+e.Type+e.TaskID)
			}
			return nodes, edges
		}
		want := func(terminated bool, nodes, edges []string) {
			t.Helper()
			gotNodes, gotEdges := shown(terminated)
			if diff := cmp.Diff(nodes, gotNodes) + cmp.Diff(edges, gotEdges); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		want(false, []string{"boss orchestrator active system", "a worker active system", "b worker active system"},
			[]string{"boss a delegation", "boss b delegation"})
		idle, goal := "terminated", "!"
		change := &changeNodeIn{TeamID: made.ID, AgentID: "b"}
		change.Body.Status, change.Body.GoalSummary = &idle, &goal
		if n, err := g.patchNode(t.Context(), who, change); err != nil || n.Status != idle {
			t.Errorf("%+v, %v", n, err)
		}
		if got, err := teams.Active(t.Context(), who.TenantID, made.ID); err != nil || !got["a"] || got["b"] {
			t.Errorf("%v, %v", got, err)
		}
		want(false, []string{"boss orchestrator active system", "a worker active system"}, []string{"boss a delegation"})
		want(true, []string{"boss orchestrator active system", "a worker active system", "b worker terminated system!"},
			[]string{"boss a delegation", "boss b delegation"})

		add := &addNodeIn{TeamID: made.ID}
		add.Body.AgentID, add.Body.Role, add.Body.SpawnedBy, add.Body.GoalSummary = "c", "arbiter", "me", "?"
		if _, err := g.postNode(t.Context(), who, add); err != nil {
			t.Fatal(err)
		}
		if _, err := g.postNode(t.Context(), who, add); !fault.Is(err, fault.Conflict) {
			t.Errorf("a second node: %v", err)
		}
		edge := &addEdgeIn{TeamID: made.ID}
		edge.Body.From, edge.Body.To, edge.Body.Type, edge.Body.TaskID = "c", "a", "peer", "7"
		first, err := g.postEdge(t.Context(), who, edge)
		if err != nil {
			t.Fatal(err)
		}
		edge.Body.To = "stranger"
		if _, err := g.postEdge(t.Context(), who, edge); !fault.Is(err, fault.Invalid) {
			t.Errorf("an edge to a stranger: %v", err)
		}
		if _, err := teams.Store().Update(t.Context(), who, made.ID, func(_ txn.Tx, of *Team) error {
			of.Workers = []Worker{{AgentID: "b"}}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want(false, []string{"boss orchestrator active system", "c arbiter active me?"}, nil)
		if _, err := g.deleteEdge(t.Context(), who, &edgeIn{made.ID, first.EdgeID}); !fault.Is(err, fault.NotFound) {
			t.Errorf("an edge whose node is gone: %v", err)
		}
		if _, err := g.deleteNode(t.Context(), who, &nodeIn{made.ID, "c"}); err != nil {
			t.Error(err)
		}
		if _, err := g.getNode(t.Context(), who, &nodeIn{made.ID, "c"}); !fault.Is(err, fault.NotFound) {
			t.Errorf("a node that is gone: %v", err)
		}
		if _, err := g.listNodes(t.Context(), authz.Caller{TenantID: ident.New()}, &teamIn{made.ID}); !fault.Is(err, fault.NotFound) {
			t.Errorf("another company's graph: %v", err)
		}
		if err := teams.Store().Delete(t.Context(), who, made.ID); err != nil || deleted != made.ID {
			t.Errorf("%q, %v", deleted, err)
		}
		if _, err := g.listEdges(t.Context(), who, &teamIn{made.ID}); !fault.Is(err, fault.NotFound) {
			t.Errorf("the graph of a team that is gone: %v", err)
		}
	})
}

func TestGraphIsBounded(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	deps, _ := resourcetest.Deps(resourcesql.New(db), db)
	teams := New(deps, Options{Agent: exists("boss", "a", "b")})
	who := authz.Caller{TenantID: ident.New()}
	made := teams.Store().Blank()
	made.Name, made.SupervisorAgentID, made.Workers, made.Policies.MaxGraphNodes = "x", "boss", []Worker{{AgentID: "a"}}, 2
	if err := teams.Store().Create(t.Context(), who, made); err != nil {
		t.Fatal(err)
	}
	add := &addNodeIn{TeamID: made.ID}
	add.Body.AgentID = "b"
	if _, err := teams.graphs.postNode(t.Context(), who, add); fault.From(err).Code != "COUNT_LIMIT_REACHED" {
		t.Errorf("%v", err)
	}
}

// An agent that a team names alone and that the company does not have is absent.
func TestAbsentMembers(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	deps, _ := resourcetest.Deps(resourcesql.New(db), db)
	teams := New(deps, Options{Agent: exists("boss", "a"), Workspace: exists()})
	who, workspace := authz.Caller{TenantID: ident.New()}, "stranger"
	for name, change := range map[string]func(*Team){
		"supervisor": func(t *Team) { t.SupervisorAgentID = "stranger" },
		"worker":     func(t *Team) { t.Workers = []Worker{{AgentID: "stranger"}} },
		"initial":    func(t *Team) { t.SwarmConfig = &Swarmed{InitialAgentID: "stranger"} },
		"judge":      func(t *Team) { t.GoalConfig = &Goal{JudgeID: "stranger"} },
		"validator":  func(t *Team) { t.Policies.Validation = &Validation{ValidatorID: "stranger"} },
		"workspace":  func(t *Team) { t.WorkspaceID = &workspace },
	} {
		made := teams.Store().Blank()
		made.Name, made.SupervisorAgentID, made.Workers = "x", "boss", []Worker{{AgentID: "a"}}
		change(made)
		if err := teams.Store().Create(t.Context(), who, made); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The score of an answer is the weighted mean of its scores, within 0 and 1.
func TestScore(t *testing.T) {
	t.Parallel()
	v := Validation{Criteria: []Criterion{{Name: "a", Weight: new(1.0)}, {Name: "b", Weight: new(0.25)}, {Name: "c", Weight: new(0.0)}}}
	for name, c := range map[string]struct {
		scores map[string]float64
		want   float64
	}{
		"weighted":  {map[string]float64{"a": 1, "b": 0.5, "c": 0}, 0.9},
		"missing":   {map[string]float64{"b": 1, "other": 1}, 0.2},
		"beyond":    {map[string]float64{"a": 1e9, "b": -5}, 0.8},
		"no_scores": {nil, 0},
	} {
		if got := v.Score(c.scores); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := (&Validation{}).Score(nil); got != 0 {
		t.Errorf("without criteria: %v", got)
	}
}
