package app

import (
	"context"
	"slices"

	"agentd/internal/agents/agent"
	"agentd/internal/edge/agui"
	"agentd/internal/edge/anthropic"
	"agentd/internal/edge/audio"
	"agentd/internal/edge/console"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/mcpserver"
	"agentd/internal/edge/openai"
	"agentd/internal/edge/pagechat"
	"agentd/internal/edge/runstream"
	"agentd/internal/edge/uistream"
	"agentd/internal/edge/webpage"
	"agentd/internal/kernel/model"
	"agentd/internal/teams/teamrun"
)

// compatPart is the endpoints that have the shapes of other APIs (OpenAI's,
// Anthropic's and MCP), and the pages for browsers.
func compatPart(p *platform, models *models, agents *agents, execution *execution, content *content, grouped *teams) part {
	directory := agentDirectory{agents.agents}
	complete := &runstream.Runner{
		Runs: execution.runs, Agents: agents.source, Names: agents.agents, Log: execution.events, Hub: p.hub, Complete: true,
		Teams: teamrun.Model{Service: grouped.runs},
	}
	chat := &openai.Chat{Runner: complete, Models: modelDirectory{directory, grouped.teams}}
	messages := &anthropic.Messages{Proxy: agents.proxy, Reserved: models.messagesModel, Runner: complete}
	sound := &audio.Audio{
		Proxy: agents.proxy, Client: models.limiter, Catalogue: models.catalogue,
		Speech:        func() string { return models.admin.Voice().Speech },
		Transcription: func() string { return models.admin.Voice().Transcription }, Preset: models.presetOf,
	}
	mcpEndpoint := &mcpserver.Server{
		Runner: &runstream.Runner{Runs: execution.runs, Agents: agents.source, Log: execution.events, Hub: p.hub},
		Agents: agentTools{directory}, Version: contractVersion, Authorizations: agents.servers,
		PublicURL: p.publicURL,
	}
	pages := &pagechat.Chats{Runner: complete, Runs: execution.runs, Sessions: execution.sessions}
	return part{
		name: "compat",
		endpoints: slices.Concat(
			chat.Routes(), (&openai.ChatProxy{Proxy: agents.proxy}).Routes(), messages.Routes(), embeddings(models, agents).Routes(), sound.Routes(),
			console.Console{PublicURL: p.publicURL}.Routes(), webpage.Pages{PublicURL: p.publicURL}.Routes(),
			webpage.Shared{Read: execution.sessions.ReadShared, PublicURL: p.publicURL}.Routes(),
			(&openai.Responses{Runner: complete, Chains: execution.chains, Stores: content.knowledge}).Routes(),
			(&openai.Files{Service: content.files}).Routes(), (&openai.VectorStores{Bases: content.knowledge}).Routes(), mcpEndpoint.Routes(),
			(&agui.Server{Chats: pages}).Routes(), (&uistream.Server{Chats: pages}).Routes(),
		),
	}
}

// compatFamilies returns the paths whose clients know the errors of another API.
func compatFamilies() []httpapi.Family {
	return []httpapi.Family{
		{Under: "/v1", Fail: openai.Fail},
		{Under: "/v1/messages", Fail: anthropic.Fail},
	}
}

// embeddings serves the operator's embedding model.
func embeddings(models *models, agents *agents) *openai.Embeddings {
	c := models.cfg
	e := &openai.Embeddings{
		Model: models.embedder, Proxy: agents.proxy, Target: model.Target{Provider: model.DefaultProvider, Model: c.EmbeddingModel},
	}
	if c.EmbeddingBaseURL != "" {
		e.Target.Provider = "embeddings" // an endpoint that is not among the providers
	} else if listed, err := models.catalogue.Lookup(model.DefaultProvider + "/" + c.EmbeddingModel); err == nil {
		e.Target.Price = listed.Price
	}
	return e
}

// agentTools lists agents as tools of the platform's own MCP server.
type agentTools struct{ agentDirectory }

var _ mcpserver.Agents = agentTools{}

// List implements mcpserver.Agents.
func (l agentTools) List(ctx context.Context, tenant string) (out []mcpserver.Agent, err error) {
	err = l.each(ctx, tenant, func(g *agent.Agent) {
		if g.Status == agent.Active {
			out = append(out, mcpserver.Agent{ID: g.ID, Name: g.Name, Description: g.Description})
		}
	})
	return out, err
}

// Get implements mcpserver.Agents.
func (l agentTools) Get(ctx context.Context, tenant, id string) (mcpserver.Agent, error) {
	g, err := l.agents.Get(ctx, tenant, id)
	return mcpserver.Agent{ID: g.ID, Name: g.Name, Description: g.Description}, err
}
