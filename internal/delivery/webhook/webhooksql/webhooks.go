// Package webhooksql keeps webhook subscriptions, events and deliveries on SQL.
package webhooksql

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/webhook"
	"agentd/internal/store/sqldb"
)

// Store implements webhook.Store.
type Store struct{ db *sqldb.DB }

var _ webhook.Store = (*Store)(nil)

// New uses the tables of migration 23.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	webhookColumns = `webhook_id, url, events, sealed, status, failures, last_failure_at, created_at`
	// fromWebhooks selects the subscriptions that are not deleted.
	fromWebhooks = ` FROM webhooks WHERE tenant_id = ? AND deleted_at = 0`
	// With LIKE, or a parameter for LIMIT, SQLite would prepare the statement each
	// time it runs. The order prevents deadlocks between transactions.
	selectSubscribers = `SELECT webhook_id` + fromWebhooks + `
		AND status <> 'disabled' AND REPLACE(events, ?, '') <> events ORDER BY webhook_id`

	// A disabled subscription goes on counting failures, and stays disabled.
	markHealthy = `UPDATE webhooks SET failures = 0, status = 'active'
		WHERE tenant_id = ? AND webhook_id = ? AND status IN ('active', 'failing')`
	markFailed = `UPDATE webhooks SET failures = failures + 1, last_failure_at = ?,
	status = CASE WHEN status = 'disabled' OR failures + 1 >= ? THEN 'disabled' WHEN failures + 1 >= ? THEN 'failing' ELSE status END
WHERE tenant_id = ? AND webhook_id = ? AND deleted_at = 0 RETURNING status`

	attemptColumns = `d.webhook_id, d.delivery_id, d.event_id, d.event_type, d.attempt, d.status, d.due_at, d.response_status, d.failure,
	d.latency_us, d.next_retry_at, d.dead, d.created_at`
	fromAttempts  = ` FROM webhook_deliveries d JOIN webhook_events e ON e.tenant_id = d.tenant_id AND e.event_id = d.event_id`
	insertAttempt = `INSERT INTO webhook_deliveries (tenant_id, webhook_id, delivery_id, event_id, event_type, attempt, status, due_at,
		created_at, response_status, failure, latency_us, next_retry_at, dead) VALUES `
	pendingAttempt = `(?, ?, ?, ?, ?, ?, 'pending', ?, ?, 0, '', 0, 0, FALSE)`
	selectDue      = `SELECT ` + attemptColumns + `, e.body` + fromAttempts + `
		WHERE d.tenant_id = ? AND d.webhook_id = ? AND d.status = 'pending' AND d.due_at <= ? ORDER BY d.due_at, d.delivery_id LIMIT `
	// An attempt whose event was deleted is never due.
	selectNextDue = `SELECT d.due_at` + fromAttempts + `
		WHERE d.tenant_id = ? AND d.webhook_id = ? AND d.status = 'pending' ORDER BY d.due_at LIMIT 1`
	updateAttempt = `UPDATE webhook_deliveries SET status = ?, response_status = ?, failure = ?, latency_us = ?, next_retry_at = ?, dead = ?
WHERE tenant_id = ? AND webhook_id = ? AND delivery_id = ? AND status = 'pending'`
	selectAttempt = `SELECT ` + attemptColumns + `, e.body` + fromAttempts + `
		WHERE d.tenant_id = ? AND d.webhook_id = ? AND d.delivery_id = ?`
	countAttempts = `SELECT COUNT(*) FROM (
		SELECT 1 FROM webhook_deliveries WHERE tenant_id = ? AND webhook_id = ? LIMIT ?) AS counted`
	clearDead = `UPDATE webhook_deliveries SET dead = FALSE WHERE tenant_id = ? AND webhook_id = ? AND delivery_id = ? AND dead`

	markDeleted = `UPDATE webhooks SET deleted_at = ?, status = 'deleted', url = '', sealed = ?
		WHERE tenant_id = ? AND webhook_id = ? AND deleted_at = 0`
	nextWebhook = `SELECT tenant_id, webhook_id FROM webhooks WHERE (tenant_id, webhook_id) > (?, ?)
		ORDER BY tenant_id, webhook_id LIMIT 1`
)

