// Package workspace implements workspaces: trees of files that members and
// agents of a tenant share, each with a quota, and the built-in tools for them.
//
// A workspace has no owner, or belongs to an agent, for which it is created on
// first use. An agent works in the workspace that it is assigned to (its
// workspace_id), otherwise in its own; it may read those that are shared with
// it. Every change locks the row of the workspace, so that counts, quotas and
// conditional writes are exact.
package workspace

import (
	"context"
	"time"

	"agentd/internal/base/txn"
)

// Limits of a workspace, and of a tenant.
const (
	MaxFiles      = 10_000
	MaxBytes      = 1 << 30
	MaxWorkspaces = 1000 // of a tenant, not counting those that agents own
)

// Kinds of owners.
const (
	OfAgent    = "agent"
	OfTeam     = "team"
	Standalone = "standalone"
)

// Workspace is a workspace as the API shows it.
type Workspace struct {
	_ struct{} `json:"-" name:"Workspace"`

	WorkspaceID       string    `json:"workspace_id" format:"uuid" required:"true"`
	TenantID          string    `json:"tenant_id" required:"true"`
	OwnerType         string    `json:"owner_type" enum:"agent,team,standalone" required:"true"`
	OwnerID           *string   `json:"owner_id" required:"true" doc:"The owning agent, or null."`
	Name              string    `json:"name" required:"true"`
	SharedWith        []string  `json:"shared_with" required:"true" doc:"Agents that may read it."`
	AssignedAgents    []string  `json:"assigned_agents" required:"true" doc:"Agents that work in it."`
	AssignedTeams     []string  `json:"assigned_teams" required:"true"`
	AssignedCompanies []string  `json:"assigned_companies" required:"true"`
	FileCount         int64     `json:"file_count" required:"true" doc:"Number of files, those in the trash included."`
	TotalSizeBytes    int64     `json:"total_size_bytes" required:"true" doc:"Their bytes together."`
	CreatedAt         time.Time `json:"created_at" required:"true"`
	UpdatedAt         time.Time `json:"updated_at" required:"true"`
}

// Editable implements route.Editable.
func (w *Workspace) Editable() any {
	return struct {
		Name                   string
		SharedWith, AssignedTo []string
	}{w.Name, w.SharedWith, w.AssignedAgents}
}

// File is a file of a workspace. Its content never changes: writing to its path
// replaces it by a new file.
type File struct {
	_ struct{} `json:"-" name:"WorkspaceFile"`

	FileID    string    `json:"file_id" format:"uuid" required:"true"`
	Path      string    `json:"path" required:"true" doc:"Path from the root of the workspace, without a leading slash."`
	Filename  string    `json:"filename" required:"true" doc:"The last part of the path."`
	MimeType  string    `json:"mime_type" required:"true"`
	SizeBytes int64     `json:"size_bytes" required:"true"`
	CreatedAt time.Time `json:"created_at" required:"true" doc:"When this path was first written."`
	UpdatedAt time.Time `json:"updated_at" required:"true"`
	ETag      string    `json:"etag" required:"true" doc:"SHA-256 of the content, in lower-case hex."`
}

// Relation connects an agent with a workspace.
type Relation string

// The relations.
const (
	Assigned Relation = "assigned" // the agent works in it; at most one per agent
	Shared   Relation = "shared"   // the agent may read it
)

// Table is the port to stored workspaces. Workspaces of other tenants are
// fault.NotFound, like absent ones. Lists of files are ordered by path.
type Table interface {
	// CreateTx reports whether it created w: an owner has one workspace.
	CreateTx(tx txn.Tx, w *Workspace) (bool, error)
	// CountTx returns the number of workspaces of a kind of owner.
	CountTx(tx txn.Tx, tenant, ownerType string) (int, error)
	Get(ctx context.Context, tenant, id string) (*Workspace, error)
	// GetByOwner returns an owner's workspace. Errors: fault.NotFound.
	GetByOwner(ctx context.Context, tenant, ownerType, ownerID string) (*Workspace, error)
	// LockTx returns a workspace and locks it until tx ends.
	LockTx(tx txn.Tx, tenant, id string) (*Workspace, error)
	// List returns up to limit workspaces, newest first, after an id.
	List(ctx context.Context, tenant, after string, limit int) ([]Workspace, error)
	// Count returns the number of workspaces that List returns without a limit.
	Count(ctx context.Context, tenant string) (int, error)
	// UpdateTx stores the name, the owner, the counts and the time.
	UpdateTx(tx txn.Tx, w *Workspace) error
	DeleteTx(tx txn.Tx, tenant, id string) error

	CreateRelationTx(tx txn.Tx, tenant, agent string, r Relation, id string) error
	// DeleteRelationTx reports whether the relation existed.
	DeleteRelationTx(tx txn.Tx, tenant, agent string, r Relation, id string) (bool, error)
	// ListShared returns the workspaces that are shared with an agent.
	ListShared(ctx context.Context, tenant, agent string) ([]string, error)
	// DeleteRelationsTx deletes all relations of an agent.
	DeleteRelationsTx(tx txn.Tx, tenant, agent string) error

	// GetFile returns a file by its path. Errors: fault.NotFound.
	GetFile(ctx context.Context, tenant, id, path string) (*File, error)
	// GetFileTx is GetFile in a transaction; nil if there is no file.
	GetFileTx(tx txn.Tx, tenant, id, path string) (*File, error)
	// ListFiles returns up to limit files below a folder.
	ListFiles(ctx context.Context, tenant, id, dir string, limit int) ([]File, error)
	// ListFilesTx is ListFiles in a transaction.
	ListFilesTx(tx txn.Tx, tenant, id, dir string, limit int) ([]File, error)
	// GetFirstFileTx returns the first of paths at which there is a file, or "".
	GetFirstFileTx(tx txn.Tx, tenant, id string, paths []string) (string, error)
	// PutFileTx stores a file at its path and replaces the one there, if any.
	PutFileTx(tx txn.Tx, tenant, id string, f *File) error
	DeleteFileTx(tx txn.Tx, tenant, id, path string) error
}
