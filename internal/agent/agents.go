package agent

import (
	"context"

	"github.com/maypok86/otter/v2"

	"agentd/internal/resource"
)

// Agents keeps agents and their versions.
type Agents struct {
	deps     resource.Deps
	store    *resource.Store[Agent]
	versions *resource.Store[version]
	decoded  *otter.Cache[agentKey, decoded]
}

type agentKey struct{ tenant, id string }

type decoded struct {
	agent *Agent
	bytes int // of its JSON
}

// decodedBytes bounds the cache of decoded agents, by the size of their JSON.
const decodedBytes = 8 << 20

// New makes the store of agents.
func New(deps resource.Deps, o Options) *Agents {
	a := &Agents{deps: deps}
	a.store = resource.NewStore(a.kind(o), deps)
	quiet := deps
	quiet.Outbox = resource.NoOutbox{} // versions follow from what agents tell
	a.versions = resource.NewStore(versionKind, quiet)
	a.decoded = otter.Must(&otter.Options[agentKey, decoded]{
		MaximumWeight: decodedBytes,
		Weigher:       func(_ agentKey, d decoded) uint32 { return uint32(d.bytes) },
	})
	return a
}

// Store gives the agents as resources, for writes and lists by other slices.
func (a *Agents) Store() *resource.Store[Agent] { return a.store }

// Get reads an agent as it is now. What it points to is shared with other
// callers: it must not be changed. Errors: fault.NotFound.
func (a *Agents) Get(ctx context.Context, tenant, id string) (Agent, error) {
	doc, err := a.store.Read(ctx, tenant, id)
	if err != nil {
		return Agent{}, err
	}
	key := agentKey{tenant, id}
	if d, ok := a.decoded.GetIfPresent(key); ok && d.agent.Version == doc.Version {
		return *d.agent, nil
	}
	g, err := a.store.Decode(doc)
	if err != nil {
		return Agent{}, err
	}
	a.decoded.Set(key, decoded{g, len(doc.Body)})
	return *g, nil
}
