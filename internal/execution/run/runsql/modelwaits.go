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
)

var insertModelWait = sqldb.Insert(`model_waits`, `tenant_id, run_id, endpoint`) +
	` ON CONFLICT (tenant_id, run_id) DO UPDATE SET endpoint = excluded.endpoint`

// CreateModelWait implements run.Store.
func (s *Store) CreateModelWait(w run.ModelWait) txn.Op {
	return func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(insertModelWait, w.TenantID, w.RunID, w.Endpoint)
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
