package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/store/sqldb"
)

// Sessions keeps conversations; it implements session.Store.
type Sessions struct{ db *sqldb.DB }

var _ session.Store = (*Sessions)(nil)

// NewSessions uses the tables of migration 10.
func NewSessions(db *sqldb.DB) *Sessions { return &Sessions{db} }

const (
	sessionColumns = `session_id, agent_id, team_id, status, queue_mode, model_override, metadata, active_branch, turns, summary, created_at, updated_at, expires_at`
	branchColumns  = `branch_id, parent_id, name, fork_run_id, fork_step, status, created_at`
)

// Insert implements session.Store.
func (s *Sessions) Insert(tx txn.Tx, r *session.Record) error {
	var enc encoder
	return enc.op(`INSERT INTO sessions (tenant_id, `+sessionColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.TenantID, r.SessionID, r.AgentID, r.TeamID, string(r.Status), r.QueueMode, enc.override(r.Model), enc.json(r.Metadata),
		r.ActiveBranch, r.Turns, enc.json(r.Summary), sqldb.Micros(r.CreatedAt), sqldb.Micros(r.UpdatedAt), sqldb.Micros(r.ExpiresAt))(tx)
}

// Update implements session.Store.
func (s *Sessions) Update(tx txn.Tx, r *session.Record) error {
	var enc encoder
	return enc.op(`UPDATE sessions SET status = ?, queue_mode = ?, model_override = ?, metadata = ?, active_branch = ?, turns = ?,
		summary = ?, updated_at = ? WHERE tenant_id = ? AND session_id = ?`,
		string(r.Status), r.QueueMode, enc.override(r.Model), enc.json(r.Metadata), r.ActiveBranch, r.Turns,
		enc.json(r.Summary), sqldb.Micros(r.UpdatedAt), r.TenantID, r.SessionID)(tx)
}

func (e *encoder) override(m *session.ModelOverride) any {
	if m == nil {
		return nil
	}
	return e.json(m)
}

// Get implements session.Store.
func (s *Sessions) Get(ctx context.Context, tenant, id string) (*session.Record, error) {
	return scanSession(tenant, s.db.QueryRow(ctx, `SELECT `+sessionColumns+` FROM sessions WHERE tenant_id = ? AND session_id = ?`, tenant, id))
}

// Lock implements session.Store.
func (s *Sessions) Lock(tx txn.Tx, tenant, id string) (*session.Record, error) {
	t := sqldb.From(tx)
	return scanSession(tenant, t.QueryRow(`SELECT `+sessionColumns+` FROM sessions WHERE tenant_id = ? AND session_id = ?`+t.ForUpdate(), tenant, id))
}

func scanSession(tenant string, row scanner) (*session.Record, error) {
	r := &session.Record{TenantID: tenant}
	var status, metadata, summary string
	var override sql.NullString
	var created, updated, expires int64
	err := row.Scan(&r.SessionID, &r.AgentID, &r.TeamID, &status, &r.QueueMode, &override, &metadata,
		&r.ActiveBranch, &r.Turns, &summary, &created, &updated, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NoSuch("session")
	}
	if err != nil {
		return nil, err
	}
	r.Status, r.Metadata = session.Status(status), schema.Object(metadata)
	r.CreatedAt, r.UpdatedAt, r.ExpiresAt = sqldb.Time(created), sqldb.Time(updated), sqldb.Time(expires)
	var dec decoder
	dec.json(summary, &r.Summary)
	if override.Valid {
		r.Model = new(session.ModelOverride)
		dec.json(override.String, r.Model)
	}
	return r, dec.err
}

// List implements session.Store.
func (s *Sessions) List(ctx context.Context, tenant, agent, after string, limit int) ([]session.Record, error) {
	q, args := `SELECT `+sessionColumns+` FROM sessions WHERE tenant_id = ?`, []any{tenant}
	if agent != "" {
		q, args = q+` AND agent_id = ?`, append(args, agent)
	}
	if after != "" {
		q, args = q+` AND session_id < ?`, append(args, after)
	}
	return each(s.reading(ctx), q+` ORDER BY session_id DESC LIMIT ?`, append(args, limit), func(row scanner) (session.Record, error) {
		r, err := scanSession(tenant, row)
		if err != nil {
			return session.Record{}, err
		}
		return *r, nil
	})
}

