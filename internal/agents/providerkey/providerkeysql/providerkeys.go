// Package providerkeysql keeps tenants' keys of model providers on SQL.
package providerkeysql

import (
	"context"
	"database/sql"
	"errors"

	"agentd/internal/agents/providerkey"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

// Store keeps tenants' keys of model providers; it implements
// credential.Store.
type Store struct{ db *sqldb.DB }

var _ providerkey.Store = (*Store)(nil)

// New uses the table of migration 25.
func New(db *sqldb.DB) *Store { return &Store{db} }

const modelKeyColumns = `tenant_id, provider_id, endpoint, origin, shared, sealed, created_at, updated_at`

func scanModelKey(row sqldb.Row) (r providerkey.Row, err error) {
	var created, updated int64
	err = row.Scan(&r.TenantID, &r.ProviderID, &r.Endpoint, &r.Origin, &r.Shared, &r.Sealed, &created, &updated)
	r.CreatedAt, r.UpdatedAt = sqldb.Time(created), sqldb.Time(updated)
	return r, err
}

// List implements credential.Store.
func (s *Store) List(ctx context.Context, tenant string) ([]providerkey.Row, error) {
	read := func(query string, args ...any) (*sql.Rows, error) { return s.db.Query(ctx, query, args...) }
	return sqldb.Collect(read, `SELECT `+modelKeyColumns+` FROM llm_credentials WHERE tenant_id = ? ORDER BY provider_id`, []any{tenant}, scanModelKey)
}

// LockTx implements credential.Store.
func (s *Store) LockTx(tx txn.Tx, tenant, provider string) (*providerkey.Row, error) {
	t := sqldb.From(tx)
	r, err := scanModelKey(t.QueryRow(`SELECT `+modelKeyColumns+` FROM llm_credentials WHERE tenant_id = ? AND provider_id = ?`+t.ForUpdate(), tenant, provider))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &r, err
}

// CountTx implements credential.Store.
func (s *Store) CountTx(tx txn.Tx, tenant string) (n int, err error) {
	t := sqldb.From(tx)
	var there int
	if err := t.QueryRow(`SELECT 1 FROM tenants WHERE tenant_id = ?`+t.ForUpdate(), tenant).Scan(&there); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	err = t.QueryRow(`SELECT COUNT(*) FROM llm_credentials WHERE tenant_id = ?`, tenant).Scan(&n)
	return n, err
}

// PutTx implements credential.Store.
func (s *Store) PutTx(tx txn.Tx, r *providerkey.Row) error {
	_, err := sqldb.From(tx).Exec(`INSERT INTO llm_credentials (`+modelKeyColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, provider_id) DO UPDATE SET endpoint = excluded.endpoint, origin = excluded.origin, shared = excluded.shared,
sealed = excluded.sealed, updated_at = excluded.updated_at`,
		r.TenantID, r.ProviderID, r.Endpoint, r.Origin, r.Shared, r.Sealed, sqldb.Micros(r.CreatedAt), sqldb.Micros(r.UpdatedAt))
	return err
}

// DeleteTx implements credential.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant, provider string) (bool, error) {
	n, err := sqldb.From(tx).Exec(`DELETE FROM llm_credentials WHERE tenant_id = ? AND provider_id = ?`, tenant, provider)
	return n > 0, err
}
