package app

import (
	"context"
	"io"
	"slices"
	"strings"

	"agentd/internal/agents/agent"
	"agentd/internal/base/config"
	"agentd/internal/base/route"
	"agentd/internal/content/file"
	"agentd/internal/content/knowledge"
	"agentd/internal/content/knowledge/knowledgesql"
	"agentd/internal/content/memory"
	"agentd/internal/content/memory/memorysql"
	"agentd/internal/content/retrieval"
	"agentd/internal/content/retrieval/retrievalsql"
	"agentd/internal/execution/engine"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
	"agentd/internal/kernel/work"
	"agentd/internal/wire/openaiclient"
)

// remembering is what agents remember and know: memories and knowledge bases,
// and the search under both.
type remembering struct {
	app       *App
	queue     work.Queue
	search    *retrieval.Service
	memory    *memory.Service
	knowledge *knowledge.Service
}

// newRemembering makes the parts. The tools among them are needed before there
// are agents; connect gives them the rest.
func (a *App) newRemembering(kernel resource.Deps, queue work.Queue, uploads *file.Service) *remembering {
	files := uploadedFiles{uploads}
	search := retrieval.New(retrieval.Config{
		Store: retrievalsql.New(a.db), Writer: a.db, Queue: queue, Embedder: a.embedder, Clock: a.clock, Log: a.log, Lease: lease,
	})
	return &remembering{
		app: a, queue: queue, search: search,
		memory: &memory.Service{
			Store: memorysql.New(a.db), Search: search, Files: files, Writer: a.db, Queue: queue, Cursors: kernel.Cursors, Clock: a.clock, Log: a.log,
		},
		knowledge: knowledge.New(kernel, knowledge.Service{
			Store: knowledgesql.New(a.db), Search: search, Files: files, Writer: a.db, Cursors: kernel.Cursors, Clock: a.clock, Log: a.log,
		}),
	}
}

// uploadedFiles implements retrieval.Files.
type uploadedFiles struct{ files *file.Service }

func (u uploadedFiles) Read(ctx context.Context, tenant, id string) (retrieval.File, error) {
	f, content, err := u.files.Open(ctx, tenant, id)
	if err != nil {
		return retrieval.File{}, err
	}
	defer content.Close()
	data, err := io.ReadAll(content)
	return retrieval.File{Name: f.Filename, MimeType: f.MimeType, Data: data}, err
}

func (r *remembering) tools() []tool.Tool {
	return slices.Concat(r.memory.Tools(), r.knowledge.Tools())
}

// connect gives the parts what was made after them, and their work its runners.
func (r *remembering) connect(agents *agent.Agents, runs run.Store, models engine.Models, client model.Client, watchers *run.Watchers,
	subscribers *resource.Subscribers, runners map[string]*work.Runner,
) {
	r.memory.Agents, r.memory.Runs, r.memory.Models, r.memory.Client = agents, runs, models, client
	r.knowledge.Agents = agents
	watchers.Add(r.memory.OnRunState)
	subscribers.Subscribe("forget-memories-of-deleted-agents", "agent", []string{resource.Deleted}, func(ctx context.Context, c resource.Change) error {
		return r.memory.Forget(ctx, c.TenantID, c.ID)
	})
	for kind, handle := range map[string]work.Handler{retrieval.WorkKind: r.search.Handle, memory.ExtractKind: r.memory.Extract} {
		runners[kind] = work.NewRunner(work.Config{
			Kind: kind, Owner: r.app.node, Queue: r.queue, Handler: handle, Slots: 8, Lease: lease, Clock: r.app.clock, Logger: r.app.log,
		})
	}
}

func (r *remembering) routes() []route.Route {
	return slices.Concat(r.memory.Routes(), r.knowledge.Routes())
}

// embedderOf makes the client of the embedding model; nil where none is
// configured. The key of the model's endpoint is for that endpoint only.
func embedderOf(c config.Models, wire *openaiclient.Client, breaker *model.Breaker) model.Embedder {
	if c.EmbeddingModel == "" {
		return nil
	}
	target := model.Target{Provider: model.DefaultProvider, Model: c.EmbeddingModel, BaseURL: c.EmbeddingBaseURL, APIKey: c.EmbeddingAPIKey}
	if c.EmbeddingBaseURL == "" {
		target.BaseURL, target.APIKey = c.BaseURL, c.APIKey
		if !c.EmbeddingAPIKey.Empty() {
			target.APIKey = c.EmbeddingAPIKey
		}
	}
	// What people paste after the part that ends in /v1.
	target.BaseURL = strings.TrimSuffix(strings.TrimRight(target.BaseURL, "/"), "/embeddings")
	return breaker.Embedder(wire.Embedder(target), target)
}