// InsertBranch implements session.Store.
func (s *Sessions) InsertBranch(tx txn.Tx, tenant, id string, b *session.Branch) error {
	var enc encoder
	return enc.op(`INSERT INTO session_branches (tenant_id, session_id, `+branchColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		tenant, id, b.BranchID, b.ParentID, enc.json(b.Name), b.ForkRunID, b.ForkStep, b.Status, sqldb.Micros(b.CreatedAt))(tx)
}

// DeleteBranch implements session.Store.
func (s *Sessions) DeleteBranch(tx txn.Tx, tenant, id, branch string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM session_branches WHERE tenant_id = ? AND session_id = ? AND branch_id = ?`, tenant, id, branch)
	return err
}

const selectBranches = `SELECT ` + branchColumns + ` FROM session_branches WHERE tenant_id = ? AND session_id = ? ORDER BY branch_id`

// Branches implements session.Store.
func (s *Sessions) Branches(ctx context.Context, tenant, id string) ([]session.Branch, error) {
	return each(s.reading(ctx), selectBranches, []any{tenant, id}, scanBranch)
}

// BranchesTx implements session.Store.
func (s *Sessions) BranchesTx(tx txn.Tx, tenant, id string) ([]session.Branch, error) {
	return each(sqldb.From(tx).Query, selectBranches, []any{tenant, id}, scanBranch)
}

func scanBranch(row scanner) (session.Branch, error) {
	b := session.Branch{Runs: []string{}}
	var name string
	var created int64
	err := row.Scan(&b.BranchID, &b.ParentID, &name, &b.ForkRunID, &b.ForkStep, &b.Status, &created)
	if err != nil {
		return b, err
	}
	b.CreatedAt = sqldb.Time(created)
	var dec decoder
	dec.json(name, &b.Name)
	return b, dec.err
}

// AddTurn implements session.Store.
func (s *Sessions) AddTurn(tx txn.Tx, tenant string, t session.Turn) error {
	_, err := sqldb.From(tx).Exec(`INSERT INTO session_runs (tenant_id, session_id, turn, branch_id, run_id, finished) VALUES (?, ?, ?, ?, ?, ?)`,
		tenant, t.SessionID, t.Turn, t.BranchID, t.RunID, t.Finished)
	return err
}

// FinishTurn implements session.Store.
func (s *Sessions) FinishTurn(tx txn.Tx, tenant, runID string) (session.Turn, bool, error) {
	t := session.Turn{RunID: runID}
	err := sqldb.From(tx).QueryRow(`SELECT session_id, turn, branch_id, finished FROM session_runs WHERE tenant_id = ? AND run_id = ?`, tenant, runID).
		Scan(&t.SessionID, &t.Turn, &t.BranchID, &t.Finished)
	if errors.Is(err, sql.ErrNoRows) {
		return t, false, nil
	}
	if err != nil || t.Finished {
		return t, false, err
	}
	_, err = sqldb.From(tx).Exec(`UPDATE session_runs SET finished = ? WHERE tenant_id = ? AND session_id = ? AND turn = ?`, true, tenant, t.SessionID, t.Turn)
	return t, true, err
}

// Unfinished implements session.Store.
func (s *Sessions) Unfinished(tx txn.Tx, tenant, id, branch string) ([]session.Turn, error) {
	q, args := `SELECT turn, branch_id, run_id, finished FROM session_runs WHERE tenant_id = ? AND session_id = ? AND NOT finished`, []any{tenant, id}
	if branch != "" {
		q, args = q+` AND branch_id = ?`, append(args, branch)
	}
	return each(sqldb.From(tx).Query, q+` ORDER BY turn`, args, func(row scanner) (session.Turn, error) {
		t := session.Turn{SessionID: id}
		return t, row.Scan(&t.Turn, &t.BranchID, &t.RunID, &t.Finished)
	})
}

// DeleteTurns implements session.Store.
func (s *Sessions) DeleteTurns(tx txn.Tx, tenant, id, branch string) (int64, error) {
	return sqldb.From(tx).Exec(`DELETE FROM session_runs WHERE tenant_id = ? AND session_id = ? AND branch_id = ?`, tenant, id, branch)
}

// Turns implements session.Store.
func (s *Sessions) Turns(ctx context.Context, tenant, id string, after int64) ([]session.TimedTurn, error) {
	return each(s.reading(ctx), `SELECT t.turn, t.branch_id, t.run_id, t.finished, r.status, r.created_at, r.completed_at
		FROM session_runs t JOIN runs r ON r.tenant_id = t.tenant_id AND r.run_id = t.run_id
		WHERE t.tenant_id = ? AND t.session_id = ? AND t.turn > ? ORDER BY t.turn`, []any{tenant, id, after},
		func(row scanner) (session.TimedTurn, error) {
			t := session.TimedTurn{Turn: session.Turn{SessionID: id}}
			var status string
			var created, completed int64
			err := row.Scan(&t.Turn.Turn, &t.BranchID, &t.RunID, &t.Finished, &status, &created, &completed)
			t.Status, t.CreatedAt, t.CompletedAt = run.Status(status), sqldb.Time(created), sqldb.Time(completed)
			return t, err
		})
}

// tellAtOnce bounds how many ids one statement names.
const tellAtOnce = 500

// Tell implements session.Store.
func (s *Sessions) Tell(ctx context.Context, tenant string, runs []string) ([]run.Told, error) {
	return tell(ctx, s.db, tenant, runs)
}

// tell reads runs with their steps, in the order of their ids. One that is not
// there is left empty.
func tell(ctx context.Context, db *sqldb.DB, tenant string, runs []string) ([]run.Told, error) {
	out := make([]run.Told, len(runs))
	place := make(map[string]int, len(runs))
	for i, id := range runs {
		place[id] = i
	}
	for part := range slices.Chunk(runs, tellAtOnce) {
		in := ` IN (?` + strings.Repeat(", ?", len(part)-1) + `)`
		args := []any{tenant}
		for _, id := range part {
			args = append(args, id)
		}
		found, err := each(reading(ctx, db), `SELECT `+runColumns+` FROM runs WHERE tenant_id = ? AND run_id`+in, args,
			func(row scanner) (*run.Record, error) { return scanRun(tenant, row) })
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			out[place[r.RunID]].Run = *r
		}
		steps, err := each(reading(ctx, db), `SELECT run_id, `+stepColumns+` FROM run_steps WHERE tenant_id = ? AND run_id`+in+` ORDER BY run_id, seq`, args,
			func(row scanner) (run.Step, error) {
				var id string
				st, err := scanStep(prefixed{row, &id})
				st.TenantID, st.RunID = tenant, id
				return st, err
			})
		if err != nil {
			return nil, err
		}
		for _, st := range steps {
			told := &out[place[st.RunID]]
			told.Steps = append(told.Steps, st)
		}
	}
	return out, nil
}

// prefixed is a row with one more column in front.
type prefixed struct {
	scanner
	first any
}

func (p prefixed) Scan(dest ...any) error { return p.scanner.Scan(append([]any{p.first}, dest...)...) }

// queryFunc is a query, in a transaction or outside of any.
type queryFunc func(query string, args ...any) (*sql.Rows, error)

func (s *Sessions) reading(ctx context.Context) queryFunc {
	return reading(ctx, s.db)
}

func reading(ctx context.Context, db *sqldb.DB) queryFunc {
	return func(query string, args ...any) (*sql.Rows, error) { return db.Query(ctx, query, args...) }
}

// each reads all rows of a query.
func each[T any](query queryFunc, text string, args []any, scan func(scanner) (T, error)) ([]T, error) {
	rows, err := query(text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []T{}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}
