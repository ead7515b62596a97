package webhooksql

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

// deletedAtOnce is how many rows one transaction deletes.
const deletedAtOnce = 500

const nextSubscription = `SELECT tenant_id, webhook_id FROM webhooks WHERE (tenant_id, webhook_id) > (?, ?)
	ORDER BY tenant_id, webhook_id LIMIT 1`

// DeleteBefore implements webhook.Store. Ids sort by time, so that old rows are
// at the beginning of each subscription's deliveries and each tenant's events.
func (s *Store) DeleteBefore(ctx context.Context, before time.Time) error {
	oldest := ident.At(before, "")
	var tenant, id string
	for {
		last := tenant
		err := s.db.QueryRow(ctx, nextSubscription, tenant, id).Scan(&tenant, &id)
		done := errors.Is(err, sql.ErrNoRows)
		if err != nil && !done {
			return err
		}
		if last != "" && (done || last != tenant) {
			if err := s.deleteAll(ctx, `webhook_events`, `event_id`, ` tenant_id = ? AND event_id < ?`, last, oldest); err != nil {
				return err
			}
		}
		if done {
			break
		}
		const old = ` tenant_id = ? AND webhook_id = ? AND delivery_id < ?`
		if err := s.deleteAll(ctx, `webhook_deliveries`, `delivery_id`, old, tenant, id, oldest); err != nil {
			return err
		}
	}
	return s.db.Write(ctx, func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(`DELETE FROM webhooks WHERE deleted_at > 0 AND deleted_at < ?`, sqldb.Micros(before))
		return err
	})
}

// deleteAll deletes rows, deletedAtOnce in a transaction.
func (s *Store) deleteAll(ctx context.Context, table, key, where string, args ...any) error {
	query := `DELETE FROM ` + table + ` WHERE` + where +
		` AND ` + key + ` IN (SELECT ` + key + ` FROM ` + table + ` WHERE` + where + ` LIMIT ?)`
	args = append(append(append([]any{}, args...), args...), deletedAtOnce)
	for {
		var n int64
		if err := s.db.Write(ctx, func(tx txn.Tx) (err error) {
			n, err = sqldb.From(tx).Exec(query, args...)
			return err
		}); err != nil || n < deletedAtOnce {
			return err
		}
	}
}
