package sessionsql

import (
	"context"

	"agentd/internal/base/txn"
	"agentd/internal/execution/session"
	"agentd/internal/store/sqldb"
)

const (
	branchColumns  = `branch_id, parent_id, name, fork_run_id, fork_step, status, created_at`
	selectBranches = `SELECT ` + branchColumns + ` FROM session_branches` + ofSession + ` ORDER BY branch_id`
)

var insertBranch = sqldb.Insert(`session_branches`, `tenant_id, session_id, `+branchColumns)

// CreateBranchTx implements session.Store.
func (s *Store) CreateBranchTx(tx txn.Tx, tenant, id string, b *session.Branch) error {
	var enc sqldb.Encoder
	return enc.Op("branch", insertBranch,
		tenant, id, b.BranchID, b.ParentID, enc.JSON(b.Name), b.ForkRunID, b.ForkStep, b.Status, sqldb.Micros(b.CreatedAt))(tx)
}

// DeleteBranchTx implements session.Store.
func (s *Store) DeleteBranchTx(tx txn.Tx, tenant, id, branch string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM session_branches`+ofSession+` AND branch_id = ?`, tenant, id, branch)
	return err
}

// ListBranches implements session.Store.
func (s *Store) ListBranches(ctx context.Context, tenant, id string) ([]session.Branch, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectBranches, []any{tenant, id}, scanBranch)
}

// ListBranchesTx implements session.Store.
func (s *Store) ListBranchesTx(tx txn.Tx, tenant, id string) ([]session.Branch, error) {
	return sqldb.Collect(sqldb.From(tx).Query, selectBranches, []any{tenant, id}, scanBranch)
}

func scanBranch(row sqldb.Row) (session.Branch, error) {
	b := session.Branch{Runs: []string{}}
	var name string
	var created int64
	err := row.Scan(&b.BranchID, &b.ParentID, &name, &b.ForkRunID, &b.ForkStep, &b.Status, &created)
	if err != nil {
		return b, err
	}
	b.CreatedAt = sqldb.Time(created)
	var dec sqldb.Decoder
	dec.JSON(name, &b.Name)
	return b, dec.Err()
}
