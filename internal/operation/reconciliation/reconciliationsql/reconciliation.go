// Package reconciliationsql reads runs and keeps comparisons on SQL.
package reconciliationsql

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/quota"
	"agentd/internal/operation/reconciliation"
	"agentd/internal/store/sqldb"
)

// Store implements reconciliation.Store.
type Store struct{ db *sqldb.DB }

var _ reconciliation.Store = (*Store)(nil)

// New uses the tables of migration 820, and reads those of companies and runs.
func New(db *sqldb.DB) *Store { return &Store{db} }

// ListTenants implements reconciliation.Store.
func (s *Store) ListTenants(ctx context.Context, after string, n int) ([]string, error) {
	return sqldb.Collect(s.db.Reader(ctx),
		`SELECT tenant_id FROM tenants WHERE tenant_id > ? AND status <> 'deleted' ORDER BY tenant_id LIMIT ?`, []any{after, n},
		func(row sqldb.Row) (id string, err error) { return id, row.Scan(&id) })
}

// HasTenant implements reconciliation.Store.
func (s *Store) HasTenant(ctx context.Context, id string) (found bool, err error) {
	err = s.db.QueryRow(ctx, `SELECT 1 = 1 FROM tenants WHERE tenant_id = ?`, id).Scan(&found)
	return found, sqldb.NoRowsAs(err, nil)
}

// ListRuns implements reconciliation.Store.
func (s *Store) ListRuns(
	ctx context.Context, tenant string, after reconciliation.Place, before time.Time, n int,
) ([]reconciliation.Run, error) {
	return sqldb.Collect(s.db.Reader(ctx), `SELECT created_at, run_id, completed_at, session_id, metrics, metadata FROM runs
		WHERE tenant_id = ? AND (created_at, run_id) > (?, ?) AND created_at < ? ORDER BY created_at, run_id LIMIT ?`,
		[]any{tenant, sqldb.Micros(after.At), after.RunID, sqldb.Micros(before), n}, scanRun)
}

func scanRun(row sqldb.Row) (r reconciliation.Run, err error) {
	var created, completed int64
	var metrics, metadata string
	var rec run.Record
	if err := row.Scan(&created, &r.RunID, &completed, &rec.SessionID, &metrics, &metadata); err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(metrics), &rec.Metrics); err != nil {
		return r, err
	}
	rec.Metadata = []byte(metadata)
	r.At, r.CompletedAt, r.Source = sqldb.Time(created), sqldb.Time(completed), rec.Source()
	m := &rec.Metrics
	r.Use = quota.Use{
		ModelCalls: m.LLMCallsCount, InputTokens: m.InputTokens, OutputTokens: m.OutputTokens, ToolCalls: m.ToolCallsCount,
	}
	if r.Unpriced = m.TotalCostUSD == nil && m.LLMCallsCount > 0; m.TotalCostUSD != nil {
		r.Use.CostNano = int64(math.Round(*m.TotalCostUSD * 1e9))
	}
	return r, nil
}

// GetResult implements reconciliation.Store.
func (s *Store) GetResult(ctx context.Context, tenant string) (*reconciliation.Result, error) {
	return stored[reconciliation.Result](s.db.QueryRow(ctx, `SELECT body FROM reconciliations WHERE tenant_id = ?`, tenant))
}

// stored reads a body; nil if there is none.
func stored[T any](row sqldb.Row) (*T, error) {
	var body string
	if err := row.Scan(&body); errors.Is(err, sql.ErrNoRows) || err == nil && body == "" {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	value := new(T)
	return value, json.Unmarshal([]byte(body), value)
}

// A company that was deleted meanwhile gets no row.
var putResult = `INSERT INTO reconciliations (tenant_id, body) SELECT tenant_id, CAST(? AS TEXT) FROM tenants
	WHERE tenant_id = ? AND status <> 'deleted' ON CONFLICT (tenant_id) DO UPDATE SET ` + sqldb.Excluded(`body`)

// PutResultTx implements reconciliation.Store.
func (s *Store) PutResultTx(tx txn.Tx, tenant string, r *reconciliation.Result) error {
	body, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(putResult, string(body), tenant)
	return err
}

// GetTurn implements reconciliation.Store.
func (s *Store) GetTurn(ctx context.Context) (*reconciliation.Turn, error) {
	return stored[reconciliation.Turn](s.db.QueryRow(ctx, `SELECT body FROM reconciliation_turns WHERE id = 'last'`))
}

var insertTurn = sqldb.Insert(`reconciliation_turns`, `id, started_at, body`) + ` ON CONFLICT (id) DO `

// PutTurnTx implements reconciliation.Store.
func (s *Store) PutTurnTx(tx txn.Tx, t *reconciliation.Turn) error {
	body, err := json.Marshal(t, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(insertTurn+`UPDATE SET `+sqldb.Excluded(`body`), "last", 0, string(body))
	return err
}

// ClaimTx implements reconciliation.Store.
func (s *Store) ClaimTx(tx txn.Tx, since, now time.Time) (bool, error) {
	t := sqldb.From(tx)
	if _, err := t.Exec(insertTurn+`NOTHING`, "last", 0, ""); err != nil {
		return false, err
	}
	n, err := t.Exec(`UPDATE reconciliation_turns SET started_at = ? WHERE id = 'last' AND started_at <= ?`,
		sqldb.Micros(now), sqldb.Micros(since))
	return n == 1, err
}
