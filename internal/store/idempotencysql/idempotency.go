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

// Store keeps what writes with a key were answered. It implements
// idempotency.Store.
type Store struct{ db *sqldb.DB }

var _ idempotency.Store = (*Store)(nil)

// New keeps them in db.
func New(db *sqldb.DB) *Store { return &Store{db} }

// Get implements idempotency.Store.
func (s *Store) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	r := idempotency.Record{ID: id}
	var request, body []byte
	var lease, expires int64
	err := s.db.QueryRow(ctx, `SELECT holder, request, body, status, answer, lease, expires_at FROM idempotency
		WHERE tenant_id = ? AND user_id = ? AND idem_key = ?`, id.Tenant, id.User, id.Key).
		Scan(&r.Holder, &request, &body, &r.Status, &r.Answer, &lease, &expires)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return r, idempotency.ErrNone
	case err != nil:
		return r, err
	case len(request) != len(r.Request) || len(body) != len(r.Body):
		return r, fmt.Errorf("idempotencysql: an idempotency record with hashes of %d and %d bytes", len(request), len(body))
	}
	r.Request, r.Body = idempotency.Hash(request), idempotency.Hash(body)
	r.Lease, r.Expires = sqldb.Time(lease), sqldb.Time(expires)
	return r, nil
}

// ReserveTx implements idempotency.Store.
func (s *Store) ReserveTx(tx txn.Tx, r idempotency.Record, now time.Time) (bool, error) {
	at := sqldb.Micros(now)
	n, err := sqldb.From(tx).Exec(`INSERT INTO idempotency AS old
		(tenant_id, user_id, idem_key, holder, request, body, status, answer, lease, expires_at) VALUES (?, ?, ?, ?, ?, ?, 0, NULL, ?, ?)
		ON CONFLICT (tenant_id, user_id, idem_key) DO UPDATE SET holder = excluded.holder, request = excluded.request, body = excluded.body,
			status = 0, answer = NULL, lease = excluded.lease, expires_at = excluded.expires_at
		WHERE old.expires_at <= ? OR old.status = 0 AND old.lease <= ?`,
		r.Tenant, r.User, r.Key, r.Holder, r.Request[:], r.Body[:], sqldb.Micros(r.Lease), sqldb.Micros(r.Expires), at, at)
	return n > 0, err
}

const heldKey = ` WHERE tenant_id = ? AND user_id = ? AND idem_key = ? AND holder = ?`

// CompleteTx implements idempotency.Store.
func (s *Store) CompleteTx(tx txn.Tx, r idempotency.Record) (bool, error) {
	n, err := sqldb.From(tx).Exec(`UPDATE idempotency SET body = ?, status = ?, answer = ?`+heldKey,
		r.Body[:], r.Status, r.Answer, r.Tenant, r.User, r.Key, r.Holder)
	return n > 0, err
}

// RenewTx implements idempotency.Store.
func (s *Store) RenewTx(tx txn.Tx, r idempotency.Record) (bool, error) {
	n, err := sqldb.From(tx).Exec(`UPDATE idempotency SET lease = ?`+heldKey+` AND status = 0`, sqldb.Micros(r.Lease), r.Tenant, r.User, r.Key, r.Holder)
	return n > 0, err
}

// ReleaseTx implements idempotency.Store.
func (s *Store) ReleaseTx(tx txn.Tx, r idempotency.Record) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM idempotency`+heldKey+` AND status = 0`, r.Tenant, r.User, r.Key, r.Holder)
	return err
}

// List implements idempotency.Store.
func (s *Store) List(ctx context.Context, after idempotency.ID, limit int) ([]idempotency.Record, error) {
	rows, err := s.db.Query(ctx, `SELECT tenant_id, user_id, idem_key, expires_at FROM idempotency
		WHERE (tenant_id, user_id, idem_key) > (?, ?, ?) ORDER BY tenant_id, user_id, idem_key LIMIT ?`, after.Tenant, after.User, after.Key, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []idempotency.Record
	for rows.Next() {
		var r idempotency.Record
		var expires int64
		if err := rows.Scan(&r.Tenant, &r.User, &r.Key, &expires); err != nil {
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
		_, err := sqldb.From(tx).Exec(`DELETE FROM idempotency WHERE tenant_id = ? AND user_id = ? AND idem_key = ? AND expires_at <= ?`,
			id.Tenant, id.User, id.Key, sqldb.Micros(before))
		if err != nil {
			return err
		}
	}
	return nil
}
