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

// Store keeps uploaded files. It implements file.Table.
type Store struct{ db *sqldb.DB }

var _ file.Table = (*Store)(nil)

// New uses the tables of migration 5.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	fileColumns = `file_id, filename, mime_type, size, sha256, created_at`
	selectFiles = `SELECT ` + fileColumns + ` FROM files`
	ofTenant    = ` WHERE tenant_id = ?`
	oneFile     = selectFiles + ofTenant + ` AND file_id = ?`
)

var insertFile = sqldb.Insert(`files`, `tenant_id, `+fileColumns+`, mime_group`)

// CreateTx implements file.Table.
func (s *Store) CreateTx(tx txn.Tx, f *file.File) error {
	_, err := sqldb.From(tx).Exec(insertFile,
		f.TenantID, f.FileID, f.Filename, f.MimeType, f.SizeBytes, f.SHA256, sqldb.Micros(f.CreatedAt), mimeGroup(f.MimeType))
	return err
}

func mimeGroup(mimeType string) string {
	group, _, _ := strings.Cut(mimeType, "/")
	return group
}

// DeleteTx implements file.Table.
func (s *Store) DeleteTx(tx txn.Tx, tenant, id string) (*file.File, error) {
	t := sqldb.From(tx)
	f, err := scanFile(tenant, t.QueryRow(oneFile+t.ForUpdate(), tenant, id))
	if err != nil {
		return nil, err
	}
	_, err = t.Exec(`DELETE FROM files WHERE tenant_id = ? AND file_id = ?`, tenant, id)
	return f, err
}

// Get implements file.Table.
func (s *Store) Get(ctx context.Context, tenant, id string) (*file.File, error) {
	return scanFile(tenant, s.db.QueryRow(ctx, oneFile, tenant, id))
}

// List implements file.Table. It walks an index of the part of a type before
// the slash, and checks the rest of a prefix row by row.
func (s *Store) List(ctx context.Context, tenant string, f file.Filter) ([]file.File, error) {
	where, args := ofTenant, []any{tenant}
	if f.MimePrefix != "" {
		if strings.Contains(f.MimePrefix, "/") {
			where, args = where+` AND mime_group = ?`, append(args, mimeGroup(f.MimePrefix))
		}
		where, args = where+` AND substr(mime_type, 1, ?) = ?`, append(args, len(f.MimePrefix), f.MimePrefix)
	}
	if f.After != "" {
		where, args = where+` AND file_id < ?`, append(args, f.After)
	}
	text := selectFiles + where + ` ORDER BY file_id DESC LIMIT ?`
	return sqldb.Collect(s.db.Reader(ctx), text, append(args, f.Limit), func(row sqldb.Row) (file.File, error) {
		found, err := scanFile(tenant, row)
		if err != nil {
			return file.File{}, err
		}
		return *found, nil
	})
}

func scanFile(tenant string, row sqldb.Row) (*file.File, error) {
	f := &file.File{TenantID: tenant}
	var created int64
	err := row.Scan(&f.FileID, &f.Filename, &f.MimeType, &f.SizeBytes, &f.SHA256, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NewNotFound("file")
	}
	f.CreatedAt = sqldb.Time(created)
	return f, err
}
