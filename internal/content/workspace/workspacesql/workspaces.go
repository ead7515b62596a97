// Package workspacesql keeps workspaces, their files and their agents on SQL.
package workspacesql

import (
	"context"
	"database/sql"
	"errors"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/content/workspace"
	"agentd/internal/store/sqldb"
)

// Store keeps workspaces, their agents and their files. It implements
// workspace.Table.
type Store struct{ db *sqldb.DB }

var _ workspace.Table = (*Store)(nil)

// New uses the tables of migration 5.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	workspaceColumns = `workspace_id, owner_type, owner_id, name, file_count, total_size, created_at, updated_at`
	selectWorkspaces = `SELECT ` + workspaceColumns + ` FROM workspaces WHERE tenant_id = ?`
)

var (
	insertWorkspace = sqldb.Insert(`workspaces`, `tenant_id, `+workspaceColumns) + ` ON CONFLICT DO NOTHING`
	insertRelation  = sqldb.Insert(`workspace_agents`, `tenant_id, agent_id, relation, workspace_id`) + ` ON CONFLICT DO NOTHING`
	putFile         = sqldb.Insert(`workspace_files`, `tenant_id, workspace_id, `+fileColumns) +
		` ON CONFLICT (tenant_id, workspace_id, path) DO UPDATE SET ` +
		sqldb.Excluded(`file_id, mime_type, size, sha256, created_at, updated_at`)
)

// CreateTx implements workspace.Table.
func (s *Store) CreateTx(tx txn.Tx, w *workspace.Workspace) (bool, error) {
	n, err := sqldb.From(tx).Exec(insertWorkspace,
		w.TenantID, w.WorkspaceID, w.OwnerType, orEmpty(w.OwnerID), w.Name, 0, 0, sqldb.Micros(w.CreatedAt), sqldb.Micros(w.UpdatedAt))
	return n == 1, err
}

func orEmpty(id *string) string {
	if id == nil {
		return ""
	}
	return *id
}

