package workspacesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/content/workspace"
	"agentd/internal/store/sqldb"
)

const (
	fileColumns = `path, file_id, mime_type, size, sha256, created_at, updated_at`
	selectFiles = `SELECT ` + fileColumns + ` FROM workspace_files WHERE tenant_id = ? AND workspace_id = ?`
)

// GetFile implements workspace.Table.
func (s *Store) GetFile(ctx context.Context, tenant, id, path string) (*workspace.File, error) {
	return scanFile(s.db.QueryRow(ctx, selectFiles+` AND path = ?`, tenant, id, path))
}

// GetFileTx implements workspace.Table.
func (s *Store) GetFileTx(tx txn.Tx, tenant, id, path string) (*workspace.File, error) {
	f, err := scanFile(sqldb.From(tx).QueryRow(selectFiles+` AND path = ?`, tenant, id, path))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return f, err
}

// ListFiles implements workspace.Table.
func (s *Store) ListFiles(ctx context.Context, tenant, id, dir string, limit int) ([]workspace.File, error) {
	query, args := belowQuery(tenant, id, dir, limit)
	rows, err := s.db.Query(ctx, query, args...)
	return scanFiles(rows, err)
}

// ListFilesTx implements workspace.Table.
func (s *Store) ListFilesTx(tx txn.Tx, tenant, id, dir string, limit int) ([]workspace.File, error) {
	query, args := belowQuery(tenant, id, dir, limit)
	rows, err := sqldb.From(tx).Query(query, args...)
	return scanFiles(rows, err)
}

// belowQuery walks the paths from "dir/" to "dir0", the next string after all
// that begin with "dir/": paths compare by their bytes.
func belowQuery(tenant, id, dir string, limit int) (string, []any) {
	const order = ` ORDER BY path LIMIT ?`
	if dir == "" {
		return selectFiles + order, []any{tenant, id, limit}
	}
	return selectFiles + ` AND path > ? AND path < ?` + order, []any{tenant, id, dir + "/", dir + "0", limit}
}

// GetFirstFileTx implements workspace.Table.
func (s *Store) GetFirstFileTx(tx txn.Tx, tenant, id string, paths []string) (string, error) {
	t := sqldb.From(tx)
	for _, path := range paths { // a few at most
		var found string
		err := t.QueryRow(`SELECT path FROM workspace_files WHERE tenant_id = ? AND workspace_id = ? AND path = ?`, tenant, id, path).Scan(&found)
		if err == nil || !errors.Is(err, sql.ErrNoRows) {
			return found, err
		}
	}
	return "", nil
}

// PutFileTx implements workspace.Table.
func (s *Store) PutFileTx(tx txn.Tx, tenant, id string, f *workspace.File) error {
	_, err := sqldb.From(tx).Exec(putFile,
		tenant, id, f.Path, f.FileID, f.MimeType, f.SizeBytes, f.ETag, sqldb.Micros(f.CreatedAt), sqldb.Micros(f.UpdatedAt))
	return err
}

// DeleteFileTx implements workspace.Table.
func (s *Store) DeleteFileTx(tx txn.Tx, tenant, id, path string) error {
	n, err := sqldb.From(tx).Exec(`DELETE FROM workspace_files WHERE tenant_id = ? AND workspace_id = ? AND path = ?`, tenant, id, path)
	if err == nil && n != 1 {
		err = fmt.Errorf("workspacesql: a file of workspace %s that was read in this transaction is gone", id)
	}
	return err
}

func scanFiles(rows *sql.Rows, err error) ([]workspace.File, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []workspace.File
	for rows.Next() {
		f, err := scanFile(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, *f)
	}
	return all, rows.Err()
}

func scanFile(row sqldb.Row) (*workspace.File, error) {
	f := &workspace.File{}
	var created, updated int64
	err := row.Scan(&f.Path, &f.FileID, &f.MimeType, &f.SizeBytes, &f.ETag, &created, &updated)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NewNotFound("file")
	}
	f.Filename = f.Path[strings.LastIndexByte(f.Path, '/')+1:]
	f.CreatedAt, f.UpdatedAt = sqldb.Time(created), sqldb.Time(updated)
	return f, err
}
