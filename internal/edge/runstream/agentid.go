package runstream

import (
	"context"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
)

// AgentPrefix may precede an agent in a model name.
const AgentPrefix = "agent/"

// AgentNames finds agents by name.
type AgentNames interface {
	// Named returns the ids of the agents that have a name, up to limit.
	Named(ctx context.Context, tenant, name string, limit int) (ids []string, err error)
}

// maxNamesakes is how many agents of one name a refusal lists.
const maxNamesakes = 5

// AgentID returns the id of the agent that a client names as its model: by id, or
// by a name that one agent of the tenant has, each with or without the prefix
// agent/. A team is named by team/ and its id, and returned so. Errors: fault.NotFound.
func (r *Runner) AgentID(ctx context.Context, tenant, model string) (string, error) {
	if id := r.teamOf(model); id != "" {
		return teamID(model, id)
	}
	name := strings.TrimPrefix(model, AgentPrefix)
	if ident.Valid(name) {
		return name, nil
	}
	if name == "" { // a filter by no name would find every agent
		return "", fault.New(fault.NotFound, "model_not_found",
			"The model is empty; it is an agent's id or name, optionally with the prefix agent/, or team/ and a team's id. "+
				"GET /v1/models lists them.")
	}
	ids, err := r.Names.Named(ctx, tenant, name, maxNamesakes)
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return "", NoAgent(model)
	case len(ids) > 1:
		return "", fault.New(fault.NotFound, "model_not_found",
			"Several agents have the name %q; use the id of one: %s.", name, strings.Join(ids, ", "))
	}
	return ids[0], nil
}

// NoAgent is the refusal of a model name that is no agent's.
func NoAgent(model string) error {
	return fault.New(fault.NotFound, "model_not_found",
		"No agent %q exists in this company; a model is an agent's id or name, optionally with the prefix agent/, or team/ and a "+
			"team's id. GET /v1/models lists them.", model)
}
