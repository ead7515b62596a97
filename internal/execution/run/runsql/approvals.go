package runsql

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

const approvalColumns = `approval_id, run_id, agent_id, session_id, tool_call_id, tool_name, arguments, arguments_hash,
	status, requested_at, expires_at, decided_at, decided_by, reason, response, edited`

// CreateApproval implements run.Store.
func (s *Store) CreateApproval(a *run.Approval) txn.Op {
	return func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(`INSERT INTO approvals (tenant_id, `+approvalColumns+`)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			a.TenantID, a.ApprovalID, a.RunID, a.AgentID, a.SessionID, a.ToolCallID, a.ToolName, string(a.Arguments), a.ArgumentsHash,
			string(a.Status), sqldb.Micros(a.RequestedAt), sqldb.Micros(a.ExpiresAt), sqldb.OptionalMicros(a.DecidedAt), a.DecidedBy, a.Reason, a.Response, sqldb.NullJSON(schema.Nullable(a.EditedArguments)))
		return err
	}
}

// UpdateApproval implements run.Store.
func (s *Store) UpdateApproval(a *run.Approval) txn.Op {
	return func(tx txn.Tx) error {
		n, err := sqldb.From(tx).Exec(`UPDATE approvals SET status = ?, decided_at = ?, decided_by = ?, reason = ?, response = ?, edited = ?
			WHERE tenant_id = ? AND approval_id = ? AND status = ?`,
			string(a.Status), sqldb.OptionalMicros(a.DecidedAt), a.DecidedBy, a.Reason, a.Response, sqldb.NullJSON(schema.Nullable(a.EditedArguments)),
			a.TenantID, a.ApprovalID, string(run.ApprovalPending))
		if err == nil && n != 1 {
			err = fault.NoSuch("approval")
		}
		return err
	}
}

// ListApprovalsByRun implements run.Store.
func (s *Store) ListApprovalsByRun(ctx context.Context, tx txn.Tx, tenant, id string) ([]run.Approval, error) {
	const query = `SELECT ` + approvalColumns + ` FROM approvals WHERE tenant_id = ? AND run_id = ? ORDER BY approval_id`
	var rows *sql.Rows
	var err error
	if tx != nil {
		rows, err = sqldb.From(tx).Query(query, tenant, id)
	} else {
		rows, err = s.db.Query(ctx, query, tenant, id)
	}
	if err != nil {
		return nil, err
	}
	return scanApprovals(tenant, rows)
}

// GetApproval implements run.Store.
func (s *Store) GetApproval(ctx context.Context, tenant, approvalID string) (*run.Approval, error) {
	a, err := scanApproval(tenant, s.db.QueryRow(ctx, `SELECT `+approvalColumns+` FROM approvals WHERE tenant_id = ? AND approval_id = ?`, tenant, approvalID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NoSuch("approval")
	}
	return a, err
}

// ListApprovals implements run.Store.
func (s *Store) ListApprovals(ctx context.Context, tenant string, f run.ApprovalFilter) ([]run.Approval, error) {
	var q strings.Builder
	args := []any{tenant}
	q.WriteString(`SELECT ` + approvalColumns + ` FROM approvals WHERE tenant_id = ?`)
	for _, c := range []struct{ condition, value string }{
		{"status = ?", string(f.Status)}, {"agent_id = ?", f.AgentID}, {"run_id = ?", f.RunID}, {"approval_id < ?", f.After},
	} {
		if c.value != "" {
			q.WriteString(` AND ` + c.condition)
			args = append(args, c.value)
		}
	}
	q.WriteString(` ORDER BY approval_id DESC LIMIT ?`)
	rows, err := s.db.Query(ctx, q.String(), append(args, f.Limit)...)
	if err != nil {
		return nil, err
	}
	return scanApprovals(tenant, rows)
}

func scanApprovals(tenant string, rows *sql.Rows) ([]run.Approval, error) {
	defer rows.Close()
	out := []run.Approval{}
	for rows.Next() {
		a, err := scanApproval(tenant, rows)
		if err != nil {
			return nil, err
		}
		out = append(out, *a)
	}
	return out, rows.Err()
}

func scanApproval(tenant string, row sqldb.Row) (*run.Approval, error) {
	a := &run.Approval{TenantID: tenant}
	var arguments string
	var edited sql.NullString
	var requested, expires, decided int64
	err := row.Scan(&a.ApprovalID, &a.RunID, &a.AgentID, &a.SessionID, &a.ToolCallID, &a.ToolName, &arguments, &a.ArgumentsHash,
		&a.Status, &requested, &expires, &decided, &a.DecidedBy, &a.Reason, &a.Response, &edited)
	if err != nil {
		return nil, err
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

// RequestPauseTx implements run.Store.
func (s *Store) RequestPauseTx(tx txn.Tx, tenant, id string) error {
	_, err := sqldb.From(tx).Exec(`UPDATE runs SET pausing = TRUE WHERE tenant_id = ? AND run_id = ?`, tenant, id)
	return err
}

// ListWaiting implements run.Store.
func (s *Store) ListWaiting(ctx context.Context, tenant, server string, limit int) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT run_id FROM runs WHERE tenant_id = ? AND auth_server = ? ORDER BY run_id LIMIT ?`, tenant, server, limit)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}
