package workspace

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/quota"
)

// Service is what callers and agents can do with workspaces.
type Service struct {
	Table   Table
	Blobs   *blob.Store
	Writer  txn.Writer
	Cursors *page.Cursors
	Clock   clock.Clock
	Agents  *agent.Agents  // see Connect
	Audit   audit.Recorder // told who shares and deletes what; nil: nobody
	Quota   quota.Gate     // nil: only MaxWorkspaces counts
	// Artifact opens a file that a run made, by its name, so that agents can
	// read what was too long for a tool's result. Errors: fault.NotFound.
	Artifact func(ctx context.Context, tenant, run, name string) (mimeType string, content Content, err error)
}

// Connect sets the agents, which are built after the service because they need
// its tools. It is called once, before the first request.
func (s *Service) Connect(agents *agent.Agents) { s.Agents = agents }

// Content is bytes that can be read from anywhere.
type Content interface {
	io.ReadSeekCloser
	Size() int64
}

// Create makes a workspace that stands alone.
func (s *Service) Create(ctx context.Context, tenant, name string) (*Workspace, error) {
	w := s.blank(tenant, Standalone, nil, name)
	ctx = txn.Promise(ctx, func() any { return w })
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		if s.Quota != nil {
			if err := s.Quota.Take(tx, tenant, quota.Workspaces); err != nil {
				return err
			}
		}
		n, err := s.Table.CountTx(tx, tenant, Standalone)
		if err != nil {
			return err
		}
		if n >= MaxWorkspaces {
			return fault.New(fault.Forbidden, "COUNT_LIMIT_REACHED", "There are %d workspaces already, which is as many as a company may have; delete one first.", n)
		}
		_, err = s.Table.CreateTx(tx, w)
		return err
	})
	return w, err
}

func (s *Service) blank(tenant, ownerType string, owner *string, name string) *Workspace {
	now := s.Clock.Now()
	return &Workspace{
		WorkspaceID: ident.New(), TenantID: tenant, OwnerType: ownerType, OwnerID: owner, Name: name,
		SharedWith: []string{}, AssignedAgents: []string{}, AssignedTeams: []string{}, AssignedCompanies: []string{},
		CreatedAt: now, UpdatedAt: now,
	}
}

// OfAgent gives the workspace that an agent works in, and makes its own where
// it has none. Errors: fault.NotFound for the agent.
func (s *Service) OfAgent(ctx context.Context, tenant, agentID string) (*Workspace, error) {
	g, err := s.Agents.Get(ctx, tenant, agentID)
	if err != nil {
		return nil, err
	}
	if g.WorkspaceID != nil && *g.WorkspaceID != "" {
		w, err := s.Table.Get(ctx, tenant, *g.WorkspaceID)
		if !fault.Is(err, fault.NotFound) {
			return w, err
		}
	}
	w, err := s.Table.GetByOwner(ctx, tenant, OfAgent, agentID)
	if !fault.Is(err, fault.NotFound) {
		return w, err
	}
	w = s.blank(tenant, OfAgent, &agentID, "Workspace of "+g.Name)
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		_, err := s.Table.CreateTx(tx, w)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.Table.GetByOwner(ctx, tenant, OfAgent, agentID) // somebody else's, perhaps
}

// Rename changes a workspace's name. Errors: fault.NotFound.
func (s *Service) Rename(ctx context.Context, tenant, id, name string) (*Workspace, error) {
	return s.change(ctx, tenant, id, func(_ txn.Tx, w *Workspace) error {
		w.Name = name
		return nil
	})
}

// change is a write to a workspace's row, and gives what it is then.
func (s *Service) change(ctx context.Context, tenant, id string, do func(txn.Tx, *Workspace) error) (*Workspace, error) {
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		w, err := s.Table.LockTx(tx, tenant, id)
		if err != nil {
			return err
		}
		if err := do(tx, w); err != nil {
			return err
		}
		w.UpdatedAt = s.Clock.Now()
		return s.Table.UpdateTx(tx, w)
	})
	if err != nil {
		return nil, err
	}
	return s.Table.Get(ctx, tenant, id)
}

// Assign has an agent work in a workspace, and gives it the tools for that.
// Errors: fault.NotFound for the workspace or the agent.
func (s *Service) Assign(ctx context.Context, who authz.Caller, id, agentID string) (*Workspace, error) {
	return s.change(ctx, who.TenantID, id, func(tx txn.Tx, _ *Workspace) error {
		_, err := s.Agents.Store().UpdateTx(tx, who, agentID, func(g *agent.Agent) error {
			g.WorkspaceID = &id
			for _, name := range ToolNames {
				if !slices.Contains(g.BuiltInTools, name) {
					g.BuiltInTools = append(g.BuiltInTools, name)
				}
			}
			return nil
		})
		return err
	})
}

// Unassign takes an agent out of a workspace. Its tools stay: they act on its
// own from now on. Errors: fault.NotFound, also of an agent that works
// elsewhere.
func (s *Service) Unassign(ctx context.Context, who authz.Caller, id, agentID string) (*Workspace, error) {
	return s.change(ctx, who.TenantID, id, func(tx txn.Tx, _ *Workspace) error { return s.leave(tx, who, id, agentID) })
}

func (s *Service) leave(tx txn.Tx, who authz.Caller, id, agentID string) error {
	_, err := s.Agents.Store().UpdateTx(tx, who, agentID, func(g *agent.Agent) error {
		if g.WorkspaceID == nil || *g.WorkspaceID != id {
			return fault.NoSuch("agent in this workspace")
		}
		g.WorkspaceID = nil
		return nil
	})
	return err
}

