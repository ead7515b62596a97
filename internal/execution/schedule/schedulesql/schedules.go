// Package schedulesql keeps the states of schedules on SQL.
package schedulesql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/execution/schedule"
	"agentd/internal/store/sqldb"
)

// Store keeps the states of schedules. It implements schedule.Store.
type Store struct{ db *sqldb.DB }

var _ schedule.Store = (*Store)(nil)

// New uses the tables of migration 8.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	stateColumns = `agent_id, config, status, problem, next_run_at, last_fired_at, last_skipped_at, skip_reason, failures, revision`
	selectState  = `SELECT ` + stateColumns + ` FROM schedules WHERE tenant_id = ? AND agent_id = ?`
	listStates   = `SELECT ` + stateColumns + ` FROM schedules WHERE tenant_id = ? AND agent_id > ? ORDER BY agent_id LIMIT ?`
	listAll      = `SELECT tenant_id, ` + stateColumns + ` FROM schedules
WHERE (tenant_id, agent_id) > (?, ?) ORDER BY tenant_id, agent_id LIMIT ?`
	listRuns = `SELECT run_id FROM schedule_runs WHERE tenant_id = ? AND agent_id = ? ORDER BY run_id LIMIT ?`
)

var (
	putState = sqldb.Insert(`schedules`, `tenant_id, `+stateColumns) +
		` ON CONFLICT (tenant_id, agent_id) DO UPDATE SET ` + sqldb.Excluded(strings.TrimPrefix(stateColumns, `agent_id, `))
	insertRun = sqldb.Insert(`schedule_runs`, `tenant_id, run_id, agent_id, fire_at`) + ` ON CONFLICT (tenant_id, run_id) DO NOTHING`
)

func scanState(tenant string, row sqldb.Row) (*schedule.State, error) {
	st := &schedule.State{TenantID: tenant}
	var next, fired, skipped int64
	err := row.Scan(&st.AgentID, &st.Config, &st.Status, &st.Problem, &next, &fired, &skipped, &st.SkipReason, &st.Failures, &st.Revision)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	st.NextRunAt, st.LastFiredAt, st.LastSkippedAt = sqldb.Time(next), sqldb.Time(fired), sqldb.Time(skipped)
	return st, err
}

// Get implements schedule.Store.
func (s *Store) Get(ctx context.Context, tenant, agentID string) (*schedule.State, error) {
	return scanState(tenant, s.db.QueryRow(ctx, selectState, tenant, agentID))
}

// LockTx implements schedule.Store.
func (s *Store) LockTx(tx txn.Tx, tenant, agentID string) (*schedule.State, error) {
	t := sqldb.From(tx)
	return scanState(tenant, t.QueryRow(selectState+t.ForUpdate(), tenant, agentID))
}

// PutTx implements schedule.Store.
func (s *Store) PutTx(tx txn.Tx, st *schedule.State) error {
	_, err := sqldb.From(tx).Exec(putState, st.TenantID, st.AgentID, st.Config, string(st.Status), st.Problem,
		sqldb.Micros(st.NextRunAt), sqldb.Micros(st.LastFiredAt), sqldb.Micros(st.LastSkippedAt), st.SkipReason, st.Failures, st.Revision)
	return err
}

// DeleteTx implements schedule.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant, agentID string) error {
	t := sqldb.From(tx)
	if _, err := t.Exec(`DELETE FROM schedules WHERE tenant_id = ? AND agent_id = ?`, tenant, agentID); err != nil {
		return err
	}
	_, err := t.Exec(`DELETE FROM schedule_runs WHERE tenant_id = ? AND agent_id = ?`, tenant, agentID)
	return err
}

// List implements schedule.Store.
func (s *Store) List(ctx context.Context, tenant, after string, limit int) ([]schedule.State, error) {
	rows, err := s.db.Query(ctx, listStates, tenant, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []schedule.State
	for rows.Next() {
		st, err := scanState(tenant, rows)
		if err != nil {
			return nil, err
		}
		all = append(all, *st)
	}
	return all, rows.Err()
}

// ListAll implements schedule.Store.
func (s *Store) ListAll(ctx context.Context, afterTenant, afterAgent string, limit int) ([]schedule.State, error) {
	rows, err := s.db.Query(ctx, listAll, afterTenant, afterAgent, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []schedule.State
	for rows.Next() {
		var tenant string
		st, err := scanState("", tenantRow{rows, &tenant})
		if err != nil {
			return nil, err
		}
		st.TenantID = tenant
		all = append(all, *st)
	}
	return all, rows.Err()
}

// tenantRow is a row whose first column is the tenant.
type tenantRow struct {
	sqldb.Row
	tenant *string
}

// Scan implements sqldb.Row.
func (r tenantRow) Scan(dest ...any) error { return r.Row.Scan(append([]any{r.tenant}, dest...)...) }

// Count implements schedule.Store.
func (s *Store) Count(ctx context.Context, tenant string) (n int, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM schedules WHERE tenant_id = ?`, tenant).Scan(&n)
	return n, err
}

// CreateRunTx implements schedule.Store.
func (s *Store) CreateRunTx(tx txn.Tx, tenant, agentID, runID string, fire time.Time) error {
	_, err := sqldb.From(tx).Exec(insertRun, tenant, runID, agentID, sqldb.Micros(fire))
	return err
}

// DeleteRunTx implements schedule.Store.
func (s *Store) DeleteRunTx(tx txn.Tx, tenant, runID string) (agentID string, err error) {
	err = sqldb.From(tx).QueryRow(`DELETE FROM schedule_runs WHERE tenant_id = ? AND run_id = ? RETURNING agent_id`,
		tenant, runID).Scan(&agentID)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return agentID, err
}

// ListRuns implements schedule.Store.
func (s *Store) ListRuns(ctx context.Context, tenant, agentID string, limit int) ([]string, error) {
	rows, err := s.db.Query(ctx, listRuns, tenant, agentID, limit)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// CountRunsTx implements schedule.Store.
func (s *Store) CountRunsTx(tx txn.Tx, tenant, agentID string) (n int, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT COUNT(*) FROM schedule_runs WHERE tenant_id = ? AND agent_id = ?`, tenant, agentID).Scan(&n)
	return n, err
}
