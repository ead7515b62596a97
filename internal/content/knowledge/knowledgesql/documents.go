// Package knowledgesql keeps the documents of knowledge bases on SQL.
package knowledgesql

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/content/doctext"
	"agentd/internal/content/knowledge"
	"agentd/internal/store/sqldb"
)

// Store keeps the documents of knowledge bases. It implements knowledge.Store.
type Store struct{ db *sqldb.DB }

var _ knowledge.Store = (*Store)(nil)

// New uses the tables of migration 6.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	documentColumns = `document_id, name, type, size_bytes, chunk_count, preview, created_at, updated_at`
	ofBase          = ` WHERE tenant_id = ? AND kb_id = ?`
	selectDocuments = `SELECT ` + documentColumns + ` FROM kb_documents` + ofBase
)

var insertDocument = sqldb.Insert(`kb_documents`, `tenant_id, kb_id, `+documentColumns)

// CreateTx implements knowledge.Store.
func (s *Store) CreateTx(tx txn.Tx, d knowledge.Document) error {
	_, err := sqldb.From(tx).Exec(insertDocument,
		d.TenantID, d.KBID, d.ID, d.Name, string(d.Type), d.SizeBytes, d.ChunkCount, *d.ChunkPreview,
		sqldb.Micros(d.CreatedAt), sqldb.Micros(d.UpdatedAt))
	return sqldb.UniqueAs(err, fault.New(fault.Conflict, "", "The file was added to the knowledge base at the same moment."))
}

// DeleteTx implements knowledge.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant, base, id string) (knowledge.Document, error) {
	t := sqldb.From(tx)
	d, err := scanDocument(t.QueryRow(selectDocuments+` AND document_id = ?`+t.ForUpdate(), tenant, base, id), tenant, base)
	if errors.Is(err, sql.ErrNoRows) {
		return d, fault.NewNotFound("document")
	}
	if err != nil {
		return d, err
	}
	_, err = t.Exec(`DELETE FROM kb_documents`+ofBase+` AND document_id = ?`, tenant, base, id)
	return d, err
}

// DeleteAllTx implements knowledge.Store.
func (s *Store) DeleteAllTx(tx txn.Tx, tenant, base string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM kb_documents`+ofBase, tenant, base)
	return err
}

// Get implements knowledge.Store.
func (s *Store) Get(ctx context.Context, tenant, base, id string) (knowledge.Document, error) {
	d, err := scanDocument(s.db.QueryRow(ctx, selectDocuments+` AND document_id = ?`, tenant, base, id), tenant, base)
	if errors.Is(err, sql.ErrNoRows) {
		return d, fault.NewNotFound("document")
	}
	return d, err
}

// CountBytes implements knowledge.Store.
func (s *Store) CountBytes(ctx context.Context, tenant string, bases []string) (map[string]int64, error) {
	sizes := make(map[string]int64, len(bases))
	for ids := range slices.Chunk(bases, sqldb.MaxIn) {
		in, args := sqldb.In(ids, tenant)
		rows, err := s.db.Query(ctx,
			`SELECT kb_id, SUM(size_bytes) FROM kb_documents WHERE tenant_id = ? AND kb_id`+in+` GROUP BY kb_id`, args...)
		if err != nil {
			return nil, err
		}
		if err := scanSizes(rows, sizes); err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

func scanSizes(rows *sql.Rows, into map[string]int64) error {
	defer rows.Close()
	for rows.Next() {
		var id string
		var size int64
		if err := rows.Scan(&id, &size); err != nil {
			return err
		}
		into[id] = size
	}
	return rows.Err()
}

// List implements knowledge.Store.
func (s *Store) List(ctx context.Context, tenant, base, after string, limit int) ([]knowledge.Document, error) {
	q, args := selectDocuments, []any{tenant, base}
	if after != "" {
		q, args = q+` AND document_id < ?`, append(args, after)
	}
	if limit <= 0 {
		limit = math.MaxInt32
	}
	rows, err := s.db.Query(ctx, q+` ORDER BY document_id DESC LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []knowledge.Document{}
	for rows.Next() {
		d, err := scanDocument(rows, tenant, base)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, rows.Err()
}

// ListNames implements knowledge.Store.
func (s *Store) ListNames(ctx context.Context, tenant, base string, ids []string) (map[string]string, error) {
	names := map[string]string{}
	if len(ids) == 0 {
		return names, nil
	}
	in, args := sqldb.In(ids, tenant, base)
	rows, err := s.db.Query(ctx, `SELECT document_id, name FROM kb_documents`+ofBase+` AND document_id`+in, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, name string
		if err := rows.Scan(&id, &name); err != nil {
			return nil, err
		}
		names[id] = name
	}
	return names, rows.Err()
}

func scanDocument(row sqldb.Row, tenant, base string) (knowledge.Document, error) {
	d := knowledge.Document{TenantID: tenant, KBID: base}
	var of, preview string
	var created, updated int64
	err := row.Scan(&d.ID, &d.Name, &of, &d.SizeBytes, &d.ChunkCount, &preview, &created, &updated)
	d.Type, d.ChunkPreview = doctext.Type(of), &preview
	d.CreatedAt, d.UpdatedAt = sqldb.Time(created), sqldb.Time(updated)
	return d, err
}
