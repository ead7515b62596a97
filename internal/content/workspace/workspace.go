// Package workspace is where agents keep files: folders that a tenant's people
// and agents share, each with a quota, and the tools by which agents use them
// (behaviours.md section 17; decisions.md D13).
//
// A workspace stands alone, or belongs to an agent, for which it is made when
// it is first used. An agent works in the workspace that it is assigned to
// (its workspace_id), otherwise in its own; it may read those that are shared
// with it. Whatever changes a workspace holds its row, so that counts, quotas
// and conditional writes are exact.
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
	MaxWorkspaces = 1000 // of a tenant, those of agents apart
)

// Kinds of owners.
const (
	OfAgent    = "agent"
	OfTeam     = "team"
	Standalone = "standalone"
)

// Workspace is one as callers see it.
type Workspace struct {
	_ struct{} `json:"-" name:"Workspace"`

	WorkspaceID       string    `json:"workspace_id" format:"uuid" required:"true"`
	TenantID          string    `json:"tenant_id" required:"true"`
	OwnerType         string    `json:"owner_type" enum:"agent,team,standalone" required:"true"`
	OwnerID           *string   `json:"owner_id" required:"true" doc:"The agent whose own it is; null of one that stands alone."`
	Name              string    `json:"name" required:"true"`
	SharedWith        []string  `json:"shared_with" required:"true" doc:"Agents that may read it."`
	AssignedAgents    []string  `json:"assigned_agents" required:"true" doc:"Agents that work in it."`
	AssignedTeams     []string  `json:"assigned_teams" required:"true"`
	AssignedCompanies []string  `json:"assigned_companies" required:"true"`
	FileCount         int64     `json:"file_count" required:"true"`
	TotalSizeBytes    int64     `json:"total_size_bytes" required:"true"`
	CreatedAt         time.Time `json:"created_at" required:"true"`
	UpdatedAt         time.Time `json:"updated_at" required:"true"`
}

// File is a file of a workspace. Its content never changes: writing to its
// path makes a new one in its place.
type File struct {
	_ struct{} `json:"-" name:"WorkspaceFile"`

	FileID    string    `json:"file_id" format:"uuid" required:"true"`
	Path      string    `json:"path" required:"true" doc:"From the workspace's root, without a slash in front."`
	Filename  string    `json:"filename" required:"true" doc:"The last part of the path."`
	MimeType  string    `json:"mime_type" required:"true"`
	SizeBytes int64     `json:"size_bytes" required:"true"`
	CreatedAt time.Time `json:"created_at" required:"true" doc:"When the first file was written to this path."`
	UpdatedAt time.Time `json:"updated_at" required:"true"`
	ETag      string    `json:"etag" required:"true" doc:"SHA-256 of the content, in lower-case hex."`
}

// Relation is what an agent is to a workspace.
type Relation string

// The relations.
const (
	Assigned Relation = "assigned" // it works in it; an agent has one such
	Shared   Relation = "shared"   // it may read it
)

// Table is the port to stored workspaces. Another tenant's is fault.NotFound,
// as an absent one is. Lists of files are in the order of their paths.
type Table interface {
	// CreateTx says whether it did: an owner has one workspace.
	CreateTx(tx txn.Tx, w *Workspace) (bool, error)
	// CountTx gives how many there are of a kind of owner.
	CountTx(tx txn.Tx, tenant, ownerType string) (int, error)
	Get(ctx context.Context, tenant, id string) (*Workspace, error)
	// GetByOwner reads an owner's. Errors: fault.NotFound.
	GetByOwner(ctx context.Context, tenant, ownerType, ownerID string) (*Workspace, error)
	// LockTx reads one that nobody else changes before tx ends.
	LockTx(tx txn.Tx, tenant, id string) (*Workspace, error)
	// List gives up to limit, newest first, behind an id.
	List(ctx context.Context, tenant, after string, limit int) ([]Workspace, error)
	// Count is how many List would give without a limit.
	Count(ctx context.Context, tenant string) (int, error)
	// UpdateTx stores the name, the owner, the counts and the time.
	UpdateTx(tx txn.Tx, w *Workspace) error
	DeleteTx(tx txn.Tx, tenant, id string) error

	CreateRelationTx(tx txn.Tx, tenant, agent string, r Relation, id string) error
	// DeleteRelationTx says whether there was such a relation.
	DeleteRelationTx(tx txn.Tx, tenant, agent string, r Relation, id string) (bool, error)
	// ListShared lists the workspaces that an agent may read.
	ListShared(ctx context.Context, tenant, agent string) ([]string, error)
	// DeleteRelationsTx removes every relation of an agent.
	DeleteRelationsTx(tx txn.Tx, tenant, agent string) error

	// GetFile reads one by its path. Errors: fault.NotFound.
	GetFile(ctx context.Context, tenant, id, path string) (*File, error)
	// GetFileTx is File inside the transaction; nil where there is none.
	GetFileTx(tx txn.Tx, tenant, id, path string) (*File, error)
	// ListFiles lists up to limit files in a folder and its folders.
	ListFiles(ctx context.Context, tenant, id, dir string, limit int) ([]File, error)
	// ListFilesTx is Below inside the transaction.
	ListFilesTx(tx txn.Tx, tenant, id, dir string, limit int) ([]File, error)
	// GetFirstFileTx gives the first of paths that is a file's; "" where none is.
	GetFirstFileTx(tx txn.Tx, tenant, id string, paths []string) (string, error)
	// PutFileTx stores a file under its path, in place of another or not.
	PutFileTx(tx txn.Tx, tenant, id string, f *File) error
	DeleteFileTx(tx txn.Tx, tenant, id, path string) error
}
