// Package idempotencysql keeps the answers of writes with an idempotency key on SQL.
package idempotencysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/idempotency"
	"agentd/internal/store/sqldb"
)

// Store keeps the answers of writes with a key. It implements
// idempotency.Store.
type Store struct{ db *sqldb.DB }

var _ idempotency.Store = (*Store)(nil)

// New keeps them in db.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	ofKey = ` WHERE tenant_id = ? AND credential_id = ? AND idem_key = ?`
	held  = ofKey + ` AND holder = ?`

	selectRecord = `SELECT holder, request, body, status, answer, lease, expires_at FROM idempotency` + ofKey
	listRecords  = `SELECT tenant_id, credential_id, idem_key, expires_at FROM idempotency
		WHERE (tenant_id, credential_id, idem_key) > (?, ?, ?) ORDER BY tenant_id, credential_id, idem_key LIMIT ?`
)

// reserve takes over a record that has expired, or whose write has neither
// finished nor renewed its lease.
var reserve = sqldb.Insert(`idempotency AS old`,
	`tenant_id, credential_id, idem_key, holder, request, body, status, answer, lease, expires_at`) +
	` ON CONFLICT (tenant_id, credential_id, idem_key) DO UPDATE SET ` +
	sqldb.Excluded(`holder, request, body, status, answer, lease, expires_at`) +
	` WHERE old.expires_at <= ? OR old.status = 0 AND old.lease <= ?`

// Get implements idempotency.Store.
func (s *Store) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	r := idempotency.Record{ID: id}
	var request, body []byte
	var lease, expires int64
	err := s.db.QueryRow(ctx, selectRecord, id.Tenant, id.Credential, id.Key).
		Scan(&r.Holder, &request, &body, &r.Status, &r.Answer, &lease, &expires)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return r, idempotency.ErrNotFound
	case err != nil:
		return r, err
	case len(request) != len(r.Request) || len(body) != len(r.Body):
		return r, fmt.Errorf("idempotencysql: a record has hashes of %d and %d bytes", len(request), len(body))
	}
	r.Request, r.Body = idempotency.Hash(request), idempotency.Hash(body)
	r.Lease, r.Expires = sqldb.Time(lease), sqldb.Time(expires)
	return r, nil
}

// ReserveTx implements idempotency.Store.
func (s *Store) ReserveTx(tx txn.Tx, r idempotency.Record, now time.Time) (bool, error) {
	at := sqldb.Micros(now)
	n, err := sqldb.From(tx).Exec(reserve,
		r.Tenant, r.Credential, r.Key, r.Holder, r.Request[:], r.Body[:], 0, nil, sqldb.Micros(r.Lease), sqldb.Micros(r.Expires), at, at)
	return n > 0, err
}

// CompleteTx implements idempotency.Store.
func (s *Store) CompleteTx(tx txn.Tx, r idempotency.Record) (bool, error) {
	n, err := sqldb.From(tx).Exec(`UPDATE idempotency SET body = ?, status = ?, answer = ?`+held,
		r.Body[:], r.Status, r.Answer, r.Tenant, r.Credential, r.Key, r.Holder)
	return n > 0, err
}

// RenewTx implements idempotency.Store.
func (s *Store) RenewTx(tx txn.Tx, r idempotency.Record) (bool, error) {
	n, err := sqldb.From(tx).Exec(`UPDATE idempotency SET lease = ?`+held+` AND status = 0`,
		sqldb.Micros(r.Lease), r.Tenant, r.Credential, r.Key, r.Holder)
	return n > 0, err
}

// ReleaseTx implements idempotency.Store.
func (s *Store) ReleaseTx(tx txn.Tx, r idempotency.Record) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM idempotency`+held+` AND status = 0`, r.Tenant, r.Credential, r.Key, r.Holder)
	return err
}

// List implements idempotency.Store.
func (s *Store) List(ctx context.Context, after idempotency.ID, limit int) ([]idempotency.Record, error) {
	rows, err := s.db.Query(ctx, listRecords, after.Tenant, after.Credential, after.Key, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []idempotency.Record
	for rows.Next() {
		var r idempotency.Record
		var expires int64
		if err := rows.Scan(&r.Tenant, &r.Credential, &r.Key, &expires); err != nil {
			return nil, err
		}
		r.Expires = sqldb.Time(expires)
		page = append(page, r)
	}
	return page, rows.Err()
}

// DeleteExpiredTx implements idempotency.Store.
func (s *Store) DeleteExpiredTx(tx txn.Tx, ids []idempotency.ID, before time.Time) error {
	for _, id := range ids {
		_, err := sqldb.From(tx).Exec(`DELETE FROM idempotency`+ofKey+` AND expires_at <= ?`,
			id.Tenant, id.Credential, id.Key, sqldb.Micros(before))
		if err != nil {
			return err
		}
	}
	return nil
}