// Share lets an agent read a workspace. Errors: fault.NotFound.
func (s *Service) Share(ctx context.Context, who authz.Caller, id, agentID string) (*Workspace, error) {
	return s.change(ctx, who.TenantID, id, func(tx txn.Tx, _ *Workspace) error {
		if _, err := s.Agents.Store().GetTx(tx, who.TenantID, agentID); err != nil {
			return err
		}
		if err := s.Table.CreateRelationTx(tx, who.TenantID, agentID, Shared, id); err != nil {
			return err
		}
		return s.record(tx, who, "shared", id)
	})
}

// Unshare takes that back. Errors: fault.NotFound, also where it was not
// shared.
func (s *Service) Unshare(ctx context.Context, who authz.Caller, id, agentID string) (*Workspace, error) {
	return s.change(ctx, who.TenantID, id, func(tx txn.Tx, _ *Workspace) error {
		was, err := s.Table.DeleteRelationTx(tx, who.TenantID, agentID, Shared, id)
		if err == nil && !was {
			err = fault.NoSuch("agent with which this workspace is shared")
		}
		if err != nil {
			return err
		}
		return s.record(tx, who, "share_revoked", id)
	})
}

func (s *Service) record(tx txn.Tx, who authz.Caller, action, id string) error {
	return audit.Tell(s.Audit, tx, who, audit.Entry{Action: "workspace." + action, TargetType: "workspace", TargetID: id})
}

// batch is how many files go in one transaction, where many are deleted.
const batch = 100

// Delete removes a workspace with its files. Agents that worked in it work in
// their own from now on. Errors: fault.NotFound.
func (s *Service) Delete(ctx context.Context, who authz.Caller, id string) error {
	for more := true; more; {
		err := s.Writer.Write(ctx, func(tx txn.Tx) error {
			w, err := s.Table.LockTx(tx, who.TenantID, id)
			if err != nil {
				return err
			}
			more, err = s.deleteBelow(tx, w, "")
			if err != nil {
				return err
			}
			if more {
				return s.Table.UpdateTx(tx, w)
			}
			for _, agentID := range w.AssignedAgents {
				// One that was deleted at this moment is no obstacle.
				if err := s.leave(tx, who, id, agentID); err != nil && !fault.Is(err, fault.NotFound) {
					return err
				}
			}
			if err := s.record(tx, who, "deleted", id); err != nil {
				return err
			}
			return s.Table.DeleteTx(tx, who.TenantID, id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// AgentDeleted removes what was a deleted agent's own. Where other agents work
// in it, it stands alone from now on.
func (s *Service) AgentDeleted(ctx context.Context, tenant, agentID string) error {
	err := s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Table.DeleteRelationsTx(tx, tenant, agentID) })
	if err != nil {
		return err
	}
	w, err := s.Table.GetByOwner(ctx, tenant, OfAgent, agentID)
	if err != nil {
		return ignoreAbsent(err)
	}
	if len(w.AssignedAgents) > 0 {
		_, err := s.change(ctx, tenant, w.WorkspaceID, func(_ txn.Tx, w *Workspace) error {
			w.OwnerType, w.OwnerID = Standalone, nil
			return nil
		})
		return ignoreAbsent(err)
	}
	return ignoreAbsent(s.Delete(ctx, authz.Caller{TenantID: tenant}, w.WorkspaceID))
}

func ignoreAbsent(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Listing is a folder's content.
type Listing struct {
	_ struct{} `json:"-" name:"WorkspaceFileList"`

	WorkspaceID string   `json:"workspace_id" format:"uuid" required:"true"`
	Path        string   `json:"path" required:"true" doc:"The folder; empty for the root."`
	Directories []string `json:"directories" required:"true" doc:"Paths of the folders in it."`
	Files       []File   `json:"files" required:"true"`
}

// Files lists a folder, whose path is clean, with everything below it where
// deep. A folder without files is not there, and empty.
func (s *Service) Files(ctx context.Context, tenant, id, dir string, deep bool) (*Listing, error) {
	if _, err := s.Table.Get(ctx, tenant, id); err != nil {
		return nil, err
	}
	files, err := s.Table.ListFiles(ctx, tenant, id, dir, MaxFiles)
	if err != nil {
		return nil, err
	}
	l := &Listing{WorkspaceID: id, Path: dir, Directories: []string{}, Files: []File{}}
	seen := map[string]bool{}
	for _, f := range files {
		inside := strings.TrimPrefix(strings.TrimPrefix(f.Path, dir), "/")
		direct := true
		for _, folder := range parents(inside) {
			if direct || deep {
				path := strings.TrimPrefix(dir+"/"+folder, "/")
				if !seen[path] {
					seen[path] = true
					l.Directories = append(l.Directories, path)
				}
			}
			direct = false
		}
		if direct || deep {
			l.Files = append(l.Files, f)
		}
	}
	slices.Sort(l.Directories)
	return l, nil
}

// Open reads a file, whose path is clean. Errors: fault.NotFound.
func (s *Service) Open(ctx context.Context, tenant, id, path string) (*File, *blob.Reader, error) {
	// A file that is replaced between its record and its content is read anew.
	for attempt := 0; ; attempt++ {
		f, err := s.Table.GetFile(ctx, tenant, id, path)
		if err != nil {
			return nil, nil, err
		}
		r, err := s.Blobs.Open(ctx, tenant, f.ETag)
		if err == nil || !fault.Is(err, fault.NotFound) {
			return f, r, err
		}
		if attempt == 2 {
			return nil, nil, errors.Join(fault.Changed("file"), err)
		}
	}
}
