package team

import (
	"context"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

type (
	graphIn struct {
		TeamID     string `path:"teamId"`
		Terminated bool   `query:"include_terminated" doc:"With the nodes that are terminated, and their edges."`
	}
	teamIn struct {
		TeamID string `path:"teamId"`
	}
	nodeIn struct {
		TeamID  string `path:"teamId"`
		AgentID string `path:"agentId"`
	}
	addNodeIn struct {
		TeamID string `path:"teamId"`
		Body   struct {
			_ struct{} `json:"-" name:"TeamGraphNodeCreate"`

			AgentID     string `json:"agent_id" required:"true" minLength:"1" maxLength:"36" ref:"agent" doc:"The agent."`
			Role        string `json:"role" enum:"orchestrator,worker,arbiter" default:"worker" doc:"What it is in the graph."`
			SpawnedBy   string `json:"spawned_by" maxLength:"200" doc:"Who or what added it. Default: the caller."`
			GoalSummary string `json:"goal_summary" maxLength:"2000" doc:"What it is to achieve, in a sentence."`
		}
	}
	changeNodeIn struct {
		TeamID  string `path:"teamId"`
		AgentID string `path:"agentId"`
		Body    struct {
			_ struct{} `json:"-" name:"TeamGraphNodeUpdate"`

			Status      *string `json:"status" enum:"active,idle,terminated" doc:"A member that is not active takes part in no later run."`
			GoalSummary *string `json:"goal_summary" maxLength:"2000" doc:"What it is to achieve, in a sentence."`
		}
	}
	addEdgeIn struct {
		TeamID string `path:"teamId"`
		Body   struct {
			_ struct{} `json:"-" name:"TeamGraphEdgeCreate"`

			From   string `json:"from" required:"true" minLength:"1" maxLength:"36" doc:"The agent of the node where it begins."`
			To     string `json:"to" required:"true" minLength:"1" maxLength:"36" doc:"The agent of the node where it ends."`
			Type   string `json:"type" required:"true" enum:"delegation,supervision,peer" doc:"How the two are related."`
			TaskID string `json:"task_id" maxLength:"200" doc:"A task that the relation is about, as you call it."`
		}
	}
	edgeIn struct {
		TeamID string `path:"teamId"`
		EdgeID string `path:"edgeId"`
	}
)

type (
	graphView struct {
		_ struct{} `json:"-" name:"TeamGraph"`

		Nodes []Node `json:"nodes" required:"true"`
		Edges []Edge `json:"edges" required:"true"`
	}
	nodeList struct {
		_ struct{} `json:"-" name:"TeamGraphNodeList"`

		Nodes []Node `json:"nodes" required:"true"`
		Total int    `json:"total" required:"true"`
	}
	edgeList struct {
		_ struct{} `json:"-" name:"TeamGraphEdgeList"`

		Edges []Edge `json:"edges" required:"true"`
		Total int    `json:"total" required:"true"`
	}
	nodeDeleted struct {
		_ struct{} `json:"-" name:"TeamGraphNodeDeleted"`

		Deleted bool   `json:"deleted" required:"true"`
		AgentID string `json:"agent_id" required:"true"`
	}
	edgeDeleted struct {
		_ struct{} `json:"-" name:"TeamGraphEdgeDeleted"`

		Deleted bool   `json:"deleted" required:"true"`
		EdgeID  string `json:"edge_id" required:"true"`
	}
)

func (g *graphs) routes() []route.Route {
	const own = "/api/v1/teams/{teamId}/graph"
	row := func(method, path, id, summary string) route.Row {
		r := route.Row{Method: method, Path: own + path, ID: id, Tag: "Teams", Summary: summary, Errors: []int{404}}
		if method == "GET" {
			r.Scopes = []authz.Scope{"agents:read"}
			return r
		}
		r.Scopes, r.Role, r.Errors = []authz.Scope{"agents:write"}, authz.Developer, []int{404, 409}
		return r
	}
	created := func(r route.Row) route.Row {
		r.Status = 201
		return r
	}
	return []route.Route{
		route.Action(row("GET", "", "getTeamGraph", "Get the graph of a team"), g.get),
		route.Action(row("GET", "/nodes", "listTeamGraphNodes", "List the nodes of a team's graph"), g.listNodes),
		route.Action(created(row("POST", "/nodes", "addTeamGraphNode", "Add a node to a team's graph")), g.postNode),
		route.Action(row("GET", "/nodes/{agentId}", "getTeamGraphNode", "Get a node of a team's graph"), g.getNode),
		route.Action(row("PATCH", "/nodes/{agentId}", "updateTeamGraphNode", "Change a node of a team's graph"), g.patchNode),
		route.Action(row("DELETE", "/nodes/{agentId}", "deleteTeamGraphNode", "Remove a node of a team's graph, with its edges"), g.deleteNode),
		route.Action(row("GET", "/edges", "listTeamGraphEdges", "List the edges of a team's graph"), g.listEdges),
		route.Action(created(row("POST", "/edges", "addTeamGraphEdge", "Add an edge to a team's graph")), g.postEdge),
		route.Action(row("DELETE", "/edges/{edgeId}", "deleteTeamGraphEdge", "Remove an edge of a team's graph"), g.deleteEdge),
	}
}

func (g *graphs) get(ctx context.Context, who authz.Caller, in *graphIn) (*graphView, error) {
	of, err := g.store.Get(ctx, who.TenantID, in.TeamID)
	if err != nil {
		return nil, notFound(err)
	}
	if !in.Terminated {
		for _, n := range slices.Clone(of.Nodes) {
			if n.Status == terminated {
				of.remove(n.AgentID)
			}
		}
	}
	return &graphView{Nodes: of.Nodes, Edges: of.Edges}, nil
}

// notFound names the team in the error about its graph.
func notFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.NewNotFound("team")
	}
	return err
}

