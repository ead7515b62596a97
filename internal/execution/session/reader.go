package session

import (
	"context"
	"slices"

	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// reader reads conversations from the runs of a session.
type reader struct {
	store  Store
	agents Agents
}

// conversation is the active branch of a session.
type conversation struct {
	graph   *branchGraph
	path    []segment
	history *history
}

// conversation reads the active branch of a session.
func (r *reader) conversation(ctx context.Context, rec *Record) (*conversation, error) {
	graph, err := r.graph(ctx, rec)
	if err != nil {
		return nil, err
	}
	path := graph.path(rec.ActiveBranch)
	h, err := r.history(ctx, rec.TenantID, path)
	if err != nil {
		return nil, err
	}
	return &conversation{graph, path, h}, nil
}

// graph reads the branches and turns of a session.
func (r *reader) graph(ctx context.Context, rec *Record) (*branchGraph, error) {
	branches, err := r.store.ListBranches(ctx, rec.TenantID, rec.SessionID)
	if err != nil {
		return nil, err
	}
	turns, err := r.store.ListTurns(ctx, rec.TenantID, rec.SessionID, 0)
	if err != nil {
		return nil, err
	}
	return newBranchGraph(rec, branches, turns), nil
}

// history reads the history of a path.
func (r *reader) history(ctx context.Context, tenant string, path []segment) (*history, error) {
	h := newHistory()
	if len(path) == 0 {
		return h, nil
	}
	runs, err := r.store.ListJournals(ctx, tenant, runIDs(path))
	if err != nil {
		return nil, err
	}
	for i := range runs {
		if runs[i].Run.RunID == "" {
			continue // the run was deleted; the runs after it were not
		}
		if err := h.add(&runs[i], path[i].lastStep); err != nil {
			return nil, err
		}
	}
	h.markCompacted()
	return h, nil
}

// before returns the messages of the turns before a run's own.
func (r *reader) before(ctx context.Context, rec *run.Record) ([]model.Message, error) {
	if rec.SessionID == nil {
		return nil, nil
	}
	session, err := r.store.Get(ctx, rec.TenantID, *rec.SessionID)
	if err != nil {
		return nil, err
	}
	graph, err := r.graph(ctx, session)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(graph.turns, func(t TimedTurn) bool { return t.RunID == rec.RunID })
	if at < 0 {
		return nil, nil // its branch was deleted
	}
	path := graph.path(graph.turns[at].BranchID)
	own := slices.IndexFunc(path, func(seg segment) bool { return seg.runID == rec.RunID })
	h, err := r.history(ctx, rec.TenantID, path[:own])
	if err != nil {
		return nil, err
	}
	return h.messages, nil
}

// agentName returns the name of an agent, or "" if the agent was deleted.
func (r *reader) agentName(ctx context.Context, tenant, id string) (string, error) {
	g, err := r.agents.Get(ctx, tenant, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	return g.Name, nil
}

// agentNames reads the name of each agent of a list once.
type agentNames struct {
	reader *reader
	tenant string
	known  map[string]string
}

func (r *reader) agentNames(tenant string) *agentNames {
	return &agentNames{reader: r, tenant: tenant, known: map[string]string{}}
}

func (n *agentNames) of(ctx context.Context, id string) (string, error) {
	if name, ok := n.known[id]; ok {
		return name, nil
	}
	name, err := n.reader.agentName(ctx, n.tenant, id)
	if err == nil {
		n.known[id] = name
	}
	return name, err
}
