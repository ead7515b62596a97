// Package retentionsql deletes what is too old on SQL. Which tables have something of a
// run is data: see package personal.
package retentionsql

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/personal"
	"agentd/internal/operation/retention"
	"agentd/internal/store/sqldb"
)

// Store implements retention.Store.
type Store struct {
	db     *sqldb.DB
	tables []personal.Table // that have something of runs
}

var _ retention.Store = (*Store)(nil)

// New uses the table of migration 771, and those of runs that tables declares.
func New(db *sqldb.DB, tables []personal.Table) *Store {
	s := &Store{db: db}
	for _, t := range tables {
		if t.By == personal.Run {
			s.tables = append(s.tables, t)
		}
	}
	return s
}

// ListTenants implements retention.Store.
func (s *Store) ListTenants(ctx context.Context, after string, n int) ([]retention.Tenant, error) {
	return sqldb.Collect(s.db.Reader(ctx),
		`SELECT tenant_id, legal_hold, settings FROM tenants WHERE tenant_id > ? ORDER BY tenant_id LIMIT ?`, []any{after, n}, scanTenant)
}

// GetTenant implements retention.Store.
func (s *Store) GetTenant(ctx context.Context, id string) (retention.Tenant, error) {
	return scanTenant(s.db.QueryRow(ctx, `SELECT tenant_id, legal_hold, settings FROM tenants WHERE tenant_id = ?`, id))
}

func scanTenant(row sqldb.Row) (t retention.Tenant, err error) {
	var settings string
	if err := row.Scan(&t.ID, &t.Held, &settings); err != nil {
		return t, err
	}
	var members map[string]jsontext.Value
	if json.Unmarshal([]byte(settings), &members) == nil && members["max_retention_days"].Kind() == '0' {
		_ = json.Unmarshal(members["max_retention_days"], &t.MaxDays) // of another form: none
	}
	return t, nil
}

// HasHoldTx implements retention.Store.
func (s *Store) HasHoldTx(tx txn.Tx, tenant string) (held bool, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT legal_hold FROM tenants WHERE tenant_id = ?`, tenant).Scan(&held)
	return held, sqldb.NoRowsAs(err, nil)
}

// ListEnded implements retention.Store.
func (s *Store) ListEnded(ctx context.Context, tenant string, before time.Time, after retention.Mark, n int) ([]retention.Ended, error) {
	at := int64(0)
	if !after.At.IsZero() {
		at = sqldb.Micros(after.At)
	}
	return sqldb.Collect(s.db.Reader(ctx), `SELECT completed_at, run_id, COALESCE(session_id, '') FROM runs
		WHERE tenant_id = ? AND completed_at > 0 AND (completed_at, run_id) > (?, ?) AND completed_at < ?
		ORDER BY completed_at, run_id LIMIT ?`, []any{tenant, at, after.RunID, sqldb.Micros(before), n},
		func(row sqldb.Row) (e retention.Ended, err error) {
			var at int64
			err = row.Scan(&at, &e.RunID, &e.SessionID)
			e.At = sqldb.Time(at)
			return e, err
		})
}

// GetMark implements retention.Store.
func (s *Store) GetMark(ctx context.Context, tenant, kind string) (m retention.Mark, err error) {
	var at int64
	err = s.db.QueryRow(ctx, `SELECT at, run_id FROM retention_marks WHERE tenant_id = ? AND kind = ?`, tenant, kind).Scan(&at, &m.RunID)
	if at > 0 {
		m.At = sqldb.Time(at)
	}
	return m, sqldb.NoRowsAs(err, nil)
}

var putMark = sqldb.Insert(`retention_marks`, `tenant_id, kind, at, run_id`) + ` ON CONFLICT (tenant_id, kind) DO UPDATE SET ` +
	sqldb.Excluded(`at, run_id`)

// PutMarkTx implements retention.Store.
func (s *Store) PutMarkTx(tx txn.Tx, tenant, kind string, m retention.Mark) error {
	_, err := sqldb.From(tx).Exec(putMark, tenant, kind, sqldb.Micros(m.At), m.RunID)
	return err
}

// idsOf returns a condition on the ids of runs, and its values after the tenant.
func idsOf(tenant string, runs []retention.Ended) (string, []any) {
	ids := make([]string, len(runs))
	for i := range runs {
		ids[i] = runs[i].RunID
	}
	return sqldb.In(ids, tenant)
}

// DeleteRunsTx implements retention.Store.
func (s *Store) DeleteRunsTx(tx txn.Tx, tenant string, runs []retention.Ended) error {
	in, args := idsOf(tenant, runs)
	t := sqldb.From(tx)
	for _, table := range s.tables {
		text := `DELETE FROM ` + table.Name + ` WHERE tenant_id = ? AND ` + table.Column + in
		if table.Where != "" {
			text += ` AND ` + table.Where
		}
		if _, err := t.Exec(text, args...); err != nil {
			return err
		}
	}
	return nil
}

// DeleteEventsTx implements retention.Store.
func (s *Store) DeleteEventsTx(tx txn.Tx, tenant string, runs []retention.Ended) error {
	in, args := idsOf(tenant, runs)
	_, err := sqldb.From(tx).Exec(`DELETE FROM run_events WHERE tenant_id = ? AND run_id`+in+` AND EXISTS (SELECT 1 FROM run_events AS later
		WHERE later.tenant_id = run_events.tenant_id AND later.run_id = run_events.run_id AND later.last_seq > run_events.last_seq)`, args...)
	return err
}

// ListWithArtifactsTx implements retention.Store.
func (s *Store) ListWithArtifactsTx(tx txn.Tx, tenant string, runs []retention.Ended) ([]string, error) {
	in, args := idsOf(tenant, runs)
	rows, err := sqldb.From(tx).Query(`SELECT DISTINCT run_id FROM run_artifacts WHERE tenant_id = ? AND run_id`+in, args...)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// DeleteAuditTx implements retention.Store.
func (s *Store) DeleteAuditTx(tx txn.Tx, tenant string, before time.Time, n int) (int64, error) {
	return sqldb.From(tx).Exec(`DELETE FROM audit_log WHERE tenant_id = ? AND (at, entry_id) IN (
		SELECT at, entry_id FROM audit_log WHERE tenant_id = ? AND at < ? ORDER BY at, entry_id LIMIT ?)`,
		tenant, tenant, sqldb.Micros(before), n)
}

// DeleteFeedTx implements retention.Store.
func (s *Store) DeleteFeedTx(tx txn.Tx, tenant string, before time.Time, n int) (int64, error) {
	return sqldb.From(tx).Exec(`DELETE FROM feed_entries WHERE tenant_id = ? AND (at, feed_id) IN (
		SELECT at, feed_id FROM feed_entries WHERE tenant_id = ? AND at < ? ORDER BY at, feed_id LIMIT ?)`,
		tenant, tenant, sqldb.Micros(before), n)
}
