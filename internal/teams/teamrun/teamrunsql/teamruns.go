// Package teamrunsql keeps the runs of teams on SQL.
package teamrunsql

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/teams/teamrun"
)

// Store keeps team runs; it implements teamrun.Store.
type Store struct{ db *sqldb.DB }

var _ teamrun.Store = (*Store)(nil)

// New uses the tables of migrations 110 and 150.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	columns = `tenant_id, team_run_id, team_id, status, spec, message, thread_id, metadata, key_id, user_id, output, error, cancel,
		event_seq, created_at, completed_at`
	oneRun    = ` WHERE tenant_id = ? AND team_run_id = ?`
	selectRun = `SELECT ` + columns + ` FROM team_runs`
)

var (
	insertRun = sqldb.Insert(`team_runs`, columns)
	putTask   = sqldb.Insert(`team_tasks`, `tenant_id, team_run_id, seq, ended, body`) +
		` ON CONFLICT (tenant_id, team_run_id, seq) DO UPDATE SET ` + sqldb.Excluded(`ended, body`)
)

func scan(row sqldb.Row) (r teamrun.Record, err error) {
	var spec, metadata string
	var cancel, created, completed int64
	err = row.Scan(&r.TenantID, &r.TeamRunID, &r.TeamID, &r.Status, &spec, &r.Message, &r.Thread, &metadata, &r.KeyID, &r.UserID, &r.Output,
		&r.Error, &cancel, &r.EventSeq, &created, &completed)
	if err != nil {
		return r, sqldb.NoRowsAs(err, fault.NewNotFound("team run"))
	}
	r.Cancel, r.CreatedAt, r.CompletedAt, r.Metadata = cancel == 1, sqldb.Time(created), sqldb.Time(completed), schema.Object(metadata)
	var dec sqldb.Decoder
	dec.JSON(spec, &r.Spec)
	return r, dec.Err()
}

// CreateTx implements teamrun.Store.
func (s *Store) CreateTx(tx txn.Tx, r *teamrun.Record) error {
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(insertRun, r.TenantID, r.TeamRunID, r.TeamID, string(r.Status), string(spec), r.Message, r.Thread,
		string(r.Metadata), r.KeyID, r.UserID, r.Output, r.Error, 0, r.EventSeq, sqldb.Micros(r.CreatedAt), sqldb.Micros(r.CompletedAt))
	return err
}

// UpdateTx implements teamrun.Store.
func (s *Store) UpdateTx(tx txn.Tx, r *teamrun.Record) error {
	n, err := sqldb.From(tx).Exec(`UPDATE team_runs SET status = ?, output = ?, error = ?, event_seq = ?, completed_at = ?`+oneRun,
		string(r.Status), r.Output, r.Error, r.EventSeq, sqldb.Micros(r.CompletedAt), r.TenantID, r.TeamRunID)
	if err == nil && n == 0 {
		return fault.NewNotFound("team run")
	}
	return err
}

// PutTasksTx implements teamrun.Store.
func (s *Store) PutTasksTx(tx txn.Tx, tenant, teamRunID string, tasks []teamrun.Task) error {
	for i := range tasks {
		ended := 0
		if tasks[i].Status != "" {
			ended = 1
		}
		body, err := json.Marshal(tasks[i])
		if err != nil {
			return err
		}
		if _, err := sqldb.From(tx).Exec(putTask, tenant, teamRunID, tasks[i].Seq, ended, string(body)); err != nil {
			return err
		}
	}
	return nil
}

// RequestCancelTx implements teamrun.Store.
func (s *Store) RequestCancelTx(tx txn.Tx, tenant, teamRunID string) error {
	n, err := sqldb.From(tx).Exec(`UPDATE team_runs SET cancel = 1`+oneRun, tenant, teamRunID)
	if err == nil && n == 0 {
		return fault.NewNotFound("team run")
	}
	return err
}

// HasCancelRequestTx implements teamrun.Store.
func (s *Store) HasCancelRequestTx(tx txn.Tx, tenant, teamRunID string) (bool, error) {
	var cancel int64
	err := sqldb.From(tx).QueryRow(`SELECT cancel FROM team_runs`+oneRun, tenant, teamRunID).Scan(&cancel)
	return cancel == 1, sqldb.NoRowsAs(err, fault.NewNotFound("team run"))
}

// DeleteTeamTx implements teamrun.Store.
func (s *Store) DeleteTeamTx(tx txn.Tx, tenant, teamID string, limit int) ([]string, error) {
	const ofTeam = ` WHERE tenant_id = ? AND team_run_id IN (SELECT team_run_id FROM team_runs WHERE tenant_id = ? AND team_id = ?)`
	t := sqldb.From(tx)
	rows, err := t.Query(`SELECT body FROM team_tasks`+ofTeam+` AND ended = 0 LIMIT ?`, tenant, tenant, teamID, limit)
	if err != nil {
		return nil, err
	}
	bodies, err := sqldb.ScanStrings(rows)
	if err != nil {
		return nil, err
	}
	var unfinished []string
	for _, body := range bodies {
		var task teamrun.Task
		var dec sqldb.Decoder
		dec.JSON(body, &task)
		if err := dec.Err(); err != nil {
			return nil, err
		}
		unfinished = append(unfinished, task.RunID)
	}
	if _, err := t.Exec(`DELETE FROM team_tasks`+ofTeam, tenant, tenant, teamID); err != nil {
		return nil, err
	}
	_, err = t.Exec(`DELETE FROM team_runs WHERE tenant_id = ? AND team_id = ?`, tenant, teamID)
	return unfinished, err
}

// Get implements teamrun.Store.
func (s *Store) Get(ctx context.Context, tenant, teamRunID string) (*teamrun.Record, error) {
	r, err := scan(s.db.QueryRow(ctx, selectRun+oneRun, tenant, teamRunID))
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// ListTasks implements teamrun.Store.
func (s *Store) ListTasks(ctx context.Context, tenant, teamRunID string) ([]teamrun.Task, error) {
	return sqldb.Collect(s.db.Reader(ctx), `SELECT body FROM team_tasks`+oneRun+` ORDER BY seq`, []any{tenant, teamRunID},
		func(row sqldb.Row) (t teamrun.Task, err error) {
			var body string
			if err := row.Scan(&body); err != nil {
				return t, err
			}
			var dec sqldb.Decoder
			dec.JSON(body, &t)
			return t, dec.Err()
		})
}

// List implements teamrun.Store.
func (s *Store) List(ctx context.Context, tenant, teamID string, f teamrun.Filter, w page.Window) ([]teamrun.Record, error) {
	text, args := selectRun+` WHERE tenant_id = ? AND team_id = ?`, []any{tenant, teamID}
	if f.Open {
		text += ` AND completed_at = 0`
	}
	if f.Thread != nil {
		text, args = text+` AND thread_id = ?`, append(args, *f.Thread)
	}
	beyond, order := ` AND team_run_id > ?`, ` ORDER BY team_run_id`
	if f.Newest {
		beyond, order = ` AND team_run_id < ?`, ` ORDER BY team_run_id DESC`
	}
	if w.After != "" {
		text, args = text+beyond, append(args, w.After)
	}
	return sqldb.Collect(s.db.Reader(ctx), text+order+` LIMIT ?`, append(args, w.Limit), scan)
}

// LockTx implements teamrun.Store.
func (s *Store) LockTx(tx txn.Tx, tenant, teamRunID string) error {
	t := sqldb.From(tx)
	var completed int64
	err := t.QueryRow(`SELECT completed_at FROM team_runs`+oneRun+t.ForUpdate(), tenant, teamRunID).Scan(&completed)
	if err == nil && completed != 0 {
		return teamrun.ErrOver
	}
	return sqldb.NoRowsAs(err, teamrun.ErrOver)
}