// CountTx implements workspace.Table.
func (s *Store) CountTx(tx txn.Tx, tenant, ownerType string) (n int, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT COUNT(*) FROM workspaces WHERE tenant_id = ? AND owner_type = ?`, tenant, ownerType).Scan(&n)
	return n, err
}

// Get implements workspace.Table.
func (s *Store) Get(ctx context.Context, tenant, id string) (*workspace.Workspace, error) {
	w, err := scanWorkspace(tenant, s.db.QueryRow(ctx, selectWorkspaces+` AND workspace_id = ?`, tenant, id))
	if err != nil {
		return nil, err
	}
	return w, s.relations(ctx, tenant, w)
}

// GetByOwner implements workspace.Table.
func (s *Store) GetByOwner(ctx context.Context, tenant, ownerType, ownerID string) (*workspace.Workspace, error) {
	w, err := scanWorkspace(tenant, s.db.QueryRow(ctx, selectWorkspaces+` AND owner_type = ? AND owner_id = ? AND owner_id <> ''`,
		tenant, ownerType, ownerID))
	if err != nil {
		return nil, err
	}
	return w, s.relations(ctx, tenant, w)
}

// LockTx implements workspace.Table.
func (s *Store) LockTx(tx txn.Tx, tenant, id string) (*workspace.Workspace, error) {
	t := sqldb.From(tx)
	w, err := scanWorkspace(tenant, t.QueryRow(selectWorkspaces+` AND workspace_id = ?`+t.ForUpdate(), tenant, id))
	if err != nil {
		return nil, err
	}
	rows, err := t.Query(selectRelations, tenant, id, id)
	return w, related(rows, err, w)
}

// List implements workspace.Table.
func (s *Store) List(ctx context.Context, tenant, after string, limit int) ([]workspace.Workspace, error) {
	query, args := selectWorkspaces, []any{tenant}
	if after != "" {
		query += ` AND workspace_id < ?`
		args = append(args, after)
	}
	rows, err := s.db.Query(ctx, query+` ORDER BY workspace_id DESC LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []workspace.Workspace{}
	for rows.Next() {
		w, err := scanWorkspace(tenant, rows)
		if err != nil {
			return nil, err
		}
		all = append(all, *w)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	found := make([]*workspace.Workspace, len(all))
	for i := range all {
		found[i] = &all[i]
	}
	return all, s.relations(ctx, tenant, found...)
}

// Count implements workspace.Table.
func (s *Store) Count(ctx context.Context, tenant string) (n int, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM workspaces WHERE tenant_id = ?`, tenant).Scan(&n)
	return n, err
}

func scanWorkspace(tenant string, row sqldb.Row) (*workspace.Workspace, error) {
	w := &workspace.Workspace{
		TenantID: tenant, SharedWith: []string{}, AssignedAgents: []string{}, AssignedTeams: []string{}, AssignedCompanies: []string{},
	}
	var owner string
	var created, updated int64
	err := row.Scan(&w.WorkspaceID, &w.OwnerType, &owner, &w.Name, &w.FileCount, &w.TotalSizeBytes, &created, &updated)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NewNotFound("workspace")
	}
	if owner != "" {
		w.OwnerID = &owner
	}
	w.CreatedAt, w.UpdatedAt = sqldb.Time(created), sqldb.Time(updated)
	return w, err
}

const selectRelations = `SELECT workspace_id, agent_id, relation FROM workspace_agents
	WHERE tenant_id = ? AND workspace_id >= ? AND workspace_id <= ? ORDER BY workspace_id, agent_id`

// relations fills in the agents of workspaces that are in the order of a list.
func (s *Store) relations(ctx context.Context, tenant string, all ...*workspace.Workspace) error {
	if len(all) == 0 {
		return nil
	}
	rows, err := s.db.Query(ctx, selectRelations, tenant, all[len(all)-1].WorkspaceID, all[0].WorkspaceID)
	return related(rows, err, all...)
}

func related(rows *sql.Rows, err error, all ...*workspace.Workspace) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	byID := make(map[string]*workspace.Workspace, len(all))
	for _, w := range all {
		byID[w.WorkspaceID] = w
	}
	for rows.Next() {
		var id, agent, relation string
		if err := rows.Scan(&id, &agent, &relation); err != nil {
			return err
		}
		w := byID[id]
		switch {
		case w == nil: // created since the list was read
		case relation == string(workspace.Assigned):
			w.AssignedAgents = append(w.AssignedAgents, agent)
		default:
			w.SharedWith = append(w.SharedWith, agent)
		}
	}
	return rows.Err()
}

// UpdateTx implements workspace.Table.
func (s *Store) UpdateTx(tx txn.Tx, w *workspace.Workspace) error {
	n, err := sqldb.From(tx).Exec(`UPDATE workspaces SET name = ?, owner_type = ?, owner_id = ?, file_count = ?, total_size = ?, updated_at = ?
		WHERE tenant_id = ? AND workspace_id = ?`,
		w.Name, w.OwnerType, orEmpty(w.OwnerID), w.FileCount, w.TotalSizeBytes, sqldb.Micros(w.UpdatedAt), w.TenantID, w.WorkspaceID)
	if err == nil && n != 1 {
		err = fault.NewNotFound("workspace")
	}
	return err
}

// DeleteTx implements workspace.Table.
func (s *Store) DeleteTx(tx txn.Tx, tenant, id string) error {
	t := sqldb.From(tx)
	if _, err := t.Exec(`DELETE FROM workspace_agents WHERE tenant_id = ? AND workspace_id = ?`, tenant, id); err != nil {
		return err
	}
	_, err := t.Exec(`DELETE FROM workspaces WHERE tenant_id = ? AND workspace_id = ?`, tenant, id)
	return err
}

// AssignTx sets the workspace that an agent is assigned to; nil for none. It is
// called in the transaction that changes the agent. Errors: fault.NotFound.
func (s *Store) AssignTx(tx txn.Tx, tenant, agent string, id *string) error {
	t := sqldb.From(tx)
	_, err := t.Exec(`DELETE FROM workspace_agents WHERE tenant_id = ? AND agent_id = ? AND relation = ?`,
		tenant, agent, string(workspace.Assigned))
	if err != nil || id == nil || *id == "" {
		return err
	}
	if _, err := s.LockTx(tx, tenant, *id); err != nil {
		return err
	}
	return s.CreateRelationTx(tx, tenant, agent, workspace.Assigned, *id)
}

// CreateRelationTx implements workspace.Table.
func (s *Store) CreateRelationTx(tx txn.Tx, tenant, agent string, r workspace.Relation, id string) error {
	_, err := sqldb.From(tx).Exec(insertRelation, tenant, agent, string(r), id)
	return err
}

// DeleteRelationTx implements workspace.Table.
func (s *Store) DeleteRelationTx(tx txn.Tx, tenant, agent string, r workspace.Relation, id string) (bool, error) {
	n, err := sqldb.From(tx).Exec(`DELETE FROM workspace_agents WHERE tenant_id = ? AND agent_id = ? AND relation = ? AND workspace_id = ?`,
		tenant, agent, string(r), id)
	return n > 0, err
}

// ListShared implements workspace.Table.
func (s *Store) ListShared(ctx context.Context, tenant, agent string) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT workspace_id FROM workspace_agents WHERE tenant_id = ? AND agent_id = ? AND relation = ?
		ORDER BY workspace_id`, tenant, agent, string(workspace.Shared))
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// DeleteRelationsTx implements workspace.Table.
func (s *Store) DeleteRelationsTx(tx txn.Tx, tenant, agent string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM workspace_agents WHERE tenant_id = ? AND agent_id = ?`, tenant, agent)
	return err
}
