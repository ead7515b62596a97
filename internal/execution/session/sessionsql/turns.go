package sessionsql

import (
	"context"
	"database/sql"
	"errors"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/store/sqldb"
)

const (
	finishTurn     = `UPDATE session_runs SET finished = ?` + ofSession + ` AND turn = ?`
	replaceTurn    = `UPDATE session_runs SET run_id = ?, finished = ? WHERE tenant_id = ? AND run_id = ?`
	selectTurnOf   = `SELECT session_id, turn, branch_id, finished FROM session_runs WHERE tenant_id = ? AND run_id = ?`
	listUnfinished = `SELECT turn, branch_id, run_id, finished FROM session_runs` + ofSession + ` AND NOT finished`
	listTurns      = `SELECT t.turn, t.branch_id, t.run_id, t.finished, r.status, r.created_at, r.completed_at
		FROM session_runs t JOIN runs r ON r.tenant_id = t.tenant_id AND r.run_id = t.run_id
		WHERE t.tenant_id = ? AND t.session_id = ? AND t.turn > ? ORDER BY t.turn`
)

var insertTurn = sqldb.Insert(`session_runs`, `tenant_id, session_id, turn, branch_id, run_id, finished`)

// CreateTurnTx implements session.Store.
func (s *Store) CreateTurnTx(tx txn.Tx, tenant string, t session.Turn) error {
	_, err := sqldb.From(tx).Exec(insertTurn, tenant, t.SessionID, t.Turn, t.BranchID, t.RunID, t.Finished)
	return err
}

// FinishTurnTx implements session.Store.
func (s *Store) FinishTurnTx(tx txn.Tx, tenant, runID string) (session.Turn, bool, error) {
	t := session.Turn{RunID: runID}
	err := sqldb.From(tx).QueryRow(selectTurnOf, tenant, runID).
		Scan(&t.SessionID, &t.Turn, &t.BranchID, &t.Finished)
	if errors.Is(err, sql.ErrNoRows) {
		return t, false, nil
	}
	if err != nil || t.Finished {
		return t, false, err
	}
	_, err = sqldb.From(tx).Exec(finishTurn, true, tenant, t.SessionID, t.Turn)
	return t, true, err
}

// PutTurnTx implements session.Store.
func (s *Store) PutTurnTx(tx txn.Tx, tenant, runID, by string) (session.Turn, error) {
	t := session.Turn{RunID: by}
	if _, err := sqldb.From(tx).Exec(replaceTurn, by, false, tenant, runID); err != nil {
		return t, err
	}
	err := sqldb.From(tx).QueryRow(selectTurnOf, tenant, by).Scan(&t.SessionID, &t.Turn, &t.BranchID, &t.Finished)
	if errors.Is(err, sql.ErrNoRows) {
		return t, fault.NoSuch("turn")
	}
	return t, err
}

// ListUnfinishedTx implements session.Store.
func (s *Store) ListUnfinishedTx(tx txn.Tx, tenant, id, branch string) ([]session.Turn, error) {
	text, args := listUnfinished, []any{tenant, id}
	if branch != "" {
		text, args = text+` AND branch_id = ?`, append(args, branch)
	}
	return sqldb.Collect(sqldb.From(tx).Query, text+` ORDER BY turn`, args, func(row sqldb.Row) (session.Turn, error) {
		t := session.Turn{SessionID: id}
		return t, row.Scan(&t.Turn, &t.BranchID, &t.RunID, &t.Finished)
	})
}

// DeleteTurnsTx implements session.Store.
func (s *Store) DeleteTurnsTx(tx txn.Tx, tenant, id, branch string) (int64, error) {
	return sqldb.From(tx).Exec(`DELETE FROM session_runs`+ofSession+` AND branch_id = ?`, tenant, id, branch)
}

// ListTurns implements session.Store.
func (s *Store) ListTurns(ctx context.Context, tenant, id string, after int64) ([]session.TimedTurn, error) {
	return sqldb.Collect(s.db.Reader(ctx), listTurns, []any{tenant, id, after}, func(row sqldb.Row) (session.TimedTurn, error) {
		t := session.TimedTurn{Turn: session.Turn{SessionID: id}}
		var status string
		var created, completed int64
		err := row.Scan(&t.Turn.Turn, &t.BranchID, &t.RunID, &t.Finished, &status, &created, &completed)
		t.Status, t.CreatedAt, t.CompletedAt = run.Status(status), sqldb.Time(created), sqldb.Time(completed)
		return t, err
	})
}
