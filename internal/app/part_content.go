package app

import (
	"context"
	"io"
	"slices"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/share"
	"agentd/internal/content/artifact"
	"agentd/internal/content/artifact/artifactsql"
	"agentd/internal/content/codetool"
	"agentd/internal/content/doctext"
	"agentd/internal/content/file"
	"agentd/internal/content/file/filesql"
	"agentd/internal/content/knowledge"
	"agentd/internal/content/knowledge/knowledgesql"
	"agentd/internal/content/memory"
	"agentd/internal/content/memory/memorysql"
	"agentd/internal/content/retrieval"
	"agentd/internal/content/retrieval/retrievalsql"
	"agentd/internal/content/workspace"
	"agentd/internal/content/workspace/workspacesql"
	"agentd/internal/edge/terminalserver"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/blobsql"
	"agentd/internal/wire/extractor"
)

// content is what agents read, write and remember.
type content struct {
	blobs      *blob.Store
	files      *file.Service
	placement  *workspacesql.Store
	workspaces *workspace.Service
	terminals  *workspace.Terminals
	artifacts  *artifact.Service
	search     *retrieval.Service
	memory     *memory.Service
	knowledge  *knowledge.Service
	code       *codetool.Service
	// reading has the places for making text of what comes from outside: documents,
	// and pages that agents read.
	reading *share.Places
}

// At most four texts are made at once, each of up to 50 MiB, and two for one tenant.
const (
	readers     = 4
	readersEach = 2
	readersWait = 8 * time.Second
)

// newContent comes before the agents, which have its tools; connect follows.
func newContent(p *platform, models *models, accounts *accounts) *content {
	runs := runsql.New(p.db)
	c := &content{
		blobs:     &blob.Store{Table: blobsql.New(p.db), Writer: p.db, Clock: p.clock},
		placement: workspacesql.New(p.db),
	}
	c.files = &file.Service{
		Files: filesql.New(p.db), Blobs: c.blobs, Writer: p.db, Cursors: p.cursors, Clock: p.clock, Audit: p.audit,
		Allowed: p.config.CheckUpload,
	}
	c.artifacts = &artifact.Service{
		Table: artifactsql.New(p.db), Blobs: c.blobs, Clock: p.clock,
		Exists: func(ctx context.Context, tenant, runID string) error {
			_, err := runs.Get(ctx, tenant, runID)
			return err
		},
	}
	commands, opener := workspaceCommands(p)
	c.workspaces = &workspace.Service{
		Table: c.placement, Blobs: c.blobs, Writer: p.db, Cursors: p.cursors, Clock: p.clock, Audit: p.audit, Quota: accounts.usage,
		Artifact: c.openArtifact, Searches: share.New(readers, 1, readersWait), Commands: commands,
	}
	c.terminals = &workspace.Terminals{Workspaces: c.workspaces, Opener: opener}
	c.code = newCodeTool(p, c)
	files := uploadedFiles{c.files}
	texts := &doctext.Extractor{Parse: extractor.Text}
	c.reading = share.New(readers, readersEach, readersWait)
	c.search = retrieval.New(retrieval.Config{
		Store: retrievalsql.New(p.db), Writer: p.db, Queue: p.queue, Embedder: models.embedder, Clock: p.clock, Log: p.log, Lease: lease,
		Memory: p.cfg.Models.SearchMemoryMiB << 20,
	})
	c.memory = &memory.Service{
		Store: memorysql.New(p.db), Search: c.search, Files: files, Texts: texts, Places: c.reading, Writer: p.db,
		Queue: p.queue, Cursors: p.cursors, Clock: p.clock, Log: p.log,
		Runs: runs, Models: models.resolver, Client: models.client, Defaults: p.memoryDefaults,
		Spent: func(ctx context.Context, tenant, agent string, target model.Target, u model.Usage) {
			accounts.usage.RecordDirect(ctx, tenant, agent, quota.SourceMemory, target, u)
		},
	}
	c.knowledge = knowledge.New(p.kernel, knowledge.Service{
		Store: knowledgesql.New(p.db), Search: c.search, Files: files, Texts: texts, Places: c.reading, Writer: p.db,
		Cursors: p.cursors, Clock: p.clock, Log: p.log,
		Quota: accounts.usage, Reranker: models.reranker,
	})
	return c
}

// connect lets content look up agents.
func (c *content) connect(agents *agent.Agents) {
	c.workspaces.Connect(agents)
	c.memory.Connect(agents)
	c.knowledge.Connect(agents)
}

func (c *content) tools() []tool.Tool {
	return slices.Concat(c.workspaces.Tools(), c.memory.Tools(), c.knowledge.Tools(), []tool.Tool{c.code.Tool()})
}

func (c *content) part(p *platform) part {
	return part{
		name: "content",
		routes: slices.Concat(
			c.files.Routes(), c.workspaces.Routes(), c.artifacts.Routes(), c.memory.Routes(), c.knowledge.Routes(),
		),
		endpoints: (&terminalserver.Server{Terminals: c.terminals, Log: p.log}).Endpoints(),
		workers: []worker{
			p.worker(retrieval.WorkKind, 8, c.search.Handle),
			p.worker(memory.ExtractKind, 8, c.memory.Extract),
		},
		watchers: []watcher{{"memory", c.memory.OnRunState}},
		subscribers: []subscriber{
			onAgentDeleted("delete-workspaces-of-deleted-agents", func(ctx context.Context, change agentChange) error {
				return c.workspaces.AgentDeleted(ctx, change.TenantID, change.ID)
			}),
			onAgentDeleted("forget-memories-of-deleted-agents", func(ctx context.Context, change agentChange) error {
				return c.memory.Forget(ctx, change.TenantID, change.ID)
			}),
		},
		services: []service{background(func(ctx context.Context) { c.blobs.Serve(ctx, p.log) })},
	}
}

// openArtifact opens a file that a run made, by its name.
func (c *content) openArtifact(ctx context.Context, tenant, runID, name string) (string, workspace.Content, error) {
	mimeType, opened, err := c.artifacts.OpenNamed(ctx, tenant, runID, name)
	if err != nil {
		return "", nil, err
	}
	return mimeType, opened, nil
}

// uploadedFiles implements retrieval.Files.
type uploadedFiles struct{ files *file.Service }

// Read implements retrieval.Files.
func (u uploadedFiles) Read(ctx context.Context, tenant, id string) (retrieval.File, error) {
	f, opened, err := u.files.Open(ctx, tenant, id)
	if err != nil {
		return retrieval.File{}, err
	}
	defer opened.Close()
	data := make([]byte, opened.Size())
	_, err = io.ReadFull(opened, data)
	return retrieval.File{Name: f.Filename, MimeType: f.MimeType, Data: data}, err
}
