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

// Store keeps tenants' keys of model providers. It implements providerkey.Store.
type Store struct{ db *sqldb.DB }

var _ providerkey.Store = (*Store)(nil)

// New uses the table of migrations 25, 42 and 86.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	keyColumns = `tenant_id, provider_id, endpoint, origin, shared, sealed, wire, access, ` +
		`max_concurrency, tokens_per_minute, created_at, updated_at`
	selectKeys = `SELECT ` + keyColumns + ` FROM llm_credentials WHERE tenant_id = ?`
)

var putKey = sqldb.Insert(`llm_credentials`, keyColumns) +
	` ON CONFLICT (tenant_id, provider_id) DO UPDATE SET ` + sqldb.Excluded(
	`endpoint, origin, shared, sealed, wire, access, max_concurrency, tokens_per_minute, updated_at`)

func scanKey(row sqldb.Row) (r providerkey.Row, err error) {
	var created, updated int64
	err = row.Scan(&r.TenantID, &r.ProviderID, &r.Endpoint, &r.Origin, &r.Shared, &r.Sealed, &r.Wire, &r.Access,
		&r.Limits.MaxConcurrency, &r.Limits.TokensPerMinute, &created, &updated)
	r.CreatedAt, r.UpdatedAt = sqldb.Time(created), sqldb.Time(updated)
	return r, err
}

// List implements providerkey.Store.
func (s *Store) List(ctx context.Context, tenant string) ([]providerkey.Row, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectKeys+` ORDER BY provider_id`, []any{tenant}, scanKey)
}

// LockTx implements providerkey.Store.
func (s *Store) LockTx(tx txn.Tx, tenant, provider string) (*providerkey.Row, error) {
	t := sqldb.From(tx)
	r, err := scanKey(t.QueryRow(selectKeys+` AND provider_id = ?`+t.ForUpdate(), tenant, provider))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &r, err
}

// CountTx implements providerkey.Store.
func (s *Store) CountTx(tx txn.Tx, tenant string) (n int, err error) {
	t := sqldb.From(tx)
	if err := t.LockTenant(tenant); err != nil {
		return 0, err
	}
	err = t.QueryRow(`SELECT COUNT(*) FROM llm_credentials WHERE tenant_id = ?`, tenant).Scan(&n)
	return n, err
}

// PutTx implements providerkey.Store.
func (s *Store) PutTx(tx txn.Tx, r *providerkey.Row) error {
	_, err := sqldb.From(tx).Exec(putKey,
		r.TenantID, r.ProviderID, r.Endpoint, r.Origin, r.Shared, r.Sealed, r.Wire, r.Access,
		r.Limits.MaxConcurrency, r.Limits.TokensPerMinute, sqldb.Micros(r.CreatedAt), sqldb.Micros(r.UpdatedAt))
	return err
}

// DeleteTx implements providerkey.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant, provider string) (bool, error) {
	n, err := sqldb.From(tx).Exec(`DELETE FROM llm_credentials WHERE tenant_id = ? AND provider_id = ?`, tenant, provider)
	return n > 0, err
}
