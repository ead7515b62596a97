// Package bridgesql keeps machines and their tasks on SQL.
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

// Store keeps machines and tasks; it implements bridge.Store.
type Store struct{ db *sqldb.DB }

var _ bridge.Store = (*Store)(nil)

// New uses the tables of migration 185.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	machineColumns = `tenant_id, machine_id, agent_id, user_id, facts, registered_at, seen_at, left_at, deleted_at`
	selectMachines = `SELECT ` + machineColumns + ` FROM bridge_machines WHERE tenant_id = ?`
	oneMachine     = ` WHERE tenant_id = ? AND machine_id = ?`

	taskColumns = `tenant_id, task_id, agent_id, body, taken, offer_at, events, bytes, queued_at`
	selectTasks = `SELECT ` + taskColumns + ` FROM bridge_tasks WHERE tenant_id = ?`
	oneTask     = ` WHERE tenant_id = ? AND task_id = ?`
)

var (
	claimMachine = sqldb.Insert(`bridge_machines`, machineColumns) + ` ON CONFLICT (tenant_id, machine_id) DO NOTHING`
	insertTask   = sqldb.Insert(`bridge_tasks`, taskColumns) + ` ON CONFLICT (tenant_id, task_id) DO NOTHING`
	insertEvent  = sqldb.Insert(`bridge_events`, `tenant_id, task_id, event_key`) + ` ON CONFLICT (tenant_id, task_id, event_key) DO NOTHING`
)

func scanMachine(row sqldb.Row) (m bridge.Machine, err error) {
	var facts string
	var registered, seen, left, deleted int64
	err = row.Scan(&m.TenantID, &m.MachineID, &m.AgentID, &m.UserID, &facts, &registered, &seen, &left, &deleted)
	if err != nil {
		return m, sqldb.NoRowsAs(err, fault.NewNotFound("machine"))
	}
	m.RegisteredAt, m.SeenAt, m.LeftAt, m.DeletedAt = sqldb.Time(registered), sqldb.Time(seen), sqldb.Time(left), sqldb.Time(deleted)
	var dec sqldb.Decoder
	dec.JSON(facts, &m.Facts)
	return m, dec.Err()
}

// ClaimTx implements bridge.Store.
func (s *Store) ClaimTx(tx txn.Tx, m *bridge.Machine) (bool, error) {
	facts, err := json.Marshal(m.Facts)
	if err != nil {
		return false, err
	}
	n, err := sqldb.From(tx).Exec(claimMachine, m.TenantID, m.MachineID, m.AgentID, m.UserID, string(facts),
		sqldb.Micros(m.RegisteredAt), sqldb.Micros(m.SeenAt), sqldb.Micros(m.LeftAt), sqldb.Micros(m.DeletedAt))
	return n > 0, err
}

// LockMachineTx implements bridge.Store.
func (s *Store) LockMachineTx(tx txn.Tx, tenant, machineID string) (*bridge.Machine, error) {
	t := sqldb.From(tx)
	m, err := scanMachine(t.QueryRow(selectMachines+` AND machine_id = ?`+t.ForUpdate(), tenant, machineID))
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// GetMachine implements bridge.Store.
func (s *Store) GetMachine(ctx context.Context, tenant, machineID string) (*bridge.Machine, error) {
	m, err := scanMachine(s.db.QueryRow(ctx, selectMachines+` AND machine_id = ?`, tenant, machineID))
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// ListMachines implements bridge.Store.
func (s *Store) ListMachines(ctx context.Context, tenant string) ([]bridge.Machine, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectMachines+` ORDER BY machine_id LIMIT ?`, []any{tenant, bridge.MaxMachines}, scanMachine)
}

// ListMachinesOfAgent implements bridge.Store.
func (s *Store) ListMachinesOfAgent(ctx context.Context, tenant, agentID string) ([]bridge.Machine, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectMachines+` AND agent_id = ?`, []any{tenant, agentID}, scanMachine)
}

// CountMachinesTx implements bridge.Store.
func (s *Store) CountMachinesTx(tx txn.Tx, tenant string) (n int64, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT COUNT(*) FROM bridge_machines WHERE tenant_id = ?`, tenant).Scan(&n)
	return n, err
}

// UpdateMachineTx implements bridge.Store.
func (s *Store) UpdateMachineTx(tx txn.Tx, m *bridge.Machine) error {
	facts, err := json.Marshal(m.Facts)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(`UPDATE bridge_machines SET facts = ?, seen_at = ?, left_at = ?`+oneMachine,
		string(facts), sqldb.Micros(m.SeenAt), sqldb.Micros(m.LeftAt), m.TenantID, m.MachineID)
	return err
}

// UpdateSeenTx implements bridge.Store.
func (s *Store) UpdateSeenTx(tx txn.Tx, tenant, machineID string, at time.Time) (bool, error) {
	n, err := sqldb.From(tx).Exec(`UPDATE bridge_machines SET seen_at = ?`+oneMachine+` AND left_at = 0 AND deleted_at = 0`,
		sqldb.Micros(at), tenant, machineID)
	return n > 0, err
}

// UpdateDeletedTx implements bridge.Store.
func (s *Store) UpdateDeletedTx(tx txn.Tx, tenant, agentID string, at time.Time) error {
	_, err := sqldb.From(tx).Exec(`UPDATE bridge_machines SET deleted_at = ? WHERE tenant_id = ? AND agent_id = ?`,
		sqldb.Micros(at), tenant, agentID)
	return err
}

// DeleteMachineTx implements bridge.Store.
func (s *Store) DeleteMachineTx(tx txn.Tx, tenant, machineID string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM bridge_machines`+oneMachine, tenant, machineID)
	return err
}
