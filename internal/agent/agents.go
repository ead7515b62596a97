package agent

import (
	"context"

	"agentd/internal/resource"
)

// Agents keeps agents and their versions.
type Agents struct {
	deps     resource.Deps
	store    *resource.Store[Agent]
	versions *resource.Store[version]
	recent   *recent
}

// New makes the store of agents.
func New(deps resource.Deps, o Options) *Agents {
	a := &Agents{deps: deps}
	a.store = resource.NewStore(a.kind(o), deps)
	quiet := deps
	quiet.Outbox = resource.NoOutbox{} // versions follow from what agents tell
	a.versions = resource.NewStore(versionKind, quiet)
	a.recent = newRecent()
	return a
}

// Store gives the agents as resources, for writes and lists by other slices.
func (a *Agents) Store() *resource.Store[Agent] { return a.store }

// Get reads an agent: as it is now where this process changed it last, and
// else as it was at most a second ago. What it points to is shared with other
// callers: it must not be changed. Errors: fault.NotFound.
func (a *Agents) Get(ctx context.Context, tenant, id string) (Agent, error) {
	key, now := agentKey{tenant, id}, a.deps.Clock.Now()
	known, fresh, generation := a.recent.find(key, now)
	if fresh {
		return *known, nil
	}
	doc, err := a.store.Read(ctx, tenant, id)
	if err != nil {
		return Agent{}, err
	}
	if known == nil || known.Version != doc.Version {
		if known, err = a.store.Decode(doc); err != nil {
			return Agent{}, err
		}
	}
	a.recent.keep(key, known, len(doc.Body), now, generation)
	return *known, nil
}
