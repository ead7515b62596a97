// Package filesql keeps uploaded files on SQL.
package filesql

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/content/file"
	"agentd/internal/store/sqldb"
)

// Store keeps uploads; it implements file.Table.
type Store struct{ db *sqldb.DB }

var _ file.Table = (*Store)(nil)

// New uses the tables of migration 5.
func New(db *sqldb.DB) *Store { return &Store{db} }

const selectFile = `SELECT file_id, filename, mime_type, size, sha256, created_at FROM files WHERE tenant_id = ?`

// CreateTx implements file.Table.
func (s *Store) CreateTx(tx txn.Tx, f *file.File) error {
	_, err := sqldb.From(tx).Exec(`INSERT INTO files (tenant_id, file_id, filename, mime_type, mime_group, size, sha256, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		f.TenantID, f.FileID, f.Filename, f.MimeType, mimeGroup(f.MimeType), f.SizeBytes, f.SHA256, sqldb.Micros(f.CreatedAt))
	return err
}

func mimeGroup(mimeType string) string {
	group, _, _ := strings.Cut(mimeType, "/")
	return group
}

// DeleteTx implements file.Table.
func (s *Store) DeleteTx(tx txn.Tx, tenant, id string) (*file.File, error) {
	t := sqldb.From(tx)
	f, err := scanFile(tenant, t.QueryRow(selectFile+` AND file_id = ?`+t.ForUpdate(), tenant, id))
	if err != nil {
		return nil, err
	}
	_, err = t.Exec(`DELETE FROM files WHERE tenant_id = ? AND file_id = ?`, tenant, id)
	return f, err
}

// Get implements file.Table.
func (s *Store) Get(ctx context.Context, tenant, id string) (*file.File, error) {
	return scanFile(tenant, s.db.QueryRow(ctx, selectFile+` AND file_id = ?`, tenant, id))
}

// List implements file.Table. What stands before the slash of a type is walked
// along an index; the rest of the prefix is looked at on the way.
func (s *Store) List(ctx context.Context, tenant string, f file.Filter) ([]file.File, error) {
	query, args := selectFile, []any{tenant}
	if f.MimePrefix != "" {
		if strings.Contains(f.MimePrefix, "/") {
			query += ` AND mime_group = ?`
			args = append(args, mimeGroup(f.MimePrefix))
		}
		query += ` AND substr(mime_type, 1, ?) = ?`
		args = append(args, len(f.MimePrefix), f.MimePrefix)
	}
	if f.After != "" {
		query += ` AND file_id < ?`
		args = append(args, f.After)
	}
	rows, err := s.db.Query(ctx, query+` ORDER BY file_id DESC LIMIT ?`, append(args, f.Limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []file.File{}
	for rows.Next() {
		got, err := scanFile(tenant, rows)
		if err != nil {
			return nil, err
		}
		all = append(all, *got)
	}
	return all, rows.Err()
}

func scanFile(tenant string, row sqldb.Row) (*file.File, error) {
	f := &file.File{TenantID: tenant}
	var created int64
	err := row.Scan(&f.FileID, &f.Filename, &f.MimeType, &f.SizeBytes, &f.SHA256, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NoSuch("file")
	}
	f.CreatedAt = sqldb.Time(created)
	return f, err
}
