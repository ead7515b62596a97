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

// Store keeps runs, their steps, approvals and budgets. It implements run.Store.
type Store struct{ db *sqldb.DB }

var _ run.Store = (*Store)(nil)

// New uses the tables of migrations 4, 11, 12 and 13.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	storedRun = `run_id, agent_id, agent_version, session_id, team_run_id, status, input, output, metrics, error, error_code,
		metadata, resource_limits, options, pending, step_seq, event_seq, created_at, started_at, completed_at, waiting, continued_by,
		started_by, parent_step_id, root_run_id`
	runColumns     = storedRun + `, ` + answerOutput
	updatedColumns = `status, output, answer_step, metrics, error, error_code, started_at, completed_at, step_seq, event_seq,
		pending, waiting, auth_server`

	oneRun    = ` WHERE tenant_id = ? AND run_id = ?`
	selectRun = `SELECT ` + runColumns + ` FROM runs` + oneRun
)

var (
	insertRun = sqldb.Insert(`runs`, `tenant_id, `+storedRun)

	// updateRun is by what the update does about a pause that was requested.
	updateRun = map[run.PauseMode]string{
		run.PauseAborts:  `UPDATE runs SET ` + sqldb.Assign(updatedColumns) + oneRun + ` AND NOT pausing`,
		run.PauseKept:    `UPDATE runs SET ` + sqldb.Assign(updatedColumns) + oneRun,
		run.PauseCleared: `UPDATE runs SET ` + sqldb.Assign(updatedColumns) + `, pausing = FALSE` + oneRun,
	}
)

// Create implements run.Store.
func (s *Store) Create(r *run.Record) txn.Op {
	var enc sqldb.Encoder
	taken := sqldb.Expect{Or: func(err error) error {
		if !sqldb.IsUnique(err) {
			return err
		}
		return fault.New(fault.Conflict, "ALREADY_EXISTS", "There is a run with this id already.").Because(err)
	}}
	insert := enc.Queued(taken, insertRun,
		r.TenantID, r.RunID, r.AgentID, r.AgentVersion, r.SessionID, r.TeamRunID, string(r.Status),
		string(r.Input), sqldb.NullJSON(r.Output), metricsJSON(&enc, r.Metrics, r.Outcome.Stored()), r.Error, r.ErrorCode, string(r.Metadata),
		enc.JSON(r.ResourceLimits), enc.JSON(r.Options), enc.JSON(r.Pending), r.StepSeq, r.EventSeq,
		sqldb.Micros(r.CreatedAt), sqldb.OptionalMicros(r.StartedAt), sqldb.OptionalMicros(r.CompletedAt), waitJSON(&enc, r.Wait),
		r.ContinuedByRunID, initiatorText(r.StartedBy), r.ParentStepID, r.RootRunID)
	label := labels.Insert(r.TenantID, r.RunID, r.CreatedAt, r.Metadata)
	return func(tx txn.Tx) error {
		if err := insert(tx); err != nil {
			return err
		}
		return label(tx)
	}
}

// Update implements run.Store.
func (s *Store) Update(tenant, id string, u run.Update) txn.Op {
	var enc sqldb.Encoder
	var server *string
	if u.Wait.Auth != nil {
		server = &u.Wait.Auth.ServerID
	}
	output, answer := splitAnswer(u.Output, u.Answer)
	args := []any{
		string(u.Status), sqldb.NullJSON(output), answer, metricsJSON(&enc, u.Metrics, u.Outcome), u.Error, u.ErrorCode,
		sqldb.OptionalMicros(u.StartedAt), sqldb.OptionalMicros(u.CompletedAt), u.StepSeq, u.EventSeq, enc.JSON(u.Pending),
		waitJSON(&enc, u.Wait), server, tenant, id,
	}
	return func(tx txn.Tx) error {
		expect := sqldb.Expect{Row: func() error {
			if u.Pause == run.PauseAborts {
				if _, absent := s.LockTx(tx, tenant, id); absent == nil {
					return run.ErrPausing
				}
			}
			return fault.NewNotFound("run")
		}}
		return enc.Queued(expect, updateRun[u.Pause], args...)(tx)
	}
}

// LockTx implements run.Store.
func (s *Store) LockTx(tx txn.Tx, tenant, id string) (*run.Record, error) {
	t := sqldb.From(tx)
	return scanRun(tenant, t.QueryRow(selectRun+t.ForUpdate(), tenant, id))
}

// Get implements run.Store.
func (s *Store) Get(ctx context.Context, tenant, id string) (*run.Record, error) {
	return scanRun(tenant, s.db.QueryRow(ctx, selectRun, tenant, id))
}

var (
	filters = sqldb.FiltersOf[run.Filter]()
	labels  = sqldb.Labels{Table: `run_labels`, ID: `run_id`}
)

// List implements run.Store.
func (s *Store) List(ctx context.Context, tenant string, f run.Filter, w page.Window) ([]run.Run, error) {
	return s.list(ctx, runColumns, tenant, f, w)
}

// summaryColumns are runColumns, with the beginnings of the long ones.
var summaryColumns = strings.NewReplacer(
	`input, output,`, `substr(input, 1, 2000) AS input, CASE WHEN answer_step = 0 THEN substr(output, 1, 2000)
		ELSE `+strings.Replace(answerOutput, `answer.output`, `substr(answer.output, 1, 2000)`, 1)+` END AS output,`,
	`metadata,`, `'{}' AS metadata,`, answerOutput, `NULL`,
).Replace(runColumns)

// ListSummaries implements run.Store.
func (s *Store) ListSummaries(ctx context.Context, tenant string, f run.Filter, w page.Window) ([]run.Run, error) {
	runs, err := s.list(ctx, summaryColumns, tenant, f, w)
	for i := range runs {
		runs[i].Summarize()
	}
	return runs, err
}

func (s *Store) list(ctx context.Context, columns, tenant string, f run.Filter, w page.Window) ([]run.Run, error) {
	from, args, err := filters.SelectBy(ctx, s.db, labels, f.Metadata, `runs`, tenant, &f, w)
	if err != nil {
		return nil, err
	}
	rows, err := s.db.Query(ctx, `SELECT `+columns+` FROM `+from, args...)
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

// CountStatus implements run.Store.
func (s *Store) CountStatus(ctx context.Context, tenant string, status run.Status, limit int) (n int, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM (SELECT run_id FROM runs WHERE tenant_id = ? AND status = ? LIMIT ?) counted`,
		tenant, string(status), limit).Scan(&n)
	return n, err
}

