// Package sessionsql keeps sessions, their branches and turns, todos and shares on SQL.
package sessionsql

import (
	"context"
	"database/sql"
	"errors"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/session"
	"agentd/internal/store/sqldb"
)

// Store keeps sessions. It implements session.Store, TodoStore and ShareStore.
type Store struct{ db *sqldb.DB }

var _ session.Store = (*Store)(nil)

// New uses the tables of migration 10.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	sessionColumns = `session_id, agent_id, team_id, status, queue_mode, model_override, metadata, active_branch, turns, summary,
		created_at, updated_at, expires_at, external_id`
	updatedColumns = `status, queue_mode, model_override, metadata, active_branch, turns, summary, updated_at, external_id`

	ofSession     = ` WHERE tenant_id = ? AND session_id = ?`
	selectSession = `SELECT ` + sessionColumns + ` FROM sessions` + ofSession
)

var (
	insertSession = sqldb.Insert(`sessions`, `tenant_id, `+sessionColumns)
	updateSession = `UPDATE sessions SET ` + sqldb.Assign(updatedColumns) + ofSession
)

// CreateTx implements session.Store.
func (s *Store) CreateTx(tx txn.Tx, r *session.Record) error {
	var enc sqldb.Encoder
	err := enc.Op("session", insertSession,
		r.TenantID, r.SessionID, r.AgentID, r.TeamID, string(r.Status), r.QueueMode, overrideJSON(&enc, r.Model), enc.JSON(r.Metadata),
		r.ActiveBranch, r.Turns, enc.JSON(r.Summary), sqldb.Micros(r.CreatedAt), sqldb.Micros(r.UpdatedAt), sqldb.Micros(r.ExpiresAt),
		r.ExternalID)(tx)
	if err != nil {
		return sqldb.UniqueAs(err, session.ExternalIDTaken())
	}
	return labels.Insert(r.TenantID, r.SessionID, r.CreatedAt, r.Metadata)(tx)
}

// UpdateLabelsTx implements session.Store.
func (s *Store) UpdateLabelsTx(tx txn.Tx, r *session.Record) error {
	return labels.Replace(tx, r.TenantID, r.SessionID, r.CreatedAt, r.Metadata)
}

// UpdateTx implements session.Store.
func (s *Store) UpdateTx(tx txn.Tx, r *session.Record) error {
	var enc sqldb.Encoder
	return enc.Op("session", updateSession,
		string(r.Status), r.QueueMode, overrideJSON(&enc, r.Model), enc.JSON(r.Metadata), r.ActiveBranch, r.Turns,
		enc.JSON(r.Summary), sqldb.Micros(r.UpdatedAt), r.ExternalID, r.TenantID, r.SessionID)(tx)
}

func overrideJSON(enc *sqldb.Encoder, m *session.ModelOverride) any {
	if m == nil {
		return nil
	}
	return enc.JSON(m)
}

// Get implements session.Store.
func (s *Store) Get(ctx context.Context, tenant, id string) (*session.Record, error) {
	return scanSession(tenant, s.db.QueryRow(ctx, selectSession, tenant, id))
}

// LockTx implements session.Store.
func (s *Store) LockTx(tx txn.Tx, tenant, id string) (*session.Record, error) {
	t := sqldb.From(tx)
	return scanSession(tenant, t.QueryRow(selectSession+t.ForUpdate(), tenant, id))
}

func scanSession(tenant string, row sqldb.Row) (*session.Record, error) {
	r := &session.Record{TenantID: tenant}
	var status, metadata, summary string
	var override sql.NullString
	var created, updated, expires int64
	err := row.Scan(&r.SessionID, &r.AgentID, &r.TeamID, &status, &r.QueueMode, &override, &metadata,
		&r.ActiveBranch, &r.Turns, &summary, &created, &updated, &expires, &r.ExternalID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NewNotFound("session")
	}
	if err != nil {
		return nil, err
	}
	r.Status, r.Metadata = session.Status(status), schema.Object(metadata)
	r.CreatedAt, r.UpdatedAt, r.ExpiresAt = sqldb.Time(created), sqldb.Time(updated), sqldb.Time(expires)
	var dec sqldb.Decoder
	dec.JSON(summary, &r.Summary)
	if override.Valid {
		r.Model = new(session.ModelOverride)
		dec.JSON(override.String, r.Model)
	}
	return r, dec.Err()
}

var (
	filters = sqldb.FiltersOf[session.Filter]()
	labels  = sqldb.Labels{Table: `session_labels`, ID: `session_id`}
)

// List implements session.Store.
func (s *Store) List(ctx context.Context, tenant string, f session.Filter, w page.Window) ([]session.Record, error) {
	from, args, err := filters.SelectBy(ctx, s.db, labels, f.Metadata, `sessions`, tenant, &f, w)
	if err != nil {
		return nil, err
	}
	return sqldb.Collect(s.db.Reader(ctx), `SELECT `+sessionColumns+` FROM `+from, args, func(row sqldb.Row) (session.Record, error) {
		r, err := scanSession(tenant, row)
		if err != nil {
			return session.Record{}, err
		}
		return *r, nil
	})
}

// ListJournals implements session.Store.
func (s *Store) ListJournals(ctx context.Context, tenant string, runs []string) ([]run.Journal, error) {
	return runsql.WithSteps(ctx, s.db, tenant, runs)
}
