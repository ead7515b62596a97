package app

import (
	"context"
	"strings"

	"agentd/internal/agents/agent"
	"agentd/internal/edge/openai"
	"agentd/internal/edge/runstream"
	"agentd/internal/kernel/resource"
	"agentd/internal/teams/team"
)

// agentDirectory lists a tenant's agents for the compatible endpoints.
type agentDirectory struct{ agents *agent.Agents }

// modelDirectory lists a tenant's agents and teams as models.
type modelDirectory struct {
	agentDirectory
	teams *team.Teams
}

// Models implements openai.Models.
func (d modelDirectory) Models(ctx context.Context, tenant string) (out []openai.ModelEntry, err error) {
	err = d.each(ctx, tenant, func(g *agent.Agent) { out = append(out, modelEntry(tenant, g)) })
	if err != nil {
		return nil, err
	}
	err = eachOf(ctx, d.teams.Store(), tenant, func(t *team.Team) string {
		out = append(out, teamEntry(tenant, t))
		return t.ID
	})
	return out, err
}

// each visits every agent of a tenant, the newest first.
func (d agentDirectory) each(ctx context.Context, tenant string, visit func(*agent.Agent)) error {
	return eachOf(ctx, d.agents.Store(), tenant, func(g *agent.Agent) string {
		visit(g)
		return g.ID
	})
}

// eachOf visits all of a kind, the newest first. visit returns the id.
func eachOf[T any](ctx context.Context, store *resource.Store[T], tenant string, visit func(*T) string) error {
	find := resource.Find{Limit: 500, Page: true}
	for {
		page, err := store.List(ctx, tenant, find)
		if err != nil {
			return err
		}
		for _, one := range page {
			find.After = visit(one)
		}
		if len(page) == 0 {
			return nil
		}
	}
}

// Model implements openai.Models.
func (d modelDirectory) Model(ctx context.Context, tenant, id string) (openai.ModelEntry, error) {
	if team, ok := strings.CutPrefix(id, runstream.TeamPrefix); ok {
		t, err := d.teams.Store().Get(ctx, tenant, team)
		if err != nil {
			return openai.ModelEntry{}, err
		}
		return teamEntry(tenant, t), nil
	}
	g, err := d.agents.Get(ctx, tenant, id)
	if err != nil {
		return openai.ModelEntry{}, err
	}
	return modelEntry(tenant, &g), nil
}

func teamEntry(tenant string, t *team.Team) openai.ModelEntry {
	return openai.NewModelEntry(runstream.TeamPrefix+t.ID, tenant, t.Name, t.CreatedAt.Unix())
}

func modelEntry(tenant string, g *agent.Agent) openai.ModelEntry {
	return openai.NewModelEntry(g.ID, tenant, g.Name, g.CreatedAt.Unix())
}
