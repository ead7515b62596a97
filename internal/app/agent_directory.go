package app

import (
	"context"

	"agentd/internal/agents/agent"
	"agentd/internal/edge/openai"
	"agentd/internal/kernel/resource"
)

// agentDirectory lists a tenant's agents for the compatible endpoints.
type agentDirectory struct{ agents *agent.Agents }

// Models implements openai.Models.
func (d agentDirectory) Models(ctx context.Context, tenant string) (out []openai.ModelEntry, err error) {
	err = d.each(ctx, tenant, func(g *agent.Agent) { out = append(out, modelEntry(tenant, g)) })
	return out, err
}

// each visits every agent of a tenant, the newest first.
func (d agentDirectory) each(ctx context.Context, tenant string, visit func(*agent.Agent)) error {
	find := resource.Find{Limit: 500, Page: true}
	for {
		page, err := d.agents.Store().List(ctx, tenant, find)
		if err != nil {
			return err
		}
		for _, g := range page {
			visit(g)
		}
		if len(page) == 0 {
			return nil
		}
		find.After = page[len(page)-1].ID
	}
}

// Model implements openai.Models.
func (d agentDirectory) Model(ctx context.Context, tenant, id string) (openai.ModelEntry, error) {
	g, err := d.agents.Get(ctx, tenant, id)
	if err != nil {
		return openai.ModelEntry{}, err
	}
	return modelEntry(tenant, &g), nil
}

func modelEntry(tenant string, g *agent.Agent) openai.ModelEntry {
	return openai.NewModelEntry(g.ID, tenant, g.Name, g.CreatedAt.Unix())
}
