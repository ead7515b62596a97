// Package sensorsql keeps sensors and the calls that they received on SQL.
package sensorsql

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/execution/sensor"
	"agentd/internal/store/sqldb"
)

// Store keeps sensors; it implements sensor.Store.
type Store struct{ db *sqldb.DB }

var _ sensor.Store = (*Store)(nil)

// New uses the tables of migration 24.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	sensorColumns = `tenant_id, webhook_id, agent_id, made_by_run, instructions, sealed, max_triggers, triggers,
		expires_at, ended_at, created_at, last_triggered_at`
	selectSensors = `SELECT ` + sensorColumns + ` FROM sensors`
	oneSensor     = ` WHERE tenant_id = ? AND webhook_id = ?`

	countActive = `SELECT COUNT(*), COALESCE(SUM(CASE WHEN agent_id = ? THEN 1 ELSE 0 END), 0) FROM sensors
		WHERE tenant_id = ? AND ended_at = 0 AND (expires_at = 0 OR expires_at > ?)`
	deleteEnded = `DELETE FROM sensors
		WHERE tenant_id = ? AND (ended_at > 0 AND ended_at < ? OR expires_at > 0 AND expires_at < ?)`
	deleteOrphanedCalls = `DELETE FROM sensor_calls
		WHERE tenant_id = ? AND webhook_id NOT IN (SELECT webhook_id FROM sensors WHERE tenant_id = ?)`
	claimTrigger = `UPDATE sensors SET triggers = triggers + 1, last_triggered_at = ?,
			ended_at = CASE WHEN max_triggers > 0 AND triggers + 1 >= max_triggers THEN CAST(? AS BIGINT) ELSE 0 END` + oneSensor + `
		AND ended_at = 0 AND (max_triggers = 0 OR triggers < max_triggers) AND (expires_at = 0 OR expires_at > ?)`
)

var (
	insertSensor = sqldb.Insert(`sensors`, sensorColumns) + ` ON CONFLICT DO NOTHING`
	insertCall   = sqldb.Insert(`sensor_calls`, `tenant_id, webhook_id, call_hash, run_id, at`) + ` ON CONFLICT DO NOTHING`
)

func scanSensor(row sqldb.Row) (*sensor.Sensor, error) {
	s := &sensor.Sensor{}
	var expires, ended, created, last int64
	err := row.Scan(&s.TenantID, &s.ID, &s.AgentID, &s.CreatedByRun, &s.Instructions, &s.Sealed, &s.MaxTriggers, &s.Triggers,
		&expires, &ended, &created, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	s.ExpiresAt, s.EndedAt = sqldb.Time(expires), sqldb.Time(ended)
	s.CreatedAt, s.LastTriggeredAt = sqldb.Time(created), sqldb.Time(last)
	return s, err
}

// CreateTx implements sensor.Store.
func (s *Store) CreateTx(tx txn.Tx, of *sensor.Sensor) (bool, error) {
	sealed := of.Sealed
	if sealed == nil {
		sealed = []byte{}
	}
	n, err := sqldb.From(tx).Exec(insertSensor,
		of.TenantID, of.ID, of.AgentID, of.CreatedByRun, of.Instructions, sealed, of.MaxTriggers, of.Triggers,
		sqldb.Micros(of.ExpiresAt), sqldb.Micros(of.EndedAt), sqldb.Micros(of.CreatedAt), sqldb.Micros(of.LastTriggeredAt))
	return n > 0, err
}

// CountActiveTx implements sensor.Store.
func (s *Store) CountActiveTx(tx txn.Tx, tenant, agentID string, now time.Time) (all, ofAgent int, err error) {
	t := sqldb.From(tx)
	if err := t.LockTenant(tenant); err != nil {
		return 0, 0, err
	}
	err = t.QueryRow(countActive, agentID, tenant, sqldb.Micros(now)).Scan(&all, &ofAgent)
	return all, ofAgent, err
}

// Get implements sensor.Store.
func (s *Store) Get(ctx context.Context, tenant, id string) (*sensor.Sensor, error) {
	return scanSensor(s.db.QueryRow(ctx, selectSensors+oneSensor, tenant, id))
}

// GetByID implements sensor.Store.
func (s *Store) GetByID(ctx context.Context, id string) (*sensor.Sensor, error) {
	return scanSensor(s.db.QueryRow(ctx, selectSensors+` WHERE webhook_id = ?`, id))
}

// List implements sensor.Store.
func (s *Store) List(ctx context.Context, tenant, after string, limit int) ([]sensor.Sensor, error) {
	query, args := selectSensors+` WHERE tenant_id = ?`, []any{tenant}
	if after != "" {
		query, args = query+` AND webhook_id < ?`, append(args, after)
	}
	query += ` ORDER BY webhook_id DESC LIMIT ?`
	return sqldb.Collect(s.db.Reader(ctx), query, append(args, limit), func(row sqldb.Row) (sensor.Sensor, error) {
		of, err := scanSensor(row)
		if err != nil {
			return sensor.Sensor{}, err
		}
		return *of, nil
	})
}

// Count implements sensor.Store.
func (s *Store) Count(ctx context.Context, tenant string) (n int, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM sensors WHERE tenant_id = ?`, tenant).Scan(&n)
	return n, err
}

// DeleteTx implements sensor.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant, id string) (bool, error) {
	t := sqldb.From(tx)
	n, err := t.Exec(`DELETE FROM sensors`+oneSensor, tenant, id)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = t.Exec(`DELETE FROM sensor_calls`+oneSensor, tenant, id)
	return true, err
}

// EndTx implements sensor.Store.
func (s *Store) EndTx(tx txn.Tx, tenant, agentID string, at time.Time) error {
	_, err := sqldb.From(tx).Exec(`UPDATE sensors SET ended_at = ? WHERE tenant_id = ? AND agent_id = ? AND ended_at = 0`,
		sqldb.Micros(at), tenant, agentID)
	return err
}

// DeleteEndedTx implements sensor.Store.
func (s *Store) DeleteEndedTx(tx txn.Tx, tenant string, before time.Time) error {
	t, at := sqldb.From(tx), sqldb.Micros(before)
	n, err := t.Exec(deleteEnded, tenant, at, at)
	if err != nil || n == 0 {
		return err
	}
	_, err = t.Exec(deleteOrphanedCalls, tenant, tenant)
	return err
}

// ClaimTx implements sensor.Store.
func (s *Store) ClaimTx(tx txn.Tx, tenant, id string, now time.Time) (bool, error) {
	at := sqldb.Micros(now)
	n, err := sqldb.From(tx).Exec(claimTrigger, at, at, tenant, id, at)
	return n > 0, err
}

// CreateCallTx implements sensor.Store.
func (s *Store) CreateCallTx(tx txn.Tx, c *sensor.Call, before time.Time) (bool, error) {
	t := sqldb.From(tx)
	_, err := t.Exec(`DELETE FROM sensor_calls`+oneSensor+` AND at < ?`, c.TenantID, c.SensorID, sqldb.Micros(before))
	if err != nil {
		return false, err
	}
	n, err := t.Exec(insertCall, c.TenantID, c.SensorID, c.Hash, c.RunID, sqldb.Micros(c.At))
	return n > 0, err
}

// GetCallRun implements sensor.Store.
func (s *Store) GetCallRun(ctx context.Context, tenant, id, hash string, since time.Time) (runID string, err error) {
	err = s.db.QueryRow(ctx, `SELECT run_id FROM sensor_calls`+oneSensor+` AND call_hash = ? AND at >= ?`,
		tenant, id, hash, sqldb.Micros(since)).Scan(&runID)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return runID, err
}
