package identitysql

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

const (
	browserColumns = `s.session_id, s.tenant_id, s.user_id, s.prefix, s.label, s.address, s.method, s.needs_factor,
		s.created_at, s.last_used_at, s.renewed_at, s.verified_at, s.ended_at`
	selectSession           = `SELECT ` + browserColumns + ` FROM browser_sessions s `
	selectSessionCredential = `SELECT ` + browserColumns + `, s.secret_hash, u.role, u.status, t.status, t.operator
		FROM browser_sessions s
		JOIN users u ON u.tenant_id = s.tenant_id AND u.user_id = s.user_id
		JOIN tenants t ON t.tenant_id = s.tenant_id AND t.status <> 'deleted' `
	openSessions = selectSession + `WHERE s.tenant_id = ? AND s.user_id = ? AND s.ended_at = 0
		ORDER BY s.last_used_at DESC, s.session_id DESC`
)

// GetSessionCredential implements identity.SessionStore.
func (s *Store) GetSessionCredential(ctx context.Context, prefix string) (*identity.SessionCredential, error) {
	return scanSessionCredential(s.db.QueryRow(ctx, selectSessionCredential+`WHERE s.prefix = ?`, prefix))
}

// GetSessionCredentialByID implements identity.SessionStore.
func (s *Store) GetSessionCredentialByID(ctx context.Context, tenantID, sessionID string) (*identity.SessionCredential, error) {
	return scanSessionCredential(s.db.QueryRow(ctx, selectSessionCredential+`WHERE s.session_id = ? AND s.tenant_id = ?`, sessionID, tenantID))
}

func scanSessionCredential(row sqldb.Row) (*identity.SessionCredential, error) {
	var c identity.SessionCredential
	var hash []byte
	if err := scanBrowserSession(row, &c.Session, &hash, &c.Role, &c.MemberStatus, &c.TenantStatus, &c.Operator); err != nil {
		return nil, err
	}
	if len(hash) != len(c.Hash) {
		return nil, fmt.Errorf("identitysql: the hash of browser session %s has %d bytes", c.Session.SessionID, len(hash))
	}
	c.Hash = identity.Hash(hash)
	return &c, nil
}

// scanBrowserSession reads browserColumns and what comes after them.
func scanBrowserSession(row sqldb.Row, one *identity.Session, more ...any) error {
	var created, used, renewed, verified, ended int64
	err := row.Scan(append([]any{
		&one.SessionID, &one.TenantID, &one.UserID, &one.Prefix, &one.Label, &one.Address, &one.Method, &one.NeedsFactor,
		&created, &used, &renewed, &verified, &ended,
	}, more...)...)
	one.CreatedAt, one.LastUsedAt, one.RenewedAt = sqldb.Time(created), sqldb.Time(used), sqldb.Time(renewed)
	one.VerifiedAt, one.EndedAt = sqldb.Time(verified), sqldb.Time(ended)
	return notFound(err)
}

// ListSessions implements identity.SessionStore.
func (s *Store) ListSessions(ctx context.Context, tenantID, userID string) ([]identity.Session, error) {
	return scanBrowserSessions(s.db.Query(ctx, openSessions, tenantID, userID))
}

// ListSessionsTx implements identity.SessionStore.
func (s *Store) ListSessionsTx(tx txn.Tx, tenantID, userID string) ([]identity.Session, error) {
	return scanBrowserSessions(sqldb.From(tx).Query(openSessions, tenantID, userID))
}

func scanBrowserSessions(rows *sql.Rows, err error) ([]identity.Session, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []identity.Session
	for rows.Next() {
		var one identity.Session
		if err := scanBrowserSession(rows, &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// GetSessionTx implements identity.SessionStore.
func (s *Store) GetSessionTx(tx txn.Tx, sessionID string) (one identity.Session, err error) {
	err = scanBrowserSession(sqldb.From(tx).QueryRow(selectSession+`WHERE s.session_id = ?`, sessionID), &one)
	return one, err
}

// CreateSessionTx implements identity.SessionStore.
func (s *Store) CreateSessionTx(tx txn.Tx, one identity.Session, hash identity.Hash) error {
	_, err := sqldb.From(tx).Exec(`INSERT INTO browser_sessions
		(session_id, tenant_id, user_id, prefix, secret_hash, label, address, method, needs_factor,
		created_at, last_used_at, renewed_at, verified_at, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		one.SessionID, one.TenantID, one.UserID, one.Prefix, hash[:], one.Label, one.Address, one.Method, one.NeedsFactor,
		sqldb.Micros(one.CreatedAt), sqldb.Micros(one.LastUsedAt), sqldb.Micros(one.RenewedAt),
		sqldb.Micros(one.VerifiedAt), sqldb.Micros(one.EndedAt))
	return taken(err)
}

// UpdateSessionTx implements identity.SessionStore.
func (s *Store) UpdateSessionTx(tx txn.Tx, one identity.Session) error {
	_, err := sqldb.From(tx).Exec(`UPDATE browser_sessions SET tenant_id = ?, user_id = ?, needs_factor = ?, verified_at = ?, ended_at = ?
		WHERE session_id = ?`,
		one.TenantID, one.UserID, one.NeedsFactor, sqldb.Micros(one.VerifiedAt), sqldb.Micros(one.EndedAt), one.SessionID)
	return err
}

// DeleteSessionsTx implements identity.SessionStore.
func (s *Store) DeleteSessionsTx(tx txn.Tx, tenantID, userID string, ended, used time.Time) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM browser_sessions WHERE tenant_id = ? AND user_id = ?
		AND (last_used_at <= ? OR ended_at <> 0 AND ended_at <= ?)`,
		tenantID, userID, sqldb.Micros(used), sqldb.Micros(ended))
	return err
}

func useSession(tx *sqldb.Tx, u identity.Use) error {
	at := sqldb.Micros(u.At)
	_, err := tx.Exec(`UPDATE browser_sessions SET last_used_at = ?, renewed_at = CASE WHEN ? THEN ? ELSE renewed_at END
		WHERE session_id = ? AND last_used_at < ?`, at, u.Renewed, at, u.SessionID, at)
	return err
}
