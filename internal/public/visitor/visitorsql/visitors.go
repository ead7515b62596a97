// Package visitorsql keeps the sessions of visitors on SQL.
package visitorsql

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/public/visitor"
	"agentd/internal/store/sqldb"
)

// Store keeps the sessions of visitors; it implements visitor.Store.
type Store struct{ db *sqldb.DB }

var _ visitor.Store = (*Store)(nil)

// New uses the tables of migration 205.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	sessionColumns = `tenant_id, session_id, agent_id, token_hash, messages, seen_at, created_at, expires_at`

	// lockAgent locks the row of an agent, which it makes where there is none.
	lockAgent = `INSERT INTO visitor_agents (tenant_id, agent_id, day, messages) VALUES (?, ?, '', 0)
		ON CONFLICT (tenant_id, agent_id) DO UPDATE SET messages = visitor_agents.messages`
	claimMessage = `UPDATE visitor_sessions SET messages = messages + 1, seen_at = ?
		WHERE tenant_id = ? AND session_id = ? AND messages < ? RETURNING messages`
	claimDay = `INSERT INTO visitor_agents (tenant_id, agent_id, day, messages) VALUES (?, ?, ?, 1)
		ON CONFLICT (tenant_id, agent_id) DO UPDATE SET day = excluded.day,
			messages = CASE WHEN visitor_agents.day = excluded.day THEN visitor_agents.messages + 1 ELSE 1 END
		RETURNING messages`
)

var insertSession = sqldb.Insert(`visitor_sessions`, sessionColumns)

// CreateTx implements visitor.Store.
func (s *Store) CreateTx(tx txn.Tx, r *visitor.Record) error {
	_, err := sqldb.From(tx).Exec(insertSession, r.TenantID, r.SessionID, r.AgentID, r.Hash, r.Messages,
		sqldb.Micros(r.SeenAt), sqldb.Micros(r.CreatedAt), sqldb.Micros(r.ExpiresAt))
	return err
}

// GetByToken implements visitor.Store.
func (s *Store) GetByToken(ctx context.Context, hash []byte) (*visitor.Record, error) {
	r := &visitor.Record{}
	var seen, created, expires int64
	err := s.db.QueryRow(ctx, `SELECT `+sessionColumns+` FROM visitor_sessions WHERE token_hash = ?`, hash).Scan(
		&r.TenantID, &r.SessionID, &r.AgentID, &r.Hash, &r.Messages, &seen, &created, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	r.SeenAt, r.CreatedAt, r.ExpiresAt = sqldb.Time(seen), sqldb.Time(created), sqldb.Time(expires)
	return r, err
}

// CountActiveTx implements visitor.Store.
func (s *Store) CountActiveTx(tx txn.Tx, tenant, agent string, after time.Time) (n int64, err error) {
	t := sqldb.From(tx)
	if _, err := t.Exec(lockAgent, tenant, agent); err != nil {
		return 0, err
	}
	err = t.QueryRow(`SELECT COUNT(*) FROM visitor_sessions WHERE tenant_id = ? AND agent_id = ? AND seen_at > ?`,
		tenant, agent, sqldb.Micros(after)).Scan(&n)
	return n, err
}

// ClaimMessageTx implements visitor.Store.
func (s *Store) ClaimMessageTx(tx txn.Tx, tenant, session string, most int64, at time.Time) (had int64, err error) {
	err = sqldb.From(tx).QueryRow(claimMessage, sqldb.Micros(at), tenant, session, most).Scan(&had)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return had, err
}

// ClaimDayTx implements visitor.Store.
func (s *Store) ClaimDayTx(tx txn.Tx, tenant, agent, day string, most int64) (bool, error) {
	var had int64
	err := sqldb.From(tx).QueryRow(claimDay, tenant, agent, day).Scan(&had)
	return most == 0 || had <= most, err
}

// DeleteOldTx implements visitor.Store.
func (s *Store) DeleteOldTx(tx txn.Tx, tenant, agent string, before time.Time) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM visitor_sessions WHERE tenant_id = ? AND agent_id = ? AND created_at < ?`,
		tenant, agent, sqldb.Micros(before))
	return err
}

// CreateFileTx implements visitor.Store.
func (s *Store) CreateFileTx(tx txn.Tx, tenant, session, file string, at time.Time) error {
	_, err := sqldb.From(tx).Exec(`INSERT INTO visitor_files (file_id, tenant_id, session_id, created_at) VALUES (?, ?, ?, ?)`,
		file, tenant, session, sqldb.Micros(at))
	return err
}

// CountFiles implements visitor.Store.
func (s *Store) CountFiles(ctx context.Context, tenant, session string) (n int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM visitor_files WHERE tenant_id = ? AND session_id = ?`, tenant, session).Scan(&n)
	return n, err
}

// HasFile implements visitor.Store.
func (s *Store) HasFile(ctx context.Context, tenant, session, file string) (bool, error) {
	var n int64
	err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM visitor_files WHERE file_id = ? AND tenant_id = ? AND session_id = ?`,
		file, tenant, session).Scan(&n)
	return n > 0, err
}

// GetFileTenant implements visitor.Store.
func (s *Store) GetFileTenant(ctx context.Context, file string) (tenant string, err error) {
	err = s.db.QueryRow(ctx, `SELECT tenant_id FROM visitor_files WHERE file_id = ?`, file).Scan(&tenant)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return tenant, err
}
