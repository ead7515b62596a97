package runsql

import (
	"context"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

const (
	deleteModelWait = `DELETE FROM model_waits WHERE tenant_id = ? AND run_id = ?`
	selectWaits     = `SELECT tenant_id, run_id FROM model_waits WHERE endpoint = ? ORDER BY run_id LIMIT ?`
	takeModelWait   = `DELETE FROM model_waits WHERE tenant_id = ? AND run_id = ? AND endpoint = ?`
	selectLimits    = `SELECT tenant_id, run_id, tokens FROM model_waits WHERE endpoint = ? AND tenant_id = ? ORDER BY run_id LIMIT ?`
	// ';' follows ':'.
	selectWaiters = `SELECT endpoint, tenant_id, MIN(run_id) FROM model_waits WHERE endpoint >= 'limit:' AND endpoint < 'limit;'
GROUP BY endpoint, tenant_id LIMIT ?`
)

var insertModelWait = sqldb.Insert(`model_waits`, `tenant_id, run_id, endpoint, tokens`) +
	` ON CONFLICT (tenant_id, run_id) DO UPDATE SET endpoint = excluded.endpoint, tokens = excluded.tokens`

// CreateModelWait implements run.Store.
func (s *Store) CreateModelWait(w run.ModelWait) txn.Op {
	return func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(insertModelWait, w.TenantID, w.RunID, w.Endpoint, w.Tokens)
		return err
	}
}

// DeleteModelWait implements run.Store.
func (s *Store) DeleteModelWait(tenant, id string) txn.Op {
	return func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(deleteModelWait, tenant, id)
		return err
	}
}

// ListModelWaits implements run.Store.
func (s *Store) ListModelWaits(ctx context.Context, endpoint string, limit int) ([]run.ModelWait, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectWaits, []any{endpoint, limit}, func(row sqldb.Row) (run.ModelWait, error) {
		w := run.ModelWait{Endpoint: endpoint}
		err := row.Scan(&w.TenantID, &w.RunID)
		return w, err
	})
}

// ConsumeModelWaitTx implements run.Store.
func (s *Store) ConsumeModelWaitTx(tx txn.Tx, w run.ModelWait) (bool, error) {
	n, err := sqldb.From(tx).Exec(takeModelWait, w.TenantID, w.RunID, w.Endpoint)
	return n > 0, err
}

// ListLimitWaits implements run.Store.
func (s *Store) ListLimitWaits(ctx context.Context, endpoint, tenant string, limit int) ([]run.ModelWait, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectLimits, []any{endpoint, tenant, limit}, func(row sqldb.Row) (run.ModelWait, error) {
		w := run.ModelWait{Endpoint: endpoint}
		err := row.Scan(&w.TenantID, &w.RunID, &w.Tokens)
		return w, err
	})
}

// ListLimitWaiters implements run.Store.
func (s *Store) ListLimitWaiters(ctx context.Context, limit int) ([]run.ModelWait, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectWaiters, []any{limit}, func(row sqldb.Row) (w run.ModelWait, err error) {
		err = row.Scan(&w.Endpoint, &w.TenantID, &w.RunID)
		return w, err
	})
}
