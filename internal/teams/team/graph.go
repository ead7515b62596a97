package team

import (
	"cmp"
	"context"
	"slices"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// The states of a node. A member whose node is not active takes part in no later run.
const (
	active     = "active"
	terminated = "terminated"
)

// maxEdges bounds the edges of a graph.
const maxEdges = 1000

// graph is the graph of one team, under the team's id.
type graph struct {
	resource.Meta `json:"-"`

	Nodes []Node `json:"nodes"`
	Edges []Edge `json:"edges"`
}

// Node is an agent in the graph of a team.
type Node struct {
	_ struct{} `json:"-" name:"TeamGraphNode"`

	AgentID     string    `json:"agent_id" required:"true"`
	Role        string    `json:"role" required:"true" enum:"orchestrator,worker,arbiter"`
	Status      string    `json:"status" required:"true" enum:"active,idle,terminated" doc:"A member that is not active takes part in no later run."`
	SpawnedBy   string    `json:"spawned_by" required:"true" doc:"Who added it: an id, or system for the members of the team."`
	SpawnedAt   time.Time `json:"spawned_at" required:"true"`
	GoalSummary string    `json:"goal_summary" required:"true"`
}

// Edge is a relation of two agents in the graph of a team.
type Edge struct {
	_ struct{} `json:"-" name:"TeamGraphEdge"`

	EdgeID    string    `json:"edge_id" format:"uuid" required:"true"`
	From      string    `json:"from" required:"true"`
	To        string    `json:"to" required:"true"`
	Type      string    `json:"type" required:"true" enum:"delegation,supervision,peer"`
	TaskID    string    `json:"task_id,omitzero"`
	CreatedAt time.Time `json:"created_at" required:"true"`
}

// graphKind is the kind of graphs. They are served below their team.
var graphKind = resource.Kind[graph]{Name: "team_graph", Path: "/api/v1/teams/graphs", IDField: "id", Tag: "Teams"}

// graphs keeps the graphs of teams.
type graphs struct {
	store  *resource.Store[graph]
	silent *resource.Store[graph] // the same, for what follows a change of the team
	teams  *resource.Store[Team]
	writer txn.Writer
	clock  clock.Clock
	agent  func(tx txn.Tx, tenant, id string) error
}

// follow makes the graph follow a write of its team, in the write's transaction.
func (g *graphs) follow(e *resource.Edit[Team]) error {
	if e.New == nil {
		return g.silent.DeleteTx(e.Tx, e.Who, e.Old.ID)
	}
	if e.Old == nil {
		made := g.silent.Blank()
		made.ID, made.Nodes, made.Edges = e.New.ID, []Node{}, []Edge{}
		g.fit(made, e.New, nil)
		return g.silent.CreateTx(e.Tx, e.Who, made)
	}
	before, _ := e.Old.agents()
	after, _ := e.New.agents()
	if slices.Equal(before, after) {
		return nil
	}
	_, err := g.silent.UpdateTx(e.Tx, e.Who, e.New.ID, func(of *graph) error {
		g.fit(of, e.New, before)
		return nil
	})
	return err
}

// fit adds a node to the graph for each member of the team, with an edge from its
// supervisor, and removes those of members that left.
func (g *graphs) fit(of *graph, t *Team, before []string) {
	now, _ := t.agents()
	for _, id := range before {
		if !slices.Contains(now, id) {
			of.remove(id)
		}
	}
	for _, id := range now {
		if of.node(id) != nil {
			continue
		}
		role := "worker"
		if id == t.SupervisorAgentID {
			role = "orchestrator"
		}
		of.Nodes = append(of.Nodes, Node{AgentID: id, Role: role, Status: active, SpawnedBy: "system", SpawnedAt: g.clock.Now()})
		if from := t.SupervisorAgentID; from != "" && id != from {
			of.Edges = append(of.Edges, Edge{EdgeID: ident.New(), From: from, To: id, Type: "delegation", CreatedAt: g.clock.Now()})
		}
	}
}

func (of *graph) node(agentID string) *Node {
	for i := range of.Nodes {
		if of.Nodes[i].AgentID == agentID {
			return &of.Nodes[i]
		}
	}
	return nil
}

// remove removes a node with its edges, and reports whether it was there.
func (of *graph) remove(agentID string) bool {
	n := len(of.Nodes)
	of.Nodes = slices.DeleteFunc(of.Nodes, func(one Node) bool { return one.AgentID == agentID })
	of.Edges = slices.DeleteFunc(of.Edges, func(one Edge) bool { return one.From == agentID || one.To == agentID })
	return len(of.Nodes) < n
}

// Active returns which of the agents take part in runs of a team: those with an
// active node. Errors: fault.NotFound for the team.
func (t *Teams) Active(ctx context.Context, tenant, teamID string) (map[string]bool, error) {
	of, err := t.graphs.store.Get(ctx, tenant, teamID)
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, n := range of.Nodes {
		all[n.AgentID] = n.Status == active
	}
	return all, nil
}

// change changes the graph of a team in a transaction.
func (g *graphs) change(ctx context.Context, who authz.Caller, teamID string, do func(tx txn.Tx, t *Team, of *graph) error) error {
	return g.writer.Write(ctx, func(tx txn.Tx) error {
		t, err := g.teams.GetTx(tx, who.TenantID, teamID)
		if err != nil {
			return err
		}
		_, err = g.store.UpdateTx(tx, who, teamID, func(of *graph) error { return do(tx, t, of) })
		return err
	})
}

// addNode adds an agent of the company to a graph.
func (g *graphs) addNode(ctx context.Context, who authz.Caller, teamID string, n Node) (Node, error) {
	n.Role, n.Status = cmp.Or(n.Role, "worker"), active
	n.SpawnedBy, n.SpawnedAt = cmp.Or(n.SpawnedBy, who.UserID, who.KeyID), g.clock.Now()
	return n, g.change(txn.WithAnswer(ctx, func() any { return n }), who, teamID, func(tx txn.Tx, t *Team, of *graph) error {
		if err := g.agent(tx, who.TenantID, n.AgentID); err != nil {
			return err
		}
		if of.node(n.AgentID) != nil {
			return fault.New(fault.Conflict, "ALREADY_EXISTS", "The agent has a node in the graph of this team already.")
		}
		if len(of.Nodes) >= t.Policies.MaxGraphNodes {
			return fault.New(fault.Forbidden, "COUNT_LIMIT_REACHED",
				"The graph of this team may have %d nodes (policies.max_graph_nodes), and has them.", t.Policies.MaxGraphNodes)
		}
		of.Nodes = append(of.Nodes, n)
		return nil
	})
}

// addEdge relates two nodes of a graph.
func (g *graphs) addEdge(ctx context.Context, who authz.Caller, teamID string, edge Edge) (Edge, error) {
	edge.EdgeID, edge.CreatedAt = ident.New(), g.clock.Now()
	return edge, g.change(txn.WithAnswer(ctx, func() any { return edge }), who, teamID, func(_ txn.Tx, _ *Team, of *graph) error {
		var absent []fault.Field
		if of.node(edge.From) == nil {
			absent = append(absent, fault.Field{Field: "from", Message: "the graph has no node of this agent"})
		}
		if of.node(edge.To) == nil {
			absent = append(absent, fault.Field{Field: "to", Message: "the graph has no node of this agent"})
		}
		if absent != nil {
			return fault.BadFields(absent...)
		}
		if len(of.Edges) >= maxEdges {
			return fault.New(fault.Forbidden, "COUNT_LIMIT_REACHED", "A graph may have %d edges, and this one has them.", maxEdges)
		}
		of.Edges = append(of.Edges, edge)
		return nil
	})
}

var errNoNode = fault.NewNotFound("node")
