package agent

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/ptr"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// Agents keeps agents and their versions.
type Agents struct {
	deps       resource.Deps
	store      *resource.Versioned[Agent]
	recent     *resource.Recent[Agent]
	workspaces Workspaces
	published  PublishFunc
}

// PublishFunc stores whether agents of other systems may find an agent.
type PublishFunc func(tx txn.Tx, tenant, id string, is bool) error

// New makes the store of agents.
func New(deps resource.Deps, o Options) *Agents {
	a := &Agents{deps: deps, workspaces: o.Workspaces, published: o.Published}
	kept := versions
	kept.InUse = a.versionInUse(o.VersionInUse)
	a.store = resource.NewVersioned(a.kind(o), kept, deps)
	a.recent = resource.NewRecent(a.store.Store, recentBytes)
	return a
}

// Store returns the agents as resources, for writes and lists by other slices.
func (a *Agents) Store() *resource.Store[Agent] { return a.store.Store }

// recentBytes bounds what runs keep of their agents, by the size of the JSON.
const recentBytes = 8 << 20

// Get reads an agent: as it is now where this process changed it last, and
// else as it was at most a second ago. What it points to is shared with other
// callers: it must not be changed. Errors: fault.NotFound.
func (a *Agents) Get(ctx context.Context, tenant, id string) (Agent, error) {
	known, err := a.recent.Get(ctx, tenant, id)
	if err != nil {
		return Agent{}, err
	}
	return *known, nil
}

// assignWorkspace stores in which workspace an agent works; a deleted one works
// in none.
func (a *Agents) assignWorkspace(e *resource.Edit[Agent]) error {
	var was, is *string
	if e.Old != nil {
		was = e.Old.WorkspaceID
	}
	if e.New != nil {
		is = e.New.WorkspaceID
	}
	if a.workspaces == nil || ptr.Value(was) == ptr.Value(is) {
		return nil
	}
	if id := ptr.Value(is); id != "" && !ident.Valid(id) {
		return fault.NewNotFound("workspace")
	}
	m := e.Old
	if e.New != nil {
		m = e.New
	}
	return a.workspaces.AssignTx(e.Tx, m.TenantID, m.ID, is)
}

// Named returns the ids of the agents that have a name, the newest first, up to
// limit.
func (a *Agents) Named(ctx context.Context, tenant, name string, limit int) ([]string, error) {
	found, err := a.store.List(ctx, tenant, resource.Find{Where: map[string]string{nameIndex: name}, Limit: limit})
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	return ids, err
}

// Published reports whether agents of other systems may find the agent: visitors may
// talk with it, or its a2a is enabled and public.
func (g *Agent) Published() bool {
	if g.Visitable() {
		return true
	}
	c := g.Peers()
	return c.Enabled && c.Public
}

// Visitable reports whether strangers may talk with the agent, while it is active.
func (g *Agent) Visitable() bool {
	return g.Visibility == Public && g.PublicConfig != nil && g.PublicConfig.Enabled
}

// Peers returns how the agent appears to agents of other systems.
func (g *Agent) Peers() (c A2A) {
	if len(g.A2A) > 0 {
		_ = json.Unmarshal(g.A2A, &c) // it was checked when it was stored
	}
	return c
}

// publish stores whether an agent may be found, where a write changes that.
func (a *Agents) publish(e *resource.Edit[Agent]) error {
	was, is := e.Old != nil && e.Old.Published(), e.New != nil && e.New.Published()
	if was == is || a.published == nil {
		return nil
	}
	m := e.Old
	if e.New != nil {
		m = e.New
	}
	return a.published(e.Tx, m.TenantID, m.ID, is)
}
