package sessionsql

import (
	"context"
	"database/sql"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/store/sqldb"
)

const (
	turnColumns    = `session_id, turn, branch_id, run_id, finished, entries, summarized`
	ofBranch       = ofSession + ` AND branch_id = ?`
	finishTurn     = `UPDATE session_runs SET finished = ?, entries = ?, summarized = ?` + ofSession + ` AND turn = ?`
	replaceTurn    = `UPDATE session_runs SET run_id = ?, finished = ?, entries = -1, summarized = ? WHERE tenant_id = ? AND run_id = ?`
	selectTurns    = `SELECT ` + turnColumns + ` FROM session_runs`
	selectTurnOf   = selectTurns + ` WHERE tenant_id = ? AND run_id = ?`
	listTurns      = selectTurns + ofSession + ` ORDER BY turn`
	listTimedTurns = `SELECT t.session_id, t.turn, t.branch_id, t.run_id, t.finished, t.entries, t.summarized,
			r.status, r.created_at, r.completed_at
		FROM session_runs t JOIN runs r ON r.tenant_id = t.tenant_id AND r.run_id = t.run_id
		WHERE t.tenant_id = ? AND t.session_id = ? AND t.turn > ? ORDER BY t.turn`
	listOutlines = `SELECT seq, type, status, CASE WHEN type = 'llm' THEN output WHEN output IS NOT NULL THEN '{}' END FROM run_steps
		WHERE tenant_id = ? AND run_id = ? ORDER BY seq`
)

// walking returns the beginning of a statement that reads turns along an index.
// SQLite would take the primary key, which is as good for few turns, and walk all
// turns of a long session.
func (s *Store) walking(index string) string {
	if s.db.Postgres() {
		return selectTurns
	}
	return selectTurns + ` INDEXED BY ` + index
}

func (s *Store) selectUnfinished() string {
	return s.walking(`session_runs_next`) + ofSession + ` AND NOT finished`
}

var insertTurn = sqldb.Insert(`session_runs`, `tenant_id, `+turnColumns)

// CreateTurnTx implements session.Store.
func (s *Store) CreateTurnTx(tx txn.Tx, tenant string, t session.Turn) error {
	_, err := sqldb.From(tx).Exec(insertTurn, tenant, t.SessionID, t.Turn, t.BranchID, t.RunID, t.Finished, t.Entries, t.Summarized)
	return err
}

// GetTurn implements session.Store.
func (s *Store) GetTurn(ctx context.Context, tenant, runID string) (session.Turn, error) {
	return oneTurn(s.db.QueryRow(ctx, selectTurnOf, tenant, runID))
}

// GetTurnTx implements session.Store.
func (s *Store) GetTurnTx(tx txn.Tx, tenant, runID string) (session.Turn, error) {
	return oneTurn(sqldb.From(tx).QueryRow(selectTurnOf, tenant, runID))
}

// GetUnfinished implements session.Store.
func (s *Store) GetUnfinished(ctx context.Context, tenant, id, branch string) (session.Turn, error) {
	return oneTurn(s.db.QueryRow(ctx, s.selectUnfinished()+` AND branch_id = ? ORDER BY turn LIMIT 1`, tenant, id, branch))
}

// GetLastTurn implements session.Store.
func (s *Store) GetLastTurn(ctx context.Context, tenant, id string) (session.Turn, error) {
	return oneTurn(s.db.QueryRow(ctx, selectTurns+ofSession+` ORDER BY turn DESC LIMIT 1`, tenant, id))
}

// GetSummarizedTurn implements session.Store.
func (s *Store) GetSummarizedTurn(ctx context.Context, tenant, id, branch string, through int64) (session.Turn, error) {
	text := s.walking(`session_runs_summarized`) + ofBranch + ` AND turn <= ? AND summarized ORDER BY turn DESC LIMIT 1`
	return oneTurn(s.db.QueryRow(ctx, text, tenant, id, branch, through))
}