// notEnded names every status in which a run has ended.
var notEnded, endedStatuses = func() (string, []any) {
	var ended []any
	for _, status := range run.Statuses {
		if status.Final() {
			ended = append(ended, string(status))
		}
	}
	return ` NOT IN (?` + strings.Repeat(`, ?`, len(ended)-1) + `)`, ended
}()

// ListUnfinished implements run.Store.
func (s *Store) ListUnfinished(ctx context.Context, tenant, agent string, limit int) ([]string, error) {
	args := append(append([]any{tenant, agent}, endedStatuses...), limit)
	rows, err := s.db.Query(ctx, `SELECT run_id FROM runs WHERE tenant_id = ? AND agent_id = ?
		AND status`+notEnded+` ORDER BY created_at, run_id LIMIT ?`, args...)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// unfinishedStatuses are those in which a run has not ended.
var unfinishedStatuses = func() (all []string) {
	for _, status := range run.Statuses {
		if !status.Final() {
			all = append(all, string(status))
		}
	}
	return all
}()

// HasUnfinishedTx implements run.Store. It walks the tenant's runs that have not
// ended, which are few beside those of a busy agent that have.
func (s *Store) HasUnfinishedTx(tx txn.Tx, tenant, agent string, version int64) (has bool, err error) {
	in, args := sqldb.In(unfinishedStatuses, tenant)
	err = sqldb.From(tx).QueryRow(`SELECT EXISTS (SELECT 1 FROM runs WHERE tenant_id = ? AND status`+in+
		` AND agent_id = ? AND agent_version = ?)`, append(args, agent, version)...).Scan(&has)
	return has, err
}

// GetLastSeqTx implements run.Store.
func (s *Store) GetLastSeqTx(tx txn.Tx, tenant, id string) (int64, error) {
	var seq int64
	err := sqldb.From(tx).QueryRow(`SELECT COALESCE(MAX(last_seq), 0) FROM run_events`+oneRun, tenant, id).Scan(&seq)
	return seq, err
}

func scanRun(tenant string, row sqldb.Row) (*run.Record, error) {
	r := &run.Record{}
	r.TenantID, r.Artifacts = tenant, []run.Artifact{}
	var status, input, metrics, metadata, limits, options, pending, waiting, initiator string
	var output, answer sql.NullString
	var created, started, completed int64
	err := row.Scan(&r.RunID, &r.AgentID, &r.AgentVersion, &r.SessionID, &r.TeamRunID, &status, &input, &output, &metrics, &r.Error,
		&r.ErrorCode, &metadata, &limits, &options, &pending, &r.StepSeq, &r.EventSeq, &created, &started, &completed, &waiting,
		&r.ContinuedByRunID, &initiator, &r.ParentStepID, &r.RootRunID, &answer)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NewNotFound("run")
	}
	if err != nil {
		return nil, err
	}
	r.Status, r.Input, r.Metadata = run.Status(status), schema.Object(input), schema.Object(metadata)
	r.Output = outputOf(output, answer)
	r.CreatedAt, r.StartedAt, r.CompletedAt = sqldb.Time(created), sqldb.OptionalTime(started), sqldb.OptionalTime(completed)
	setInitiator(&r.Run, initiator)
	var dec sqldb.Decoder
	stored := storedMetrics{}
	dec.JSON(metrics, &stored)
	r.Metrics, r.Outcome = stored.Metrics, stored.Outcome
	dec.JSON(limits, &r.ResourceLimits)
	dec.JSON(options, &r.Options)
	dec.JSON(pending, &r.Pending)
	dec.JSON(waiting, &r.Wait)
	r.Show()
	return r, dec.Err()
}

func initiatorText(by *run.Initiator) string {
	if by == nil {
		return ""
	}
	return string(by.Type) + ":" + by.ID
}

func setInitiator(r *run.Run, stored string) {
	if kind, id, ok := strings.Cut(stored, ":"); ok {
		r.SetInitiator(run.Initiator{Type: run.InitiatorType(kind), ID: id})
	}
}

// storedMetrics is what the column metrics has: also what a run has reached of the outcome
// that it was given, which few runs are.
type storedMetrics struct {
	run.Metrics
	Outcome *run.Outcome `json:"outcome,omitzero"`
}

// metricsJSON is {} for a run that has done nothing yet.
func metricsJSON(enc *sqldb.Encoder, m run.Metrics, o *run.Outcome) string {
	switch {
	case o != nil:
		return enc.JSON(storedMetrics{m, o})
	case m == (run.Metrics{}):
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
