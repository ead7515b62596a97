package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

// Runs keeps runs and their steps; it implements run.Store.
type Runs struct{ db *sqldb.DB }

// NewRuns uses the tables of migration 4.
func NewRuns(db *sqldb.DB) *Runs { return &Runs{db} }

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

// Insert implements run.Store.
func (s *Runs) Insert(r *run.Record) txn.Op {
	var enc encoder
	insert := enc.op(insertRun,
		r.TenantID, r.RunID, r.AgentID, r.AgentVersion, r.SessionID, r.TeamRunID, string(r.Status),
		string(r.Input), nullJSON(r.Output), enc.metrics(r.Metrics), r.Error, r.ErrorCode, string(r.Metadata),
		enc.json(r.ResourceLimits), enc.json(r.Options), enc.json(r.Pending), r.StepSeq, r.EventSeq,
		sqldb.Micros(r.CreatedAt), micros(r.StartedAt), micros(r.CompletedAt), enc.wait(r.Wait))
	return func(tx txn.Tx) error {
		err := insert(tx)
		if sqldb.IsUnique(err) {
			return fault.New(fault.Conflict, "ALREADY_EXISTS", "There is a run with this id already.").Because(err)
		}
		return err
	}
}

// Update implements run.Store.
func (s *Runs) Update(tenant, id string, u run.Update) txn.Op {
	var enc encoder
	var server *string
	if u.Wait.Auth != nil {
		server = &u.Wait.Auth.ServerID
	}
	op := enc.op(updateRun[u.Pause],
		string(u.Status), nullJSON(u.Output), enc.metrics(u.Metrics), u.Error, u.ErrorCode,
		micros(u.StartedAt), micros(u.CompletedAt), u.StepSeq, u.EventSeq, enc.json(u.Pending), enc.wait(u.Wait), server, tenant, id)
	if u.Pause != run.PauseAborts {
		return op
	}
	return func(tx txn.Tx) error {
		err := op(tx)
		if fault.Is(err, fault.NotFound) {
			if _, absent := s.Lock(tx, tenant, id); absent == nil {
				return run.ErrPausing
			}
		}
		return err
	}
}

// Lock implements run.Store.
func (s *Runs) Lock(tx txn.Tx, tenant, id string) (*run.Record, error) {
	t := sqldb.From(tx)
	return scanRun(tenant, t.QueryRow(`SELECT `+runColumns+` FROM runs WHERE tenant_id = ? AND run_id = ?`+t.ForUpdate(), tenant, id))
}

// Get implements run.Store.
func (s *Runs) Get(ctx context.Context, tenant, id string) (*run.Record, error) {
	return scanRun(tenant, s.db.QueryRow(ctx, `SELECT `+runColumns+` FROM runs WHERE tenant_id = ? AND run_id = ?`, tenant, id))
}

// List implements run.Store.
func (s *Runs) List(ctx context.Context, tenant string, f run.Filter) ([]run.Run, error) {
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

// Unfinished implements run.Store.
func (s *Runs) Unfinished(ctx context.Context, tenant, agent string, limit int) ([]string, error) {
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
	return scanIDs(rows)
}

// LastSeq implements run.Store.
func (s *Runs) LastSeq(tx txn.Tx, tenant, id string) (int64, error) {
	var seq int64
	err := sqldb.From(tx).QueryRow(`SELECT COALESCE(MAX(last_seq), 0) FROM run_events WHERE tenant_id = ? AND run_id = ?`, tenant, id).Scan(&seq)
	return seq, err
}

// scanner is a row, alone or one of many.
type scanner interface{ Scan(dest ...any) error }

func scanRun(tenant string, row scanner) (*run.Record, error) {
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
	r.CreatedAt, r.StartedAt, r.CompletedAt = sqldb.Time(created), when(started), when(completed)
	var dec decoder
	dec.json(metrics, &r.Metrics)
	dec.json(limits, &r.ResourceLimits)
	dec.json(options, &r.Options)
	dec.json(pending, &r.Pending)
	dec.json(waiting, &r.Wait)
	r.PendingInput, r.PendingAuth = r.Wait.Input, r.Wait.Auth
	return r, dec.err
}

// encoder and decoder turn values of our own into JSON columns and back,
// keeping the first error.
type encoder struct{ err error }

func (e *encoder) json(v any) string {
	b, err := json.Marshal(v)
	if err != nil && e.err == nil {
		e.err = err
	}
	return string(b)
}

type decoder struct{ err error }

func (d *decoder) json(s string, v any) {
	if s == "" || s == "{}" || s == "[]" || d.err != nil {
		return
	}
	d.err = json.Unmarshal([]byte(s), v)
}

// metrics leaves out what a run that has done nothing has not counted.
func (e *encoder) metrics(m run.Metrics) string {
	if m == (run.Metrics{}) {
		return "{}"
	}
	return e.json(m)
}

// wait is empty for the many runs that never wait.
func (e *encoder) wait(w run.Wait) string {
	if w == (run.Wait{}) {
		return ""
	}
	return e.json(w)
}

// op is a statement about one run with its arguments ready; where it changes
// no row there is no such run.
func (e *encoder) op(statement string, args ...any) txn.Op {
	if e.err != nil {
		return txn.Fail(e.err)
	}
	return func(tx txn.Tx) error {
		n, err := sqldb.From(tx).Exec(statement, args...)
		if err == nil && n != 1 {
			err = fault.NoSuch("run")
		}
		return err
	}
}

func nullJSON(v schema.Nullable) any {
	if len(v) == 0 {
		return nil
	}
	return string(v)
}

func micros(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMicro()
}

func when(micros int64) *time.Time {
	if micros == 0 {
		return nil
	}
	t := sqldb.Time(micros)
	return &t
}