func oneTurn(row sqldb.Row) (session.Turn, error) {
	t, err := scanTurn(row)
	return t, sqldb.NoRowsAs(err, fault.NewNotFound("turn"))
}

func scanTurn(row sqldb.Row) (t session.Turn, err error) {
	return t, row.Scan(&t.SessionID, &t.Turn, &t.BranchID, &t.RunID, &t.Finished, &t.Entries, &t.Summarized)
}

// FinishTurnTx implements session.Store.
func (s *Store) FinishTurnTx(tx txn.Tx, tenant string, t session.Turn) error {
	_, err := sqldb.From(tx).Exec(finishTurn, true, t.Entries, t.Summarized, tenant, t.SessionID, t.Turn)
	return err
}

// PutTurnTx implements session.Store.
func (s *Store) PutTurnTx(tx txn.Tx, tenant, runID, by string) (session.Turn, error) {
	if _, err := sqldb.From(tx).Exec(replaceTurn, by, false, false, tenant, runID); err != nil {
		return session.Turn{}, err
	}
	return s.GetTurnTx(tx, tenant, by)
}

// ListStepOutlinesTx implements session.Store.
func (s *Store) ListStepOutlinesTx(tx txn.Tx, tenant, runID string) ([]run.Step, error) {
	return sqldb.Collect(sqldb.From(tx).Query, listOutlines, []any{tenant, runID}, func(row sqldb.Row) (run.Step, error) {
		st := run.Step{TenantID: tenant, RunID: runID, Input: schema.Nullable(`{}`)}
		var kind, status string
		var output sql.NullString
		err := row.Scan(&st.Seq, &kind, &status, &output)
		st.Type, st.Status = run.StepType(kind), run.StepStatus(status)
		if output.Valid {
			st.Output = schema.Nullable(output.String)
		}
		return st, err
	})
}

// ListUnfinishedTx implements session.Store.
func (s *Store) ListUnfinishedTx(tx txn.Tx, tenant, id, branch string) ([]session.Turn, error) {
	text, args := s.selectUnfinished(), []any{tenant, id}
	if branch != "" {
		text, args = text+` AND branch_id = ?`, append(args, branch)
	}
	return sqldb.Collect(sqldb.From(tx).Query, text+` ORDER BY turn`, args, scanTurn)
}

// DeleteTurnsTx implements session.Store.
func (s *Store) DeleteTurnsTx(tx txn.Tx, tenant, id, branch string) (int64, error) {
	return sqldb.From(tx).Exec(`DELETE FROM session_runs`+ofSession+` AND branch_id = ?`, tenant, id, branch)
}

// ListTurns implements session.Store.
func (s *Store) ListTurns(ctx context.Context, tenant, id string) ([]session.Turn, error) {
	return sqldb.Collect(s.db.Reader(ctx), listTurns, []any{tenant, id}, scanTurn)
}

// ListTurnsBack implements session.Store.
func (s *Store) ListTurnsBack(ctx context.Context, tenant, id, branch string, before int64, limit int) ([]session.Turn, error) {
	text := s.walking(`session_runs_branch`) + ofBranch + ` AND turn < ? ORDER BY turn DESC LIMIT ?`
	return sqldb.Collect(s.db.Reader(ctx), text, []any{tenant, id, branch, before, limit}, scanTurn)
}

// ListTimedTurns implements session.Store.
func (s *Store) ListTimedTurns(ctx context.Context, tenant, id string, after int64) ([]session.TimedTurn, error) {
	return sqldb.Collect(s.db.Reader(ctx), listTimedTurns, []any{tenant, id, after}, func(row sqldb.Row) (t session.TimedTurn, err error) {
		var status string
		var created, completed int64
		err = row.Scan(&t.SessionID, &t.Turn.Turn, &t.BranchID, &t.RunID, &t.Finished, &t.Entries, &t.Summarized, &status, &created, &completed)
		t.Status, t.CreatedAt, t.CompletedAt = run.Status(status), sqldb.Time(created), sqldb.Time(completed)
		return t, err
	})
}
