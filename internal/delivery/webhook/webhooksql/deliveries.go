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

const (
	deliveryColumns = `d.webhook_id, d.delivery_id, d.event_id, d.event_type, d.attempt, d.status, d.due_at, d.response_status, d.failure,
		d.latency_us, d.next_retry_at, d.dead, d.created_at`
	withEvent      = ` FROM webhook_deliveries d JOIN webhook_events e ON e.tenant_id = d.tenant_id AND e.event_id = d.event_id`
	ofSubscription = ` WHERE d.tenant_id = ? AND d.webhook_id = ?`

	insertDeliveries = `INSERT INTO webhook_deliveries (tenant_id, webhook_id, delivery_id, event_id, event_type, attempt, status, due_at,
		created_at, response_status, failure, latency_us, next_retry_at, dead) VALUES `
	newDelivery = `(?, ?, ?, ?, ?, ?, 'pending', ?, ?, 0, '', 0, 0, FALSE)`

	// The limit follows as a literal: see listSubscribers.
	dueDeliveries = `SELECT ` + deliveryColumns + `, e.body` + withEvent + ofSubscription + `
		AND d.status = 'pending' AND d.due_at <= ? ORDER BY d.due_at, d.delivery_id LIMIT `
	// A delivery whose event is deleted is never due.
	nextDelivery   = `SELECT d.due_at` + withEvent + ofSubscription + ` AND d.status = 'pending' ORDER BY d.due_at LIMIT 1`
	updateDelivery = `UPDATE webhook_deliveries SET status = ?, response_status = ?, failure = ?, latency_us = ?, next_retry_at = ?, dead = ?
		WHERE tenant_id = ? AND webhook_id = ? AND delivery_id = ? AND status = 'pending'`
	listDeliveries  = `SELECT ` + deliveryColumns + ` FROM webhook_deliveries d` + ofSubscription
	getDelivery     = `SELECT ` + deliveryColumns + `, e.body` + withEvent + ofSubscription + ` AND d.delivery_id = ?`
	countDeliveries = `SELECT COUNT(*) FROM (
		SELECT 1 FROM webhook_deliveries WHERE tenant_id = ? AND webhook_id = ? LIMIT ?) AS counted`
	listDead  = `SELECT ` + deliveryColumns + `, d.tenant_id, e.body` + withEvent + ` WHERE d.dead`
	clearDead = `UPDATE webhook_deliveries SET dead = FALSE WHERE tenant_id = ? AND webhook_id = ? AND delivery_id = ? AND dead`
)

// CreateDeliveriesTx implements webhook.Store.
func (s *Store) CreateDeliveriesTx(tx txn.Tx, tenant string, all []webhook.Delivery) error {
	for chunk := range slices.Chunk(all, 10) { // so that few statements stay prepared
		var args []any
		for i := range chunk {
			d := &chunk[i]
			args = append(args, tenant, d.WebhookID, d.ID, d.EventID, d.EventType, d.Attempt,
				sqldb.Micros(d.Due), sqldb.Micros(d.CreatedAt))
		}
		text := insertDeliveries + strings.Repeat(newDelivery+", ", len(chunk)-1) + newDelivery
		if _, err := sqldb.From(tx).Exec(text, args...); err != nil {
			return err
		}
	}
	return nil
}

// scanDelivery reads deliveryColumns, and the columns that the query has after
// them.
func scanDelivery(rows *sql.Rows, d *webhook.Delivery, more ...any) error {
	var due, latency, next, created int64
	err := rows.Scan(append([]any{
		&d.WebhookID, &d.ID, &d.EventID, &d.EventType, &d.Attempt, &d.State, &due, &d.Status, &d.Failure,
		&latency, &next, &d.Dead, &created,
	}, more...)...)
	d.Due, d.NextRetry, d.CreatedAt = sqldb.Time(due), sqldb.Time(next), sqldb.Time(created)
	d.Latency = time.Duration(latency) * time.Microsecond
	return err
}

// ListDue implements webhook.Store.
func (s *Store) ListDue(
	ctx context.Context, tenant, id string, now time.Time, max, bytes int,
) (due []webhook.Ready, err error) {
	rows, err := s.db.Query(ctx, dueDeliveries+strconv.Itoa(max), tenant, id, sqldb.Micros(now))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for bytes > 0 && rows.Next() {
		var r webhook.Ready
		if err := scanDelivery(rows, &r.Delivery, &r.Body); err != nil {
			return nil, err
		}
		bytes -= len(r.Body)
		due = append(due, r)
	}
	return due, rows.Err()
}

// GetNextDueTx implements webhook.Store.
func (s *Store) GetNextDueTx(tx txn.Tx, tenant, id string) (time.Time, error) {
	var due int64
	err := sqldb.From(tx).QueryRow(nextDelivery, tenant, id).Scan(&due)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return sqldb.Time(due), err
}

// UpdateDeliveryTx implements webhook.Store.
func (s *Store) UpdateDeliveryTx(tx txn.Tx, tenant string, d *webhook.Delivery) error {
	_, err := sqldb.From(tx).Exec(updateDelivery,
		string(d.State), d.Status, d.Failure, d.Latency.Microseconds(), sqldb.Micros(d.NextRetry), d.Dead, tenant, d.WebhookID, d.ID)
	return err
}

// ListDeliveries implements webhook.Store.
func (s *Store) ListDeliveries(
	ctx context.Context, tenant, id, before string, limit, maxTotal int,
) (entries []webhook.Delivery, total int, err error) {
	query, args := listDeliveries, []any{tenant, id}
	if before != "" {
		query, args = query+` AND d.delivery_id < ?`, append(args, before)
	}
	rows, err := s.db.Query(ctx, query+` ORDER BY d.delivery_id DESC LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var d webhook.Delivery
		if err := scanDelivery(rows, &d); err != nil {
			return nil, 0, err
		}
		entries = append(entries, d)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, err
	}
	err = s.db.QueryRow(ctx, countDeliveries, tenant, id, maxTotal).Scan(&total)
	return entries, total, err
}

// GetDelivery implements webhook.Store.
func (s *Store) GetDelivery(ctx context.Context, tenant, id, delivery string) (*webhook.Ready, error) {
	rows, err := s.db.Query(ctx, getDelivery, tenant, id, delivery)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, errors.Join(rows.Err(), fault.NoSuch("webhook delivery"))
	}
	r := &webhook.Ready{}
	return r, scanDelivery(rows, &r.Delivery, &r.Body)
}

// ListDeadLetters implements webhook.Store.
func (s *Store) ListDeadLetters(ctx context.Context, event, before string, limit int) (dead []webhook.Dead, err error) {
	query, args := listDead, []any(nil)
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
		var d webhook.Dead
		if err := scanDelivery(rows, &d.Delivery, &d.TenantID, &d.Body); err != nil {
			return nil, err
		}
		dead = append(dead, d)
	}
	return dead, rows.Err()
}

// ClearDeadTx implements webhook.Store.
func (s *Store) ClearDeadTx(tx txn.Tx, tenant, webhookID, delivery string) (bool, error) {
	n, err := sqldb.From(tx).Exec(clearDead, tenant, webhookID, delivery)
	return n > 0, err
}
