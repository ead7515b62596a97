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

const sessionColumns = `session_id, tenant_id, user_id, prefix, key_prefix, label, address, method, needs_factor,
	created_at, last_used_at, renewed_at, verified_at, ended_at, of_key_id`

var (
	insertSession = sqldb.Insert(`browser_sessions`, sessionColumns+`, secret_hash`)
	selectSession = `SELECT ` + sqldb.Qualify(`s`, sessionColumns) + ` FROM browser_sessions s `
	openSessions  = selectSession + `WHERE s.tenant_id = ? AND s.user_id = ? AND s.ended_at = 0
		ORDER BY s.last_used_at DESC, s.session_id DESC`
	selectSessionCredential = credentialWith(`s.secret_hash`)
	selectSessionByKey      = credentialWith(`s.key_hash`) + `WHERE s.key_prefix = ? AND s.key_prefix <> ''`
)

func credentialWith(hash string) string {
	return `SELECT ` + sqldb.Qualify(`s`, sessionColumns) + `, ` + hash + `, COALESCE(k.scopes, ''), COALESCE(k.status, ''),
		COALESCE(k.expires_at, 0), u.role, u.status, t.status, t.operator
		FROM browser_sessions s ` + fmt.Sprintf(withMemberAndTenant, `s`) +
		`LEFT JOIN api_keys k ON s.of_key_id <> '' AND k.tenant_id = s.tenant_id AND k.key_id = s.of_key_id `
}

// GetSessionCredential implements identity.SessionStore.
func (s *Store) GetSessionCredential(ctx context.Context, prefix string) (*identity.SessionCredential, error) {
	return scanSessionCredential(s.db.QueryRow(ctx, selectSessionCredential+`WHERE s.prefix = ?`, prefix))
}

// GetSessionCredentialByKey implements identity.SessionStore.
func (s *Store) GetSessionCredentialByKey(ctx context.Context, keyPrefix string) (*identity.SessionCredential, error) {
	return scanSessionCredential(s.db.QueryRow(ctx, selectSessionByKey, keyPrefix))
}

// GetSessionCredentialByID implements identity.SessionStore.
func (s *Store) GetSessionCredentialByID(ctx context.Context, tenantID, sessionID string) (*identity.SessionCredential, error) {
	return scanSessionCredential(s.db.QueryRow(ctx, selectSessionCredential+`WHERE s.session_id = ? AND s.tenant_id = ?`,
		sessionID, tenantID))
}

func scanSessionCredential(row sqldb.Row) (*identity.SessionCredential, error) {
	var c identity.SessionCredential
	var hash []byte
	var scopes string
	var expires int64
	err := scanBrowserSession(row, &c.Session, &hash, &scopes, &c.Key.Status, &expires, &c.Role, &c.MemberStatus, &c.TenantStatus, &c.Operator)
	if err != nil {
		return nil, err
	}
	if len(hash) != len(c.Hash) {
		return nil, fmt.Errorf("identitysql: the hash of browser session %s has %d bytes", c.Session.SessionID, len(hash))
	}
	c.Hash = identity.Hash(hash)
	c.Key.KeyID, c.Key.Scopes, c.Key.ExpiresAt = c.Session.KeyID, scopesIn(scopes), sqldb.Time(expires)
	return &c, nil
}

// scanBrowserSession reads sessionColumns, and the columns that the query has
// after them.
func scanBrowserSession(row sqldb.Row, b *identity.Session, more ...any) error {
	var created, used, renewed, verified, ended int64
	err := row.Scan(append([]any{
		&b.SessionID, &b.TenantID, &b.UserID, &b.Prefix, &b.KeyPrefix, &b.Label, &b.Address, &b.Method, &b.NeedsFactor,
		&created, &used, &renewed, &verified, &ended, &b.KeyID,
	}, more...)...)
	b.CreatedAt, b.LastUsedAt, b.RenewedAt = sqldb.Time(created), sqldb.Time(used), sqldb.Time(renewed)
	b.VerifiedAt, b.EndedAt = sqldb.Time(verified), sqldb.Time(ended)
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
		var b identity.Session
		if err := scanBrowserSession(rows, &b); err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, rows.Err()
}

// GetSessionTx implements identity.SessionStore.
func (s *Store) GetSessionTx(tx txn.Tx, sessionID string) (b identity.Session, err error) {
	err = scanBrowserSession(sqldb.From(tx).QueryRow(selectSession+`WHERE s.session_id = ?`, sessionID), &b)
	return b, err
}

// CreateSessionTx implements identity.SessionStore.
func (s *Store) CreateSessionTx(tx txn.Tx, b identity.Session, hash identity.Hash) error {
	_, err := sqldb.From(tx).Exec(insertSession,
		b.SessionID, b.TenantID, b.UserID, b.Prefix, b.KeyPrefix, b.Label, b.Address, b.Method, b.NeedsFactor,
		sqldb.Micros(b.CreatedAt), sqldb.Micros(b.LastUsedAt), sqldb.Micros(b.RenewedAt),
		sqldb.Micros(b.VerifiedAt), sqldb.Micros(b.EndedAt), b.KeyID, hash[:])
	return taken(err)
}

// UpdateSessionTx implements identity.SessionStore.
func (s *Store) UpdateSessionTx(tx txn.Tx, b identity.Session) error {
	_, err := sqldb.From(tx).Exec(`UPDATE browser_sessions SET tenant_id = ?, user_id = ?, needs_factor = ?, verified_at = ?, ended_at = ?
		WHERE session_id = ?`,
		b.TenantID, b.UserID, b.NeedsFactor, sqldb.Micros(b.VerifiedAt), sqldb.Micros(b.EndedAt), b.SessionID)
	return err
}

// UpdateSessionKeyTx implements identity.SessionStore.
func (s *Store) UpdateSessionKeyTx(tx txn.Tx, sessionID, keyPrefix string, hash identity.Hash) error {
	_, err := sqldb.From(tx).Exec(`UPDATE browser_sessions SET key_prefix = ?, key_hash = ? WHERE session_id = ?`,
		keyPrefix, hash[:], sessionID)
	return taken(err)
}

// DeleteSessionsTx implements identity.SessionStore.
func (s *Store) DeleteSessionsTx(tx txn.Tx, tenantID, userID string, ended, used time.Time) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM browser_sessions WHERE tenant_id = ? AND user_id = ?
		AND (last_used_at <= ? OR ended_at <> 0 AND ended_at <= ?)`,
		tenantID, userID, sqldb.Micros(used), sqldb.Micros(ended))
	return err
}

func recordSessionUse(tx *sqldb.Tx, u identity.Use) error {
	at := sqldb.Micros(u.At)
	_, err := tx.Exec(`UPDATE browser_sessions SET last_used_at = ?, renewed_at = CASE WHEN ? THEN ? ELSE renewed_at END
		WHERE session_id = ? AND last_used_at < ?`, at, u.Renewed, at, u.SessionID, at)
	return err
}
