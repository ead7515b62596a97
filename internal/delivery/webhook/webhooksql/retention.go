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

// deleteBatch is how many rows a transaction deletes.
const deleteBatch = 500

// DeleteBefore implements webhook.Store. Ids contain their time, so old rows are at
// the beginning of each subscription's log, and of each tenant's events.
func (s *Store) DeleteBefore(ctx context.Context, before time.Time) error {
	oldest := ident.At(before, "")
	var tenant, id string
	for {
		was := tenant
		err := s.db.QueryRow(ctx, nextWebhook, tenant, id).Scan(&tenant, &id)
		done := errors.Is(err, sql.ErrNoRows)
		if err != nil && !done {
			return err
		}
		if was != "" && (done || was != tenant) {
			if err := s.drop(ctx, `webhook_events`, `event_id`, ` tenant_id = ? AND event_id < ?`, was, oldest); err != nil {
				return err
			}
		}
		if done {
			break
		}
		const old = ` tenant_id = ? AND webhook_id = ? AND delivery_id < ?`
		if err := s.drop(ctx, `webhook_deliveries`, `delivery_id`, old, tenant, id, oldest); err != nil {
			return err
		}
	}
	return s.db.Write(ctx, func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(`DELETE FROM webhooks WHERE deleted_at > 0 AND deleted_at < ?`, sqldb.Micros(before))
		return err
	})
}

// drop deletes rows, deleteBatch in a transaction.
func (s *Store) drop(ctx context.Context, table, key, where string, args ...any) error {
	query := `DELETE FROM ` + table + ` WHERE` + where +
		` AND ` + key + ` IN (SELECT ` + key + ` FROM ` + table + ` WHERE` + where + ` LIMIT ?)`
	args = append(append(append([]any{}, args...), args...), deleteBatch)
	for {
		var n int64
		if err := s.db.Write(ctx, func(tx txn.Tx) (err error) {
			n, err = sqldb.From(tx).Exec(query, args...)
			return err
		}); err != nil || n < deleteBatch {
			return err
		}
	}
}