func (g *graphs) listNodes(ctx context.Context, who authz.Caller, in *teamIn) (*nodeList, error) {
	of, err := g.store.Get(ctx, who.TenantID, in.TeamID)
	if err != nil {
		return nil, notFound(err)
	}
	return &nodeList{Nodes: of.Nodes, Total: len(of.Nodes)}, nil
}

func (g *graphs) listEdges(ctx context.Context, who authz.Caller, in *teamIn) (*edgeList, error) {
	of, err := g.store.Get(ctx, who.TenantID, in.TeamID)
	if err != nil {
		return nil, notFound(err)
	}
	return &edgeList{Edges: of.Edges, Total: len(of.Edges)}, nil
}

func (g *graphs) getNode(ctx context.Context, who authz.Caller, in *nodeIn) (*Node, error) {
	of, err := g.store.Get(ctx, who.TenantID, in.TeamID)
	if err != nil {
		return nil, notFound(err)
	}
	if n := of.node(in.AgentID); n != nil {
		return n, nil
	}
	return nil, errNoNode
}

func (g *graphs) postNode(ctx context.Context, who authz.Caller, in *addNodeIn) (Node, error) {
	b := &in.Body
	return g.addNode(ctx, who, in.TeamID, Node{AgentID: b.AgentID, Role: b.Role, SpawnedBy: b.SpawnedBy, GoalSummary: b.GoalSummary})
}

func (g *graphs) patchNode(ctx context.Context, who authz.Caller, in *changeNodeIn) (after Node, err error) {
	ctx = txn.WithAnswer(ctx, func() any { return after })
	err = g.change(ctx, who, in.TeamID, func(_ txn.Tx, _ *Team, of *graph) error {
		n := of.node(in.AgentID)
		if n == nil {
			return errNoNode
		}
		if in.Body.Status != nil {
			n.Status = *in.Body.Status
		}
		if in.Body.GoalSummary != nil {
			n.GoalSummary = *in.Body.GoalSummary
		}
		after = *n
		return nil
	})
	return after, err
}

func (g *graphs) deleteNode(ctx context.Context, who authz.Caller, in *nodeIn) (nodeDeleted, error) {
	answer := nodeDeleted{Deleted: true, AgentID: in.AgentID}
	return answer, g.change(txn.WithAnswer(ctx, func() any { return answer }), who, in.TeamID, func(_ txn.Tx, _ *Team, of *graph) error {
		if !of.remove(in.AgentID) {
			return errNoNode
		}
		return nil
	})
}

func (g *graphs) postEdge(ctx context.Context, who authz.Caller, in *addEdgeIn) (Edge, error) {
	b := &in.Body
	return g.addEdge(ctx, who, in.TeamID, Edge{From: b.From, To: b.To, Type: b.Type, TaskID: b.TaskID})
}

func (g *graphs) deleteEdge(ctx context.Context, who authz.Caller, in *edgeIn) (edgeDeleted, error) {
	answer := edgeDeleted{Deleted: true, EdgeID: in.EdgeID}
	return answer, g.change(txn.WithAnswer(ctx, func() any { return answer }), who, in.TeamID, func(_ txn.Tx, _ *Team, of *graph) error {
		n := len(of.Edges)
		of.Edges = slices.DeleteFunc(of.Edges, func(one Edge) bool { return one.EdgeID == in.EdgeID })
		if len(of.Edges) == n {
			return fault.NewNotFound("edge")
		}
		return nil
	})
}
