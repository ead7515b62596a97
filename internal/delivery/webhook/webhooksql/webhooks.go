// Package webhooksql keeps webhook subscriptions, events and deliveries on SQL.
package webhooksql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/webhook"
	"agentd/internal/store/sqldb"
)

// Store keeps webhook subscriptions, events and deliveries. It implements
// webhook.Store.
type Store struct{ db *sqldb.DB }

var _ webhook.Store = (*Store)(nil)

// New uses the tables of migration 23.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	subscriptionColumns = `webhook_id, url, events, sealed, status, failures, last_failure_at, created_at`
	subscriptions       = ` FROM webhooks WHERE tenant_id = ? AND deleted_at = 0`

	// LIKE and LIMIT with a parameter would have SQLite prepare the statement
	// each time it runs. The order keeps transactions from waiting for each other.
	listSubscribers = `SELECT webhook_id` + subscriptions + `
		AND status <> 'disabled' AND REPLACE(events, ?, '') <> events ORDER BY webhook_id`

	markHealthy = `UPDATE webhooks SET failures = 0, status = 'active'
		WHERE tenant_id = ? AND webhook_id = ? AND status IN ('active', 'failing')`
	// A disabled subscription counts its failures and stays disabled.
	markFailed = `UPDATE webhooks SET failures = failures + 1, last_failure_at = ?, status =
			CASE WHEN status = 'disabled' OR failures + 1 >= ? THEN 'disabled' WHEN failures + 1 >= ? THEN 'failing' ELSE status END
		WHERE tenant_id = ? AND webhook_id = ? AND deleted_at = 0 RETURNING status`
	enable = `UPDATE webhooks SET status = 'active', failures = 0
		WHERE tenant_id = ? AND webhook_id = ? AND deleted_at = 0`
	markDeleted = `UPDATE webhooks SET deleted_at = ?, status = 'deleted', url = '', sealed = ?
		WHERE tenant_id = ? AND webhook_id = ? AND deleted_at = 0`
)

var (
	insertSubscription = sqldb.Insert(`webhooks`, `tenant_id, `+subscriptionColumns+`, deleted_at`)
	insertEvent        = sqldb.Insert(`webhook_events`, `tenant_id, event_id, event_type, body`) + ` ON CONFLICT DO NOTHING`
)

// CreateTx implements webhook.Store.
func (s *Store) CreateTx(tx txn.Tx, w webhook.Subscription) (held int, err error) {
	t := sqldb.From(tx)
	if _, err = t.Exec(insertSubscription, w.TenantID, w.ID, w.URL, ","+strings.Join(w.Events, ",")+",", w.Sealed, string(w.Status),
		w.Failures, sqldb.Micros(w.LastFailure), sqldb.Micros(w.CreatedAt), 0); err != nil {
		return 0, err
	}
	err = t.QueryRow(`SELECT COUNT(*)`+subscriptions, w.TenantID).Scan(&held)
	return held, err
}

// Get implements webhook.Store.
func (s *Store) Get(ctx context.Context, tenant, id string) (*webhook.Subscription, error) {
	all, err := s.read(ctx, tenant, ` AND webhook_id = ?`, tenant, id)
	if err == nil && len(all) == 0 {
		err = fault.NoSuch("webhook subscription")
	}
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

// List implements webhook.Store.
func (s *Store) List(ctx context.Context, tenant string) ([]webhook.Subscription, error) {
	return s.read(ctx, tenant, ` ORDER BY webhook_id DESC`, tenant)
}

func (s *Store) read(ctx context.Context, tenant, more string, args ...any) ([]webhook.Subscription, error) {
	rows, err := s.db.Query(ctx, `SELECT `+subscriptionColumns+subscriptions+more, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []webhook.Subscription
	for rows.Next() {
		w := webhook.Subscription{TenantID: tenant}
		var events string
		var failed, created int64
		if err := rows.Scan(&w.ID, &w.URL, &events, &w.Sealed, &w.Status, &w.Failures, &failed, &created); err != nil {
			return nil, err
		}
		w.Events = strings.Split(strings.Trim(events, ","), ",")
		w.LastFailure, w.CreatedAt = sqldb.Time(failed), sqldb.Time(created)
		all = append(all, w)
	}
	return all, rows.Err()
}

// DeleteTx implements webhook.Store. The row stays until its log is gone, without
// its secret.
func (s *Store) DeleteTx(tx txn.Tx, tenant, id string, at time.Time) (bool, error) {
	n, err := sqldb.From(tx).Exec(markDeleted, sqldb.Micros(at), []byte{}, tenant, id)
	return n > 0, err
}

// EnableTx implements webhook.Store.
func (s *Store) EnableTx(tx txn.Tx, tenant, id string) error {
	n, err := sqldb.From(tx).Exec(enable, tenant, id)
	if err == nil && n == 0 {
		err = fault.NoSuch("webhook subscription")
	}
	return err
}

// ListSubscribersTx implements webhook.Store.
func (s *Store) ListSubscribersTx(tx txn.Tx, tenant, event string) (ids []string, err error) {
	rows, err := sqldb.From(tx).Query(listSubscribers, tenant, ","+event+",")
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// MarkHealthyTx implements webhook.Store.
func (s *Store) MarkHealthyTx(tx txn.Tx, tenant, id string) error {
	_, err := sqldb.From(tx).Exec(markHealthy, tenant, id)
	return err
}

// MarkFailedTx implements webhook.Store.
func (s *Store) MarkFailedTx(tx txn.Tx, tenant, id string, at time.Time, failing, disabled int) (status webhook.Status, err error) {
	err = sqldb.From(tx).QueryRow(markFailed, sqldb.Micros(at), disabled, failing, tenant, id).Scan(&status)
	if errors.Is(err, sql.ErrNoRows) {
		return webhook.Disabled, nil
	}
	return status, err
}

// CreateEventTx implements webhook.Store.
func (s *Store) CreateEventTx(tx txn.Tx, e webhook.Stored) (bool, error) {
	n, err := sqldb.From(tx).Exec(insertEvent, e.TenantID, e.ID, e.Type, e.Body)
	return n == 1, err
}
