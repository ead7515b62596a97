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
	"agentd/internal/base/route"
	"agentd/internal/base/share"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/quota"
)

// Service implements the operations on workspaces and their files.
type Service struct {
	Table    Table
	Blobs    *blob.Store
	Writer   txn.Writer
	Cursors  *page.Cursors
	Clock    clock.Clock
	Agents   *agent.Agents  // see Connect
	Audit    audit.Recorder // records sharing and deleting; optional
	Quota    quota.Gate     // optional; without it only MaxWorkspaces applies
	Searches *share.Places  // for searching files; optional
	Commands *Commands      // optional; without it there are none
	// Artifact opens an artifact of a run by its name, so that agents can read
	// results that were too long for the conversation. Errors: fault.NotFound.
	Artifact func(ctx context.Context, tenant, run, name string) (mimeType string, content Content, err error)
}

// Connect sets the agents, which are built after the service because they need
// its tools. It is called once, before the first request.
func (s *Service) Connect(agents *agent.Agents) { s.Agents = agents }

// Content is a file that can be read from any position.
type Content interface {
	io.ReadSeekCloser
	Size() int64
}

// Create creates a workspace without an owner. Errors: COUNT_LIMIT_REACHED, and
// those of the quota.
func (s *Service) Create(ctx context.Context, tenant, name string) (*Workspace, error) {
	w := s.blank(tenant, Standalone, nil, name)
	ctx = txn.WithAnswer(ctx, func() any { return w })
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		if s.Quota != nil {
			if err := s.Quota.Reserve(tx, tenant, quota.Workspaces); err != nil {
				return err
			}
		}
		n, err := s.Table.CountTx(tx, tenant, Standalone)
		if err != nil {
			return err
		}
		if n >= MaxWorkspaces {
			return fault.New(fault.Forbidden, "COUNT_LIMIT_REACHED", "Your company has reached the limit of %d workspaces; delete one first.", n)
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

// Check returns fault.NotFound unless the tenant has a workspace.
func (s *Service) Check(ctx context.Context, tenant, id string) error {
	_, err := s.Table.Get(ctx, tenant, id)
	return err
}

// OfAgent returns the workspace that an agent works in: the one that it is
// assigned to, otherwise its own, which is created on first use. Errors:
// fault.NotFound for the agent.
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
	return s.Table.GetByOwner(ctx, tenant, OfAgent, agentID) // created concurrently, perhaps
}

// Rename changes a workspace's name. Errors: fault.NotFound.
func (s *Service) Rename(ctx context.Context, tenant, id, name string) (*Workspace, error) {
	return s.change(ctx, tenant, id, func(tx txn.Tx, w *Workspace) error {
		if err := route.Match(tx.Context(), w); err != nil {
			return err
		}
		w.Name = name
		return nil
	})
}

// change modifies a workspace under its row lock and returns the result.
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

// Assign makes an agent work in a workspace and enables the tools for it.
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

// Unassign ends an assignment. The agent keeps its tools, which then work in its
// own workspace. Errors: fault.NotFound, also for an agent that is assigned
// elsewhere.
func (s *Service) Unassign(ctx context.Context, who authz.Caller, id, agentID string) (*Workspace, error) {
	return s.change(ctx, who.TenantID, id, func(tx txn.Tx, _ *Workspace) error { return s.leave(tx, who, id, agentID) })
}

func (s *Service) leave(tx txn.Tx, who authz.Caller, id, agentID string) error {
	_, err := s.Agents.Store().UpdateTx(tx, who, agentID, func(g *agent.Agent) error {
		if g.WorkspaceID == nil || *g.WorkspaceID != id {
			return fault.NewNotFound("agent in this workspace")
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

// Unshare revokes Share. Errors: fault.NotFound, also if the workspace was not
// shared with the agent.
func (s *Service) Unshare(ctx context.Context, who authz.Caller, id, agentID string) (*Workspace, error) {
	return s.change(ctx, who.TenantID, id, func(tx txn.Tx, _ *Workspace) error {
		was, err := s.Table.DeleteRelationTx(tx, who.TenantID, agentID, Shared, id)
		if err == nil && !was {
			err = fault.NewNotFound("agent with which this workspace is shared")
		}
		if err != nil {
			return err
		}
		return s.record(tx, who, "share_revoked", id)
	})
}

func (s *Service) record(tx txn.Tx, who authz.Caller, action, id string) error {
	return audit.Write(s.Audit, tx, who, audit.Entry{Action: "workspace." + action, TargetType: "workspace", TargetID: id})
}

// batch is how many files one transaction deletes.
const batch = 100

// Delete deletes a workspace with its files. Agents that were assigned to it
// work in their own from then on. Errors: fault.NotFound.
func (s *Service) Delete(ctx context.Context, who authz.Caller, id string) error {
	for more := true; more; {
		err := s.Writer.Write(ctx, func(tx txn.Tx) error {
			w, err := s.Table.LockTx(tx, who.TenantID, id)
			if err != nil {
				return err
			}
			if err := route.Match(tx.Context(), w); err != nil {
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
				// The agent may be deleted concurrently.
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

// AgentDeleted deletes the workspace that a deleted agent owned. If other
// agents are assigned to it, it is kept without an owner.
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

// Listing is the content of a folder.
type Listing struct {
	_ struct{} `json:"-" name:"WorkspaceFileList"`

	WorkspaceID string   `json:"workspace_id" format:"uuid" required:"true"`
	Path        string   `json:"path" required:"true" doc:"The folder. Empty for the root."`
	Directories []string `json:"directories" required:"true" doc:"Paths of the folders in it."`
	Files       []File   `json:"files" required:"true"`
}

// Files lists a folder; dir is a clean path. With deep it includes everything
// below. A folder that does not exist is empty. Errors: fault.NotFound for the
// workspace.
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
		if inTrash(f.Path) {
			continue
		}
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

// Open opens a file; path is clean. Errors: fault.NotFound.
func (s *Service) Open(ctx context.Context, tenant, id, path string) (*File, *blob.Reader, error) {
	// Retry if the file is replaced between reading its record and its content.
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
