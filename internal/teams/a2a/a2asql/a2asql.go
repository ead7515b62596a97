// Package a2asql keeps the tasks of agents of other systems on SQL, and which agents
// those systems may find.
package a2asql

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/teams/a2a"
)

// Store keeps tasks; it implements a2a.Store.
type Store struct{ db *sqldb.DB }

var _ a2a.Store = (*Store)(nil)

// New uses the tables of migration 155.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	taskColumns = `tenant_id, task_id, agent_id, context_id, state, changes, messages, metadata, created_at, updated_at`
	selectTasks = `SELECT ` + taskColumns + ` FROM a2a_tasks`
	oneTask     = ` WHERE tenant_id = ? AND task_id = ?`

	pushColumns  = `tenant_id, task_id, config_id, url, version, sealed, sent, attempts, created_at`
	selectPushes = `SELECT ` + pushColumns + ` FROM a2a_pushes`
	onePush      = oneTask + ` AND config_id = ?`
)

var (
	insertTask = sqldb.Insert(`a2a_tasks`, taskColumns)
	putPush    = sqldb.Insert(`a2a_pushes`, pushColumns) + ` ON CONFLICT (tenant_id, task_id, config_id) DO UPDATE SET ` +
		sqldb.Excluded(`url, version, sealed, sent, attempts`)
	publish = sqldb.Insert(`a2a_published`, `agent_id, tenant_id`) + ` ON CONFLICT (agent_id) DO NOTHING`
)

func scanTask(row sqldb.Row) (r a2a.Record, err error) {
	var messages, metadata string
	var created, updated int64
	err = row.Scan(&r.TenantID, &r.TaskID, &r.AgentID, &r.ContextID, &r.State, &r.Changes, &messages, &metadata, &created, &updated)
	if err != nil {
		return r, sqldb.NoRowsAs(err, fault.NewNotFound("task"))
	}
	r.CreatedAt, r.UpdatedAt, r.Metadata = sqldb.Time(created), sqldb.Time(updated), schema.Object(metadata)
	var dec sqldb.Decoder
	dec.JSON(messages, &r.Messages)
	return r, dec.Err()
}

// CreateTx implements a2a.Store.
func (s *Store) CreateTx(tx txn.Tx, r *a2a.Record) error {
	messages, err := json.Marshal(r.Messages)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(insertTask, r.TenantID, r.TaskID, r.AgentID, r.ContextID, string(r.State), r.Changes,
		string(messages), string(r.Metadata), sqldb.Micros(r.CreatedAt), sqldb.Micros(r.UpdatedAt))
	return err
}

