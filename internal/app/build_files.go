package app

import (
	"context"

	"agentd/internal/agents/agent"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/content/artifact"
	"agentd/internal/content/artifact/artifactsql"
	"agentd/internal/content/file"
	"agentd/internal/content/file/filesql"
	"agentd/internal/content/workspace"
	"agentd/internal/content/workspace/workspacesql"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/blobsql"
)

// storage is what is made of stored bytes.
type storage struct {
	files      *file.Service
	workspaces *workspace.Service
	artifacts  *artifact.Service
	placement  *workspacesql.Store
}

// buildStorage comes before the agents, whose tools it has; connect follows.
func (a *App) buildStorage(cursors *page.Cursors) *storage {
	blobs := &blob.Store{Table: blobsql.New(a.db), Writer: a.db, Clock: a.clock}
	a.serve(func(ctx context.Context) { blobs.Serve(ctx, a.log) })
	placement := workspacesql.New(a.db)
	s := &storage{
		placement:  placement,
		files:      &file.Service{Files: filesql.New(a.db), Blobs: blobs, Writer: a.db, Cursors: cursors, Clock: a.clock, Audit: a.audit},
		workspaces: &workspace.Service{Table: placement, Blobs: blobs, Writer: a.db, Cursors: cursors, Clock: a.clock, Audit: a.audit},
		artifacts:  &artifact.Service{Table: artifactsql.New(a.db), Blobs: blobs, Clock: a.clock},
	}
	s.workspaces.Artifact = func(ctx context.Context, tenant, runID, name string) (string, workspace.Content, error) {
		mimeType, content, err := s.artifacts.OpenNamed(ctx, tenant, runID, name)
		if err != nil {
			return "", nil, err
		}
		return mimeType, content, nil
	}
	return s
}

// connect gives the storage what was built after it.
func (s *storage) connect(agents *agent.Agents, runs run.Store, subscribers *resource.Subscribers) []route.Route {
	s.workspaces.Agents = agents
	s.artifacts.Exists = func(ctx context.Context, tenant, runID string) error {
		_, err := runs.Get(ctx, tenant, runID)
		return err
	}
	subscribers.Subscribe("delete-workspaces-of-deleted-agents", "agent", []string{resource.Deleted}, func(ctx context.Context, c resource.Change) error {
		return s.workspaces.AgentDeleted(ctx, c.TenantID, c.ID)
	})
	routes := append(s.files.Routes(), s.workspaces.Routes()...)
	return append(routes, s.artifacts.Routes()...)
}
