package runsql

import (
	"context"
	"database/sql"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

const (
	approvalColumns = `approval_id, run_id, agent_id, session_id, tool_call_id, tool_name, arguments, arguments_hash,
		status, requested_at, expires_at, decided_at, decided_by, reason, response, edited`

	selectApprovals = `SELECT ` + approvalColumns + ` FROM approvals`
	approvalsOfRun  = ` WHERE tenant_id = ? AND run_id = ? ORDER BY approval_id`
	decideApproval  = `UPDATE approvals SET status = ?, decided_at = ?, decided_by = ?, reason = ?, response = ?, edited = ?
		WHERE tenant_id = ? AND approval_id = ? AND status = ?`
)

var insertApproval = sqldb.Insert(`approvals`, `tenant_id, `+approvalColumns)

// CreateApproval implements run.Store.
func (s *Store) CreateApproval(a *run.Approval) txn.Op {
	return func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(insertApproval,
			a.TenantID, a.ApprovalID, a.RunID, a.AgentID, a.SessionID, a.ToolCallID, a.ToolName, string(a.Arguments), a.ArgumentsHash,
			string(a.Status), sqldb.Micros(a.RequestedAt), sqldb.Micros(a.ExpiresAt), sqldb.OptionalMicros(a.DecidedAt), a.DecidedBy,
			a.Reason, a.Response, sqldb.NullJSON(a.EditedArguments))
		return err
	}
}

// UpdateApproval implements run.Store.
func (s *Store) UpdateApproval(a *run.Approval) txn.Op {
	return func(tx txn.Tx) error {
		n, err := sqldb.From(tx).Exec(decideApproval,
			string(a.Status), sqldb.OptionalMicros(a.DecidedAt), a.DecidedBy, a.Reason, a.Response, sqldb.NullJSON(a.EditedArguments),
			a.TenantID, a.ApprovalID, string(run.ApprovalPending))
		if err == nil && n != 1 {
			err = fault.NewNotFound("approval")
		}
		return err
	}
}

// ListApprovalsByRun implements run.Store.
func (s *Store) ListApprovalsByRun(ctx context.Context, tx txn.Tx, tenant, id string) ([]run.Approval, error) {
	query := s.db.Reader(ctx)
	if tx != nil {
		query = sqldb.From(tx).Query
	}
	return sqldb.Collect(query, selectApprovals+approvalsOfRun, []any{tenant, id}, scanApproval(tenant))
}

// GetApproval implements run.Store.
func (s *Store) GetApproval(ctx context.Context, tenant, approvalID string) (*run.Approval, error) {
	a, err := scanApproval(tenant)(s.db.QueryRow(ctx, selectApprovals+` WHERE tenant_id = ? AND approval_id = ?`, tenant, approvalID))
	if err != nil {
		return nil, sqldb.NoRowsAs(err, fault.NewNotFound("approval"))
	}
	return &a, nil
}

var approvalFilters = sqldb.FiltersOf[run.ApprovalFilter]()

// ListApprovals implements run.Store.
func (s *Store) ListApprovals(ctx context.Context, tenant string, f run.ApprovalFilter, w page.Window) ([]run.Approval, error) {
	where, args := approvalFilters.Select(`approvals`, tenant, &f, `approval_id`, w)
	return sqldb.Collect(s.db.Reader(ctx), selectApprovals+where, args, scanApproval(tenant))
}

func scanApproval(tenant string) func(sqldb.Row) (run.Approval, error) {
	return func(row sqldb.Row) (run.Approval, error) {
		a := run.Approval{TenantID: tenant}
		var arguments string
		var edited sql.NullString
		var requested, expires, decided int64
		err := row.Scan(&a.ApprovalID, &a.RunID, &a.AgentID, &a.SessionID, &a.ToolCallID, &a.ToolName, &arguments, &a.ArgumentsHash,
			&a.Status, &requested, &expires, &decided, &a.DecidedBy, &a.Reason, &a.Response, &edited)
		if err != nil {
			return a, err
		}
		a.Arguments = schema.Any(arguments)
		if edited.Valid {
			a.EditedArguments = schema.Any(edited.String)
		}
		if a.Status == run.ApprovalApproved || a.Status == run.ApprovalRejected {
			a.Decision = a.Status
		}
		a.RequestedAt, a.ExpiresAt, a.DecidedAt = sqldb.Time(requested), sqldb.Time(expires), sqldb.OptionalTime(decided)
		return a, nil
	}
}

// RequestPauseTx implements run.Store.
func (s *Store) RequestPauseTx(tx txn.Tx, tenant, id string) error {
	_, err := sqldb.From(tx).Exec(`UPDATE runs SET pausing = TRUE WHERE tenant_id = ? AND run_id = ?`, tenant, id)
	return err
}

// ListWaiting implements run.Store.
func (s *Store) ListWaiting(ctx context.Context, tenant, server string, limit int) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT run_id FROM runs WHERE tenant_id = ? AND auth_server = ? ORDER BY run_id LIMIT ?`,
		tenant, server, limit)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}