var (
	insertWebhook = sqldb.Insert(`webhooks`, `tenant_id, `+webhookColumns+`, deleted_at`)
	insertEvent   = sqldb.Insert(`webhook_events`, `tenant_id, event_id, event_type, body`) + ` ON CONFLICT DO NOTHING`
)

// CreateTx implements webhook.Store.
func (s *Store) CreateTx(tx txn.Tx, w webhook.Subscription) (count int, err error) {
	t := sqldb.From(tx)
	if _, err = t.Exec(insertWebhook, w.TenantID, w.ID, w.URL, ","+strings.Join(w.Events, ",")+",", w.Sealed, string(w.Status), w.Failures,
		sqldb.Micros(w.LastFailure), sqldb.Micros(w.CreatedAt), 0); err != nil {
		return 0, err
	}
	err = t.QueryRow(`SELECT COUNT(*)`+fromWebhooks, w.TenantID).Scan(&count)
	return count, err
}

// Get implements webhook.Store.
func (s *Store) Get(ctx context.Context, tenant, id string) (*webhook.Subscription, error) {
	all, err := s.read(ctx, tenant, ` AND webhook_id = ?`, tenant, id)
	if err == nil && len(all) == 0 {
		err = fault.NewNotFound("webhook subscription")
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
	rows, err := s.db.Query(ctx, `SELECT `+webhookColumns+fromWebhooks+more, args...)
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

// DeleteTx implements webhook.Store. The row stays, without its secret, until its
// log was deleted.
func (s *Store) DeleteTx(tx txn.Tx, tenant, id string, at time.Time) (bool, error) {
	n, err := sqldb.From(tx).Exec(markDeleted, sqldb.Micros(at), []byte{}, tenant, id)
	return n > 0, err
}

// EnableTx implements webhook.Store.
func (s *Store) EnableTx(tx txn.Tx, tenant, id string) error {
	n, err := sqldb.From(tx).Exec(`UPDATE webhooks SET status = 'active', failures = 0
		WHERE tenant_id = ? AND webhook_id = ? AND deleted_at = 0`, tenant, id)
	if err == nil && n == 0 {
		err = fault.NewNotFound("webhook subscription")
	}
	return err
}

// ListSubscribersTx implements webhook.Store.
func (s *Store) ListSubscribersTx(tx txn.Tx, tenant, event string) (ids []string, err error) {
	rows, err := sqldb.From(tx).Query(selectSubscribers, tenant, ","+event+",")
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
func (s *Store) CreateEventTx(tx txn.Tx, e webhook.StoredEvent) (bool, error) {
	n, err := sqldb.From(tx).Exec(insertEvent, e.TenantID, e.ID, e.Type, e.Body)
	return n == 1, err
}

// CreateAttemptsTx implements webhook.Store.
func (s *Store) CreateAttemptsTx(tx txn.Tx, tenant string, all []webhook.Attempt) error {
	for chunk := range slices.Chunk(all, 10) { // few different texts, because each is kept as a prepared statement
		var args []any
		for i := range chunk {
			d := &chunk[i]
			args = append(args, tenant, d.SubscriptionID, d.ID, d.EventID, d.EventType, d.Number,
				sqldb.Micros(d.Due), sqldb.Micros(d.CreatedAt))
		}
		text := insertAttempt + strings.Repeat(pendingAttempt+", ", len(chunk)-1) + pendingAttempt
		if _, err := sqldb.From(tx).Exec(text, args...); err != nil {
			return err
		}
	}
	return nil
}

// scanAttempt scans attemptColumns, and more columns behind them.
func scanAttempt(rows *sql.Rows, d *webhook.Attempt, more ...any) error {
	var due, latency, next, created int64
	err := rows.Scan(append([]any{
		&d.SubscriptionID, &d.ID, &d.EventID, &d.EventType, &d.Number, &d.State, &due, &d.Status, &d.Failure,
		&latency, &next, &d.Dead, &created,
	}, more...)...)
	d.Due, d.NextRetry, d.CreatedAt = sqldb.Time(due), sqldb.Time(next), sqldb.Time(created)
	d.Latency = time.Duration(latency) * time.Microsecond
	return err
}

// ListDue implements webhook.Store.
func (s *Store) ListDue(ctx context.Context, tenant, id string, now time.Time, limit, bytes int) (found []webhook.DueAttempt, err error) {
	rows, err := s.db.Query(ctx, selectDue+strconv.Itoa(limit), tenant, id, sqldb.Micros(now))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for bytes > 0 && rows.Next() {
		var r webhook.DueAttempt
		if err := scanAttempt(rows, &r.Attempt, &r.Body); err != nil {
			return nil, err
		}
		bytes -= len(r.Body)
		found = append(found, r)
	}
	return found, rows.Err()
}

// GetNextDueTx implements webhook.Store.
func (s *Store) GetNextDueTx(tx txn.Tx, tenant, id string) (time.Time, error) {
	var due int64
	err := sqldb.From(tx).QueryRow(selectNextDue, tenant, id).Scan(&due)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return sqldb.Time(due), err
}

// UpdateAttemptTx implements webhook.Store.
func (s *Store) UpdateAttemptTx(tx txn.Tx, tenant string, d *webhook.Attempt) error {
	_, err := sqldb.From(tx).Exec(updateAttempt, string(d.State), d.Status, d.Failure, d.Latency.Microseconds(),
		sqldb.Micros(d.NextRetry), d.Dead, tenant, d.SubscriptionID, d.ID)
	return err
}

// ListAttempts implements webhook.Store.
func (s *Store) ListAttempts(
	ctx context.Context, tenant, id, before string, limit, maxCount int,
) (entries []webhook.Attempt, total int, err error) {
	query, args := `SELECT `+attemptColumns+` FROM webhook_deliveries d WHERE d.tenant_id = ? AND d.webhook_id = ?`, []any{tenant, id}
	if before != "" {
		query, args = query+` AND d.delivery_id < ?`, append(args, before)
	}
	rows, err := s.db.Query(ctx, query+` ORDER BY d.delivery_id DESC LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var d webhook.Attempt
		if err := scanAttempt(rows, &d); err != nil {
			return nil, 0, err
		}
		entries = append(entries, d)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, err
	}
	err = s.db.QueryRow(ctx, countAttempts, tenant, id, maxCount).Scan(&total)
	return entries, total, err
}

// GetAttempt implements webhook.Store.
func (s *Store) GetAttempt(ctx context.Context, tenant, id, delivery string) (*webhook.DueAttempt, error) {
	rows, err := s.db.Query(ctx, selectAttempt, tenant, id, delivery)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, errors.Join(rows.Err(), fault.NewNotFound("webhook delivery"))
	}
	r := &webhook.DueAttempt{}
	return r, scanAttempt(rows, &r.Attempt, &r.Body)
}

// ListDeadLetters implements webhook.Store.
func (s *Store) ListDeadLetters(ctx context.Context, event, before string, limit int) (found []webhook.DeadLetter, err error) {
	query, args := `SELECT `+attemptColumns+`, d.tenant_id, e.body`+fromAttempts+` WHERE d.dead`, []any(nil)
	if event != "" {
		query, args = query+` AND d.event_id = ?`, append(args, event)
	}
	if before != "" {
		query, args = query+` AND d.delivery_id < ?`, append(args, before)
	}
	rows, err := s.db.Query(ctx, query+` ORDER BY d.delivery_id DESC LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var d webhook.DeadLetter
		if err := scanAttempt(rows, &d.Attempt, &d.TenantID, &d.Body); err != nil {
			return nil, err
		}
		found = append(found, d)
	}
	return found, rows.Err()
}

// ClearDeadTx implements webhook.Store.
func (s *Store) ClearDeadTx(tx txn.Tx, tenant, webhookID, delivery string) (bool, error) {
	n, err := sqldb.From(tx).Exec(clearDead, tenant, webhookID, delivery)
	return n > 0, err
}
