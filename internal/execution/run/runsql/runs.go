// Package runsql keeps runs, their steps, approvals, budgets and events on SQL.
package runsql

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

// Store keeps runs and their steps; it implements run.Store.
type Store struct{ db *sqldb.DB }

// New uses the tables of migration 4.
func New(db *sqldb.DB) *Store { return &Store{db} }

const runColumns = `run_id, agent_id, agent_version, session_id, team_run_id, status, input, output, metrics, error,
	error_code, metadata, resource_limits, options, pending, step_seq, event_seq, created_at, started_at, completed_at, waiting`

const (
	insertRun = `INSERT INTO runs (tenant_id, ` + runColumns + `)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	setRun = `UPDATE runs SET status = ?, output = ?, metrics = ?, error = ?, error_code = ?,
		started_at = ?, completed_at = ?, step_seq = ?, event_seq = ?, pending = ?, waiting = ?, auth_server = ?`
	whichRun = ` WHERE tenant_id = ? AND run_id = ?`
)

// updateRun is by what to do about a pause that was asked for.
var updateRun = map[run.PauseMode]string{
	run.PauseAborts:  setRun + whichRun + ` AND NOT pausing`,
	run.PauseKept:    setRun + whichRun,
	run.PauseCleared: setRun + `, pausing = FALSE` + whichRun,
}

// Create implements run.Store.
func (s *Store) Create(r *run.Record) txn.Op {
	var enc sqldb.Encoder
	insert := enc.Op("run", insertRun,
		r.TenantID, r.RunID, r.AgentID, r.AgentVersion, r.SessionID, r.TeamRunID, string(r.Status),
		string(r.Input), sqldb.NullJSON(r.Output), metricsJSON(&enc, r.Metrics), r.Error, r.ErrorCode, string(r.Metadata),
		enc.JSON(r.ResourceLimits), enc.JSON(r.Options), enc.JSON(r.Pending), r.StepSeq, r.EventSeq,
		sqldb.Micros(r.CreatedAt), sqldb.OptionalMicros(r.StartedAt), sqldb.OptionalMicros(r.CompletedAt), waitJSON(&enc, r.Wait))
	return func(tx txn.Tx) error {
		err := insert(tx)
		if sqldb.IsUnique(err) {
			return fault.New(fault.Conflict, "ALREADY_EXISTS", "There is a run with this id already.").Because(err)
		}
		return err
	}
}

// Update implements run.Store.
func (s *Store) Update(tenant, id string, u run.Update) txn.Op {
	var enc sqldb.Encoder
	var server *string
	if u.Wait.Auth != nil {
		server = &u.Wait.Auth.ServerID
	}
	op := enc.Op("run", updateRun[u.Pause],
		string(u.Status), sqldb.NullJSON(u.Output), metricsJSON(&enc, u.Metrics), u.Error, u.ErrorCode,
		sqldb.OptionalMicros(u.StartedAt), sqldb.OptionalMicros(u.CompletedAt), u.StepSeq, u.EventSeq, enc.JSON(u.Pending), waitJSON(&enc, u.Wait), server, tenant, id)
	if u.Pause != run.PauseAborts {
		return op
	}
	return func(tx txn.Tx) error {
		err := op(tx)
		if fault.Is(err, fault.NotFound) {
			if _, absent := s.LockTx(tx, tenant, id); absent == nil {
				return run.ErrPausing
			}
		}
		return err
	}
}

// LockTx implements run.Store.
func (s *Store) LockTx(tx txn.Tx, tenant, id string) (*run.Record, error) {
	t := sqldb.From(tx)
	return scanRun(tenant, t.QueryRow(`SELECT `+runColumns+` FROM runs WHERE tenant_id = ? AND run_id = ?`+t.ForUpdate(), tenant, id))
}

// Get implements run.Store.
func (s *Store) Get(ctx context.Context, tenant, id string) (*run.Record, error) {
	return scanRun(tenant, s.db.QueryRow(ctx, `SELECT `+runColumns+` FROM runs WHERE tenant_id = ? AND run_id = ?`, tenant, id))
}

// List implements run.Store.
func (s *Store) List(ctx context.Context, tenant string, f run.Filter) ([]run.Run, error) {
	var q strings.Builder
	args := []any{tenant}
	q.WriteString(`SELECT ` + runColumns + ` FROM runs WHERE tenant_id = ?`)
	for _, c := range []struct{ column, value string }{
		{"agent_id", f.AgentID}, {"session_id", f.SessionID}, {"status", string(f.Status)},
	} {
		if c.value != "" {
			q.WriteString(` AND ` + c.column + ` = ?`)
			args = append(args, c.value)
		}
	}
	beyond, order := "<", "DESC"
	if f.Ascending {
		beyond, order = ">", "ASC"
	}
	if f.After != "" {
		q.WriteString(` AND run_id ` + beyond + ` ?`)
		args = append(args, f.After)
	}
	q.WriteString(` ORDER BY run_id ` + order + ` LIMIT ?`)
	rows, err := s.db.Query(ctx, q.String(), append(args, f.Limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []run.Run{}
	var weight page.Weight
	for rows.Next() {
		r, err := scanRun(tenant, rows)
		if err != nil {
			return nil, err
		}
		out = append(out, r.Run)
		if weight.Full(r.Weight()) {
			break
		}
	}
	return out, rows.Err()
}

// ListUnfinished implements run.Store.
func (s *Store) ListUnfinished(ctx context.Context, tenant, agent string, limit int) ([]string, error) {
	var in []string
	args := []any{tenant, agent}
	for _, st := range run.Statuses {
		if st.Final() {
			in = append(in, "?")
			args = append(args, string(st))
		}
	}
	rows, err := s.db.Query(ctx, `SELECT run_id FROM runs WHERE tenant_id = ? AND agent_id = ?
		AND status NOT IN (`+strings.Join(in, ", ")+`) ORDER BY run_id LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// GetLastSeqTx implements run.Store.
func (s *Store) GetLastSeqTx(tx txn.Tx, tenant, id string) (int64, error) {
	var seq int64
	err := sqldb.From(tx).QueryRow(`SELECT COALESCE(MAX(last_seq), 0) FROM run_events WHERE tenant_id = ? AND run_id = ?`, tenant, id).Scan(&seq)
	return seq, err
}

func scanRun(tenant string, row sqldb.Row) (*run.Record, error) {
	r := &run.Record{}
	r.TenantID, r.Artifacts = tenant, []run.Artifact{}
	var status, input, metrics, metadata, limits, options, pending, waiting string
	var output sql.NullString
	var created, started, completed int64
	err := row.Scan(&r.RunID, &r.AgentID, &r.AgentVersion, &r.SessionID, &r.TeamRunID, &status, &input, &output, &metrics, &r.Error,
		&r.ErrorCode, &metadata, &limits, &options, &pending, &r.StepSeq, &r.EventSeq, &created, &started, &completed, &waiting)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NoSuch("run")
	}
	if err != nil {
		return nil, err
	}
	r.Status, r.Input, r.Metadata = run.Status(status), schema.Object(input), schema.Object(metadata)
	if output.Valid {
		r.Output = schema.Nullable(output.String)
	}
	r.CreatedAt, r.StartedAt, r.CompletedAt = sqldb.Time(created), sqldb.OptionalTime(started), sqldb.OptionalTime(completed)
	var dec sqldb.Decoder
	dec.JSON(metrics, &r.Metrics)
	dec.JSON(limits, &r.ResourceLimits)
	dec.JSON(options, &r.Options)
	dec.JSON(pending, &r.Pending)
	dec.JSON(waiting, &r.Wait)
	r.PendingInput, r.PendingAuth = r.Wait.Input, r.Wait.Auth
	return r, dec.Err()
}

// metricsJSON leaves out what a run that has done nothing has not counted.
func metricsJSON(enc *sqldb.Encoder, m run.Metrics) string {
	if m == (run.Metrics{}) {
		return "{}"
	}
	return enc.JSON(m)
}

// waitJSON is empty for the many runs that never wait.
func waitJSON(enc *sqldb.Encoder, w run.Wait) string {
	if w == (run.Wait{}) {
		return ""
	}
	return enc.JSON(w)
}
