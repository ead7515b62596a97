package agent

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
)

// Lineage says which agent made an agent. It stands in the agent's metadata,
// so that versions, lists and clients have it as they have the rest.
type Lineage struct {
	ParentID     string `json:"parent_agent_id"`
	Depth        int    `json:"spawn_depth"`             // 1 for a child of an agent that a person made
	SpawnedBy    string `json:"spawned_by,omitzero"`     // the user whose key asked for it
	SpawnedByRun string `json:"spawned_by_run,omitzero"` // or the run of the parent that did
	Role         string `json:"role,omitzero"`           // what it is for
}

// Lineage of an agent that no agent made is zero. Metadata is its owner's: what
// does not look like a lineage is none.
func (g *Agent) Lineage() Lineage { return lineageOf(g.Metadata) }

func lineageOf(metadata schema.Object) (l Lineage) {
	if len(metadata) <= len("{}") {
		return Lineage{}
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(metadata, &members) != nil {
		return Lineage{}
	}
	for name, into := range map[string]any{
		"parent_agent_id": &l.ParentID, "spawn_depth": &l.Depth, "spawned_by": &l.SpawnedBy, "spawned_by_run": &l.SpawnedByRun, "role": &l.Role,
	} {
		if members[name] != nil && json.Unmarshal(members[name], into) != nil {
			return Lineage{}
		}
	}
	if !ident.Valid(l.ParentID) {
		return Lineage{}
	}
	l.Depth = max(l.Depth, 1)
	return l
}
