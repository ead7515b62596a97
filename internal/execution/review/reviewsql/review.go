// Package reviewsql keeps what people note about runs on SQL.
package reviewsql

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/txn"
	"agentd/internal/execution/review"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

// Store keeps checkpoints and feedback. It implements review.Store.
type Store struct{ db *sqldb.DB }

var _ review.Store = (*Store)(nil)

// New uses the tables of migration 210.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	checkpointColumns = `tenant_id, run_id, checkpoint_id, step_seq, status, metrics, created_by, created_at`
	listCheckpoints   = `SELECT ` + checkpointColumns + ` FROM run_checkpoints WHERE tenant_id = ? AND run_id = ?
		ORDER BY checkpoint_id LIMIT ?`
	feedbackColumns = `tenant_id, run_id, message_id, user_id, reaction, reason, updated_at`
	deleteFeedback  = `DELETE FROM run_feedback WHERE tenant_id = ? AND run_id = ? AND message_id = ? AND user_id = ?`
	// While an item is held, its due time is the end of the lease.
	itemOf     = `SELECT tenant_id, due_at, owner FROM work WHERE kind = ? AND work_key = ?`
	countAhead = `SELECT COUNT(*) FROM (SELECT 1 FROM work WHERE kind = ? AND tenant_id = ? AND due_at < ? LIMIT ?) ahead`
)

var (
	insertCheckpoint = sqldb.Insert(`run_checkpoints`, checkpointColumns)
	putFeedback      = sqldb.Insert(`run_feedback`, feedbackColumns) + ` ON CONFLICT (tenant_id, run_id, message_id, user_id) DO UPDATE SET ` +
		sqldb.Excluded(`reaction, reason, updated_at`)
)

// CreateCheckpointTx implements review.Store.
func (s *Store) CreateCheckpointTx(tx txn.Tx, c *review.Checkpoint) error {
	metrics, err := json.Marshal(c.Metrics)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(insertCheckpoint, c.TenantID, c.RunID, c.CheckpointID, c.Step, string(c.Status), string(metrics), c.CreatedBy,
		sqldb.Micros(c.CreatedAt))
	return err
}

// ListCheckpoints implements review.Store.
func (s *Store) ListCheckpoints(ctx context.Context, tenant, id string, limit int) ([]review.Checkpoint, error) {
	return sqldb.Collect(s.db.Reader(ctx), listCheckpoints, []any{tenant, id, limit}, func(row sqldb.Row) (c review.Checkpoint, err error) {
		var status, metrics string
		var created int64
		if err := row.Scan(&c.TenantID, &c.RunID, &c.CheckpointID, &c.Step, &status, &metrics, &c.CreatedBy, &created); err != nil {
			return c, err
		}
		c.StepSeq, c.Status, c.CreatedAt = c.Step, run.Status(status), sqldb.Time(created)
		var dec sqldb.Decoder
		dec.JSON(metrics, &c.Metrics)
		return c, dec.Err()
	})
}

// PutFeedbackTx implements review.Store.
func (s *Store) PutFeedbackTx(tx txn.Tx, f *review.Feedback) error {
	_, err := sqldb.From(tx).Exec(putFeedback, f.TenantID, f.RunID, f.MessageID, f.UserID, f.Reaction, f.Reason, sqldb.Micros(f.UpdatedAt))
	return err
}

// DeleteFeedbackTx implements review.Store.
func (s *Store) DeleteFeedbackTx(tx txn.Tx, tenant, run, message, user string) error {
	_, err := sqldb.From(tx).Exec(deleteFeedback, tenant, run, message, user)
	return err
}

// ListFeedback implements review.Store.
func (s *Store) ListFeedback(ctx context.Context, tenant, run, message, user string, limit int) ([]review.Feedback, error) {
	query, args := `SELECT `+feedbackColumns+` FROM run_feedback WHERE tenant_id = ? AND run_id = ?`, []any{tenant, run}
	if message != "" {
		query, args = query+` AND message_id = ?`, append(args, message)
	}
	if user != "" {
		query, args = query+` AND user_id = ?`, append(args, user)
	}
	return sqldb.Collect(s.db.Reader(ctx), query+` ORDER BY message_id, user_id LIMIT ?`, append(args, limit),
		func(row sqldb.Row) (f review.Feedback, err error) {
			var updated int64
			err = row.Scan(&f.TenantID, &f.RunID, &f.MessageID, &f.UserID, &f.Reaction, &f.Reason, &updated)
			f.UpdatedAt = sqldb.Time(updated)
			return f, err
		})
}

// CountAhead implements review.Store.
func (s *Store) CountAhead(ctx context.Context, kind, key string, limit int) (ahead int, waits bool, err error) {
	var tenant, owner string
	var due int64
	if err := s.db.QueryRow(ctx, itemOf, kind, key).Scan(&tenant, &due, &owner); err != nil {
		return 0, false, sqldb.NoRowsAs(err, nil)
	}
	if owner != "" { // it is held, and about to be started
		return 0, false, nil
	}
	err = s.db.QueryRow(ctx, countAhead, kind, tenant, due, limit).Scan(&ahead)
	return ahead, true, err
}
