package bridgesql

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/teams/bridge"
)

func scanTask(row sqldb.Row) (t bridge.Task, err error) {
	var body string
	var taken, offer, queued int64
	err = row.Scan(&t.TenantID, &t.TaskID, &t.AgentID, &body, &taken, &offer, &t.Events, &t.Bytes, &queued)
	if err != nil {
		return t, sqldb.NoRowsAs(err, fault.NewNotFound("task"))
	}
	t.Taken, t.OfferAt, t.QueuedAt = taken == 1, sqldb.Time(offer), sqldb.Time(queued)
	var dec sqldb.Decoder
	dec.JSON(body, &t.Body)
	return t, dec.Err()
}

// CreateTaskTx implements bridge.Tasks.
func (s *Store) CreateTaskTx(tx txn.Tx, t *bridge.Task) error {
	body, err := json.Marshal(t.Body)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(insertTask, t.TenantID, t.TaskID, t.AgentID, string(body), 0, sqldb.Micros(t.OfferAt), t.Events, t.Bytes,
		sqldb.Micros(t.QueuedAt))
	return err
}

// GetTask implements bridge.Tasks.
func (s *Store) GetTask(ctx context.Context, tenant, taskID string) (*bridge.Task, error) {
	t, err := scanTask(s.db.QueryRow(ctx, selectTasks+` AND task_id = ?`, tenant, taskID))
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// ListTasks implements bridge.Tasks.
func (s *Store) ListTasks(ctx context.Context, tenant, agentID string, limit int) ([]bridge.Task, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectTasks+` AND agent_id = ? ORDER BY task_id LIMIT ?`, []any{tenant, agentID, limit}, scanTask)
}

// OfferTx implements bridge.Tasks.
func (s *Store) OfferTx(tx txn.Tx, tenant, taskID string, now, again time.Time) (bool, error) {
	n, err := sqldb.From(tx).Exec(`UPDATE bridge_tasks SET offer_at = ?`+oneTask+` AND taken = 0 AND offer_at <= ?`,
		sqldb.Micros(again), tenant, taskID, sqldb.Micros(now))
	return n > 0, err
}

// OfferAllTx implements bridge.Tasks.
func (s *Store) OfferAllTx(tx txn.Tx, tenant, agentID string) error {
	_, err := sqldb.From(tx).Exec(`UPDATE bridge_tasks SET taken = 0, offer_at = 0 WHERE tenant_id = ? AND agent_id = ?`, tenant, agentID)
	return err
}

// CountTx implements bridge.Tasks.
func (s *Store) CountTx(tx txn.Tx, tenant, taskID string, events, bytes int64) (t bridge.Task, err error) {
	t.TenantID, t.TaskID, t.Taken = tenant, taskID, true
	err = sqldb.From(tx).QueryRow(`UPDATE bridge_tasks SET taken = 1, events = events + ?, bytes = bytes + ?`+oneTask+
		` RETURNING events, bytes`, events, bytes, tenant, taskID).Scan(&t.Events, &t.Bytes)
	return t, sqldb.NoRowsAs(err, fault.NewNotFound("task"))
}

// AddEventTx implements bridge.Tasks.
func (s *Store) AddEventTx(tx txn.Tx, tenant, taskID, key string) (bool, error) {
	n, err := sqldb.From(tx).Exec(insertEvent, tenant, taskID, key)
	return n > 0, err
}

// HasEvent implements bridge.Tasks.
func (s *Store) HasEvent(ctx context.Context, tenant, taskID, key string) (bool, error) {
	var n int
	err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM bridge_events WHERE tenant_id = ? AND task_id = ? AND event_key = ?`,
		tenant, taskID, key).Scan(&n)
	return n > 0, err
}

// DeleteTaskTx implements bridge.Tasks.
func (s *Store) DeleteTaskTx(tx txn.Tx, tenant, taskID string) error {
	if _, err := sqldb.From(tx).Exec(`DELETE FROM bridge_events WHERE tenant_id = ? AND task_id = ?`, tenant, taskID); err != nil {
		return err
	}
	_, err := sqldb.From(tx).Exec(`DELETE FROM bridge_tasks`+oneTask, tenant, taskID)
	return err
}
