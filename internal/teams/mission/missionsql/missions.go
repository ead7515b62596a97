// Package missionsql keeps missions on SQL.
package missionsql

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/teams/mission"
	"agentd/internal/teams/objective"
)

// Store keeps missions; it implements mission.Store.
type Store struct{ db *sqldb.DB }

var _ mission.Store = (*Store)(nil)

// New uses the table of migration 181.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	columns = `tenant_id, mission_id, session_id, status, spec, state, key_id, user_id, event_seq, created_at, updated_at, completed_at,
		report, hold, abort, authorized, reason, asked`
	one      = ` WHERE tenant_id = ? AND mission_id = ?`
	selected = `SELECT ` + columns + ` FROM missions`
)

var insert = sqldb.Insert(`missions`, columns)

func scan(row sqldb.Row) (r mission.Record, err error) {
	var spec, state, report string
	var created, updated, completed, hold, abort, authorized int64
	err = row.Scan(&r.TenantID, &r.MissionID, &r.SessionID, &r.Status, &spec, &state, &r.KeyID, &r.UserID, &r.EventSeq, &created, &updated,
		&completed, &report, &hold, &abort, &authorized, &r.Reason, &r.Asked)
	if err != nil {
		return r, sqldb.NoRowsAs(err, fault.NewNotFound("mission"))
	}
	r.CreatedAt, r.UpdatedAt, r.CompletedAt = sqldb.Time(created), sqldb.Time(updated), sqldb.Time(completed)
	r.Hold, r.Abort, r.Authorized = hold == 1, abort == 1, authorized == 1
	if report != "" {
		r.Report = jsontext.Value(report)
	}
	var dec sqldb.Decoder
	dec.JSON(spec, &r.Spec)
	dec.JSON(state, &r.State)
	return r, dec.Err()
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// CreateTx implements mission.Store.
func (s *Store) CreateTx(tx txn.Tx, r *mission.Record) error {
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		return err
	}
	state, err := json.Marshal(r.State)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(insert, r.TenantID, r.MissionID, r.SessionID, r.Status, string(spec), string(state), r.KeyID, r.UserID,
		r.EventSeq, sqldb.Micros(r.CreatedAt), sqldb.Micros(r.UpdatedAt), sqldb.Micros(r.CompletedAt), string(r.Report), bit(r.Hold),
		bit(r.Abort), bit(r.Authorized), r.Reason, r.Asked)
	return err
}

// UpdateTx implements mission.Store.
func (s *Store) UpdateTx(tx txn.Tx, r *mission.Record) error {
	state, err := json.Marshal(r.State)
	if err != nil {
		return err
	}
	const text = `UPDATE missions SET status = ?, state = ?, event_seq = ?, updated_at = ?, completed_at = ?, report = ?` + one
	n, err := sqldb.From(tx).Exec(text,
		r.Status, string(state), r.EventSeq, sqldb.Micros(r.UpdatedAt), sqldb.Micros(r.CompletedAt), string(r.Report), r.TenantID, r.MissionID)
	if err == nil && n == 0 {
		return fault.NewNotFound("mission")
	}
	return err
}

// RequestTx implements mission.Store.
func (s *Store) RequestTx(tx txn.Tx, tenant, id string, change func(*mission.Record) error) (*mission.Record, error) {
	t := sqldb.From(tx)
	r, err := scan(t.QueryRow(selected+one+t.ForUpdate(), tenant, id))
	if err != nil {
		return nil, err
	}
	if err := change(&r); err != nil {
		return nil, err
	}
	r.Asked++
	_, err = t.Exec(`UPDATE missions SET hold = ?, abort = ?, authorized = ?, reason = ?, asked = ?`+one,
		bit(r.Hold), bit(r.Abort), bit(r.Authorized), r.Reason, r.Asked, tenant, id)
	return &r, err
}

// CountRequestsTx implements mission.Store.
func (s *Store) CountRequestsTx(tx txn.Tx, tenant, id string) (asked int64, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT asked FROM missions`+one, tenant, id).Scan(&asked)
	return asked, sqldb.NoRowsAs(err, fault.NewNotFound("mission"))
}

// LockTx implements mission.Store.
func (s *Store) LockTx(tx txn.Tx, tenant, id string) error {
	t := sqldb.From(tx)
	var completed int64
	err := t.QueryRow(`SELECT completed_at FROM missions`+one+t.ForUpdate(), tenant, id).Scan(&completed)
	if err == nil && completed != 0 {
		return objective.ErrOver
	}
	return sqldb.NoRowsAs(err, objective.ErrOver)
}

// Get implements mission.Store.
func (s *Store) Get(ctx context.Context, tenant, id string) (*mission.Record, error) {
	r, err := scan(s.db.QueryRow(ctx, selected+one, tenant, id))
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// List implements mission.Store.
func (s *Store) List(ctx context.Context, tenant, session string, w page.Window) ([]mission.Record, error) {
	text, args := selected+` WHERE tenant_id = ?`, []any{tenant}
	if session != "" {
		text, args = text+` AND session_id = ?`, append(args, session)
	}
	if w.After != "" {
		text, args = text+` AND mission_id < ?`, append(args, w.After)
	}
	return sqldb.Collect(s.db.Reader(ctx), text+` ORDER BY mission_id DESC LIMIT ?`, append(args, w.Limit), scan)
}