// Get implements a2a.Store.
func (s *Store) Get(ctx context.Context, tenant, taskID string) (*a2a.Record, error) {
	r, err := scanTask(s.db.QueryRow(ctx, selectTasks+oneTask, tenant, taskID))
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// List implements a2a.Store.
func (s *Store) List(ctx context.Context, tenant string, w page.Window) ([]a2a.Record, error) {
	query, args := selectTasks+` WHERE tenant_id = ?`, []any{tenant}
	if w.After != "" {
		query, args = query+` AND task_id < ?`, append(args, w.After)
	}
	return sqldb.Collect(s.db.Reader(ctx), query+` ORDER BY task_id DESC LIMIT ?`, append(args, w.Limit), scanTask)
}

// GetLastCompleted implements a2a.Store.
func (s *Store) GetLastCompleted(ctx context.Context, tenant, agentID, contextID string) (id string, err error) {
	err = s.db.QueryRow(ctx, `SELECT task_id FROM a2a_tasks WHERE tenant_id = ? AND context_id = ? AND agent_id = ? AND state = ?
		ORDER BY task_id DESC LIMIT 1`, tenant, contextID, agentID, string(a2a.Completed)).Scan(&id)
	return id, sqldb.NoRowsAs(err, nil)
}

// UpdateStateTx implements a2a.Store.
func (s *Store) UpdateStateTx(tx txn.Tx, tenant, taskID string, to a2a.State, at time.Time) (bool, error) {
	n, err := sqldb.From(tx).Exec(`UPDATE a2a_tasks SET state = ?, changes = changes + 1, updated_at = ?`+oneTask+` AND state <> ?`,
		string(to), sqldb.Micros(at), tenant, taskID, string(to))
	return n > 0, err
}

// UpdateMessagesTx implements a2a.Store.
func (s *Store) UpdateMessagesTx(tx txn.Tx, tenant, taskID string, all []a2a.Message) error {
	messages, err := json.Marshal(all)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(`UPDATE a2a_tasks SET messages = ?`+oneTask, string(messages), tenant, taskID)
	return err
}

// CountChangesTx implements a2a.Store.
func (s *Store) CountChangesTx(tx txn.Tx, tenant, taskID string) (n int64, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT changes FROM a2a_tasks`+oneTask, tenant, taskID).Scan(&n)
	return n, sqldb.NoRowsAs(err, fault.NewNotFound("task"))
}

func scanPush(row sqldb.Row) (p a2a.Push, err error) {
	var created int64
	err = row.Scan(&p.TenantID, &p.TaskID, &p.ConfigID, &p.URL, &p.Version, &p.Sealed, &p.Sent, &p.Attempts, &created)
	p.CreatedAt = sqldb.Time(created)
	return p, sqldb.NoRowsAs(err, fault.NewNotFound("push notification config"))
}

// PutPushTx implements a2a.Store.
func (s *Store) PutPushTx(tx txn.Tx, p *a2a.Push) error {
	_, err := sqldb.From(tx).Exec(putPush, p.TenantID, p.TaskID, p.ConfigID, p.URL, p.Version, p.Sealed, p.Sent, p.Attempts,
		sqldb.Micros(p.CreatedAt))
	return err
}

// GetPush implements a2a.Store.
func (s *Store) GetPush(ctx context.Context, tenant, taskID, configID string) (*a2a.Push, error) {
	p, err := scanPush(s.db.QueryRow(ctx, selectPushes+onePush, tenant, taskID, configID))
	if err != nil {
		return nil, err
	}
	return &p, nil
}

const listPushes = selectPushes + oneTask + ` ORDER BY config_id`

// ListPushes implements a2a.Store.
func (s *Store) ListPushes(ctx context.Context, tenant, taskID string) ([]a2a.Push, error) {
	return sqldb.Collect(s.db.Reader(ctx), listPushes, []any{tenant, taskID}, scanPush)
}

// ListPushesTx implements a2a.Store.
func (s *Store) ListPushesTx(tx txn.Tx, tenant, taskID string) ([]a2a.Push, error) {
	return sqldb.Collect(sqldb.From(tx).Query, listPushes, []any{tenant, taskID}, scanPush)
}

// UpdateSentTx implements a2a.Store.
func (s *Store) UpdateSentTx(tx txn.Tx, p *a2a.Push) error {
	_, err := sqldb.From(tx).Exec(`UPDATE a2a_pushes SET sent = ?, attempts = ?`+onePush, p.Sent, p.Attempts, p.TenantID, p.TaskID, p.ConfigID)
	return err
}

// DeletePushTx implements a2a.Store.
func (s *Store) DeletePushTx(tx txn.Tx, tenant, taskID, configID string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM a2a_pushes`+onePush, tenant, taskID, configID)
	return err
}

// SetPublishedTx stores whether agents of other systems may find an agent.
func (s *Store) SetPublishedTx(tx txn.Tx, tenant, agentID string, is bool) error {
	var err error
	if is {
		_, err = sqldb.From(tx).Exec(publish, agentID, tenant)
	} else {
		_, err = sqldb.From(tx).Exec(`DELETE FROM a2a_published WHERE agent_id = ? AND tenant_id = ?`, agentID, tenant)
	}
	return err
}

// GetTenant returns the tenant of a published agent. Errors: fault.NotFound.
func (s *Store) GetTenant(ctx context.Context, agentID string) (tenant string, err error) {
	err = s.db.QueryRow(ctx, `SELECT tenant_id FROM a2a_published WHERE agent_id = ?`, agentID).Scan(&tenant)
	return tenant, sqldb.NoRowsAs(err, fault.NewNotFound("agent"))
}
