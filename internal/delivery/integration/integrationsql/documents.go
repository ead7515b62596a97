// Package integrationsql keeps the OpenAPI documents of integrations on SQL.
package integrationsql

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"io"

	"agentd/internal/base/txn"
	"agentd/internal/delivery/integration"
	"agentd/internal/store/sqldb"
)

// Store implements integration.Documents.
type Store struct{ db *sqldb.DB }

var _ integration.Documents = (*Store)(nil)

// New uses the table of migration 200.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	ofIntegration = ` WHERE tenant_id = ? AND integration_id = ?`
	put           = `INSERT INTO integration_documents (tenant_id, integration_id, document) VALUES (?, ?, ?)
		ON CONFLICT (tenant_id, integration_id) DO UPDATE SET document = excluded.document`
)

// Get implements integration.Documents.
func (s *Store) Get(ctx context.Context, tenant, id string) ([]byte, error) {
	var packed []byte
	err := s.db.QueryRow(ctx, `SELECT document FROM integration_documents`+ofIntegration, tenant, id).Scan(&packed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, integration.MaxDocument))
}

// PutTx implements integration.Documents.
func (s *Store) PutTx(tx txn.Tx, tenant, id string, document []byte) error {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(document); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, err := sqldb.From(tx).Exec(put, tenant, id, packed.Bytes())
	return err
}

// DeleteTx implements integration.Documents.
func (s *Store) DeleteTx(tx txn.Tx, tenant, id string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM integration_documents`+ofIntegration, tenant, id)
	return err
}
