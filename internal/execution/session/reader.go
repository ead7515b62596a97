package session

import (
	"context"
	"math"
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

// graph reads the branches and turns of a session.
func (r *reader) graph(ctx context.Context, rec *Record) (*branchGraph, error) {
	branches, err := r.store.ListBranches(ctx, rec.TenantID, rec.SessionID)
	if err != nil {
		return nil, err
	}
	turns, err := r.store.ListTurns(ctx, rec.TenantID, rec.SessionID)
	if err != nil {
		return nil, err
	}
	return newBranchGraph(rec, branches, turns), nil
}

// segments returns all runs of a path, oldest first.
func (p *path) segments(ctx context.Context) ([]segment, error) {
	all, err := p.backwards().next(ctx, math.MaxInt)
	slices.Reverse(all)
	return all, err
}

// history reads the history of a whole path.
func (p *path) history(ctx context.Context, segments []segment) (*history, error) {
	h := newHistory()
	for part := range slices.Chunk(segments, maxStretch) {
		chapters, err := p.chapters(ctx, part)
		if err != nil {
			return nil, err
		}
		for _, c := range chapters {
			h.add(c)
		}
	}
	h.markCompacted()
	return h, nil
}

// before returns the messages of the turns before a run's own, as far as its model
// is shown them.
func (r *reader) before(ctx context.Context, rec *run.Record, reach run.Reach) ([]model.Message, error) {
	if rec.SessionID == nil {
		return nil, nil
	}
	t, err := r.store.GetTurn(ctx, rec.TenantID, rec.RunID)
	if fault.Is(err, fault.NotFound) || err == nil && t.SessionID != *rec.SessionID {
		return nil, nil // its branch was deleted
	}
	if err != nil {
		return nil, err
	}
	p, err := r.path(ctx, rec.TenantID, t.SessionID, t.BranchID)
	if err != nil {
		return nil, err
	}
	p = p.upTo(t.Turn)
	session, err := r.store.Get(ctx, rec.TenantID, t.SessionID)
	if err != nil {
		return nil, err
	}
	if session.Summary.Rules {
		return p.allMessages(ctx)
	}
	return messagesOf(ctx, p, reach)
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
