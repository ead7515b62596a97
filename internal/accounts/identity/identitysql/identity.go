// Package identitysql keeps tenants, members, keys, browser sessions and invites on SQL.
package identitysql

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

// Store keeps tenants, members, keys and browser sessions. It implements
// identity.Store.
type Store struct{ db *sqldb.DB }

var _ identity.Store = (*Store)(nil)

// New uses the tables of migrations 3, 17 and 18.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	keyColumns    = `tenant_id, key_id, user_id, name, prefix, scopes, status, created_at, last_used_at, expires_at, revoked_at`
	memberColumns = `tenant_id, user_id, email, email_verified, name, avatar_url, role, status, last_login_at, created_at, updated_at`
	tenantColumns = `tenant_id, name, slug, status, plan, settings, operator, created_at, updated_at`

	// Present excludes the members that were removed.
	Present = ` AND u.status <> 'deleted'`

	withMemberAndTenant = `JOIN users u ON u.tenant_id = %[1]s.tenant_id AND u.user_id = %[1]s.user_id
		JOIN tenants t ON t.tenant_id = %[1]s.tenant_id AND t.status <> 'deleted' `
)

var (
	// MemberColumns are the columns that a MemberRow scans, of users u.
	MemberColumns = sqldb.Qualify(`u`, memberColumns)
	// TenantColumns are the columns that a TenantRow scans, of tenants t.
	TenantColumns = sqldb.Qualify(`t`, tenantColumns+`, description, logo_url, branding, social_links,
		published_at, public_agent_id, published_agents, public_settings`)

	selectKey        = `SELECT ` + sqldb.Qualify(`k`, keyColumns) + ` FROM api_keys k `
	selectMember     = `SELECT ` + MemberColumns + ` FROM users u `
	selectTenant     = `SELECT ` + TenantColumns + ` FROM tenants t WHERE t.tenant_id = ? AND t.status <> 'deleted'`
	selectCredential = `SELECT ` + sqldb.Qualify(`k`, keyColumns) + `, k.secret_hash, u.role, u.status, t.status, t.operator
		FROM api_keys k ` + fmt.Sprintf(withMemberAndTenant, `k`)

	insertTenant = sqldb.Insert(`tenants`, tenantColumns+`, redact`)
	insertMember = sqldb.Insert(`users`, memberColumns)
	insertKey    = sqldb.Insert(`api_keys`, keyColumns+`, secret_hash`)
)

// GetCredential implements identity.Store.
func (s *Store) GetCredential(ctx context.Context, prefix string) (*identity.Credential, error) {
	return scanCredential(s.db.QueryRow(ctx, selectCredential+`WHERE k.prefix = ?`, prefix))
}

// GetCredentialByID implements identity.Store.
func (s *Store) GetCredentialByID(ctx context.Context, tenantID, keyID string) (*identity.Credential, error) {
	return scanCredential(s.db.QueryRow(ctx, selectCredential+`WHERE k.tenant_id = ? AND k.key_id = ?`, tenantID, keyID))
}

func scanCredential(row sqldb.Row) (*identity.Credential, error) {
	var c identity.Credential
	var hash []byte
	err := scanAPIKey(row, &c.Key, &hash, &c.Role, &c.MemberStatus, &c.TenantStatus, &c.Operator)
	if err != nil {
		return nil, err
	}
	if len(hash) != len(c.Hash) {
		return nil, fmt.Errorf("identitysql: the hash of key %s has %d bytes", c.Key.KeyID, len(hash))
	}
	c.Hash = identity.Hash(hash)
	return &c, nil
}

// scanAPIKey reads keyColumns, and the columns that the query has after them.
func scanAPIKey(row sqldb.Row, k *identity.Key, more ...any) error {
	var scopes string
	var created, used, expires, revoked int64
	err := row.Scan(append([]any{
		&k.TenantID, &k.KeyID, &k.UserID, &k.Name, &k.Prefix, &scopes, &k.Status, &created, &used, &expires, &revoked,
	}, more...)...)
	if err != nil {
		return notFound(err)
	}
	k.Scopes = scopesIn(scopes)
	k.CreatedAt, k.LastUsedAt = sqldb.Time(created), sqldb.Time(used)
	k.ExpiresAt, k.RevokedAt = sqldb.Time(expires), sqldb.Time(revoked)
	return nil
}

// scopesIn reads the scopes of a key, which are stored with spaces between them.
func scopesIn(text string) []authz.Scope {
	scopes := []authz.Scope{}
	for name := range strings.FieldsSeq(text) {
		scopes = append(scopes, authz.Scope(name))
	}
	return scopes
}

// GetOperator implements identity.Store.
func (s *Store) GetOperator(ctx context.Context) (tenantID string, err error) {
	err = s.db.QueryRow(ctx, `SELECT tenant_id FROM tenants WHERE operator`).Scan(&tenantID)
	return tenantID, notFound(err)
}

// GetTenant implements identity.Store.
func (s *Store) GetTenant(ctx context.Context, tenantID string) (identity.Tenant, error) {
	return scanTenant(s.db.QueryRow(ctx, selectTenant, tenantID))
}

// TenantRow scans TenantColumns.
type TenantRow struct {
	t                         identity.Tenant
	settings, branding, links string
	agents, public            string
	created, updated          int64
	published                 int64
}

// Dest returns the arguments of Scan.
func (r *TenantRow) Dest() []any {
	return []any{
		&r.t.TenantID, &r.t.Name, &r.t.Slug, &r.t.Status, &r.t.Plan, &r.settings, &r.t.Operator, &r.created, &r.updated,
		&r.t.Description, &r.t.LogoURL, &r.branding, &r.links,
		&r.published, &r.t.PublicAgentID, &r.agents, &r.public,
	}
}

// Tenant returns the tenant that was scanned.
func (r *TenantRow) Tenant() identity.Tenant {
	r.t.Settings, r.t.Branding = jsontext.Value(r.settings), jsontext.Value(r.branding)
	r.t.SocialLinks = jsontext.Value(r.links)
	r.t.CreatedAt, r.t.UpdatedAt = sqldb.Time(r.created), sqldb.Time(r.updated)
	r.t.PublishedAt, r.t.Public = sqldb.Time(r.published), r.published > 0
	if r.agents != "" {
		r.t.PublishedAgentIDs = strings.Fields(r.agents)
	}
	if r.public != "" {
		_ = json.Unmarshal([]byte(r.public), &r.t.PublicSettings) // it was checked when it was stored
	}
	return r.t
}

func scanTenant(row sqldb.Row) (identity.Tenant, error) {
	var r TenantRow
	err := row.Scan(r.Dest()...)
	return r.Tenant(), notFound(err)
}

// GetMember implements identity.Store.
func (s *Store) GetMember(ctx context.Context, tenantID, userID string) (identity.Member, error) {
	return scanMember(s.db.QueryRow(ctx, selectMember+`WHERE u.tenant_id = ? AND u.user_id = ?`+Present, tenantID, userID))
}

// GetMemberByEmailTx implements identity.Store.
func (s *Store) GetMemberByEmailTx(tx txn.Tx, tenantID, email string) (identity.Member, error) {
	return scanMember(sqldb.From(tx).QueryRow(selectMember+`WHERE u.tenant_id = ? AND u.email = ? AND u.email <> ''`, tenantID, email))
}

// ListMembersByEmail implements identity.Store.
func (s *Store) ListMembersByEmail(ctx context.Context, email string) ([]identity.Member, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectMember+`WHERE u.email = ? AND u.email <> '' AND u.email_verified
		AND EXISTS (SELECT 1 FROM tenants t WHERE t.tenant_id = u.tenant_id AND t.status <> 'deleted')
		ORDER BY u.user_id`, []any{email}, scanMember)
}

// MemberRow scans MemberColumns.
type MemberRow struct {
	m                       identity.Member
	login, created, updated int64
}

// Dest returns the arguments of Scan.
func (r *MemberRow) Dest() []any {
	return []any{
		&r.m.TenantID, &r.m.UserID, &r.m.Email, &r.m.Verified, &r.m.Name, &r.m.AvatarURL, &r.m.Role, &r.m.Status,
		&r.login, &r.created, &r.updated,
	}
}

// Member returns the member that was scanned.
func (r *MemberRow) Member() identity.Member {
	r.m.LastLogin, r.m.CreatedAt, r.m.UpdatedAt = sqldb.Time(r.login), sqldb.Time(r.created), sqldb.Time(r.updated)
	return r.m
}

func scanMember(row sqldb.Row) (identity.Member, error) {
	var r MemberRow
	err := row.Scan(r.Dest()...)
	return r.Member(), notFound(err)
}

// ListKeys implements identity.Store.
func (s *Store) ListKeys(ctx context.Context, tenantID, userID string) ([]identity.Key, error) {
	rows, err := s.db.Query(ctx, selectKey+`WHERE k.tenant_id = ? AND k.user_id = ? ORDER BY k.key_id DESC`, tenantID, userID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var keys []identity.Key
	for rows.Next() {
		var k identity.Key
		if err := scanAPIKey(rows, &k); err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, rows.Err()
}

var oneKey = selectKey + `WHERE k.tenant_id = ? AND k.key_id = ?`

// GetKey implements identity.Store.
func (s *Store) GetKey(ctx context.Context, tenantID, keyID string) (k identity.Key, err error) {
	err = scanAPIKey(s.db.QueryRow(ctx, oneKey, tenantID, keyID), &k)
	return k, err
}

// GetKeyTx implements identity.Store.
func (s *Store) GetKeyTx(tx txn.Tx, tenantID, keyID string) (k identity.Key, err error) {
	err = scanAPIKey(sqldb.From(tx).QueryRow(oneKey, tenantID, keyID), &k)
	return k, err
}

// CreateTenantTx implements identity.Store.
func (s *Store) CreateTenantTx(tx txn.Tx, t identity.Tenant) error {
	_, err := sqldb.From(tx).Exec(insertTenant,
		t.TenantID, t.Name, t.Slug, string(t.Status), t.Plan, string(t.Settings), t.Operator,
		sqldb.Micros(t.CreatedAt), sqldb.Micros(t.UpdatedAt), identity.StoredRedaction(t.Settings))
	return taken(err)
}

// CreateMemberTx implements identity.Store.
func (s *Store) CreateMemberTx(tx txn.Tx, m identity.Member) error {
	_, err := sqldb.From(tx).Exec(insertMember,
		m.TenantID, m.UserID, m.Email, m.Verified, m.Name, m.AvatarURL, string(m.Role), string(m.Status),
		sqldb.Micros(m.LastLogin), sqldb.Micros(m.CreatedAt), sqldb.Micros(m.UpdatedAt))
	return taken(err)
}

// UpdateLastLoginTx implements identity.Store.
func (s *Store) UpdateLastLoginTx(tx txn.Tx, tenantID, userID string, at time.Time) error {
	_, err := sqldb.From(tx).Exec(`UPDATE users SET last_login_at = ? WHERE tenant_id = ? AND user_id = ?`, sqldb.Micros(at), tenantID, userID)
	return err
}

// CreateKeyTx implements identity.Store.
func (s *Store) CreateKeyTx(tx txn.Tx, k identity.Key, hash identity.Hash) error {
	var scopes strings.Builder
	for i, name := range k.Scopes {
		if i > 0 {
			scopes.WriteByte(' ')
		}
		scopes.WriteString(string(name))
	}
	_, err := sqldb.From(tx).Exec(insertKey,
		k.TenantID, k.KeyID, k.UserID, k.Name, k.Prefix, scopes.String(), string(k.Status),
		sqldb.Micros(k.CreatedAt), sqldb.Micros(k.LastUsedAt), sqldb.Micros(k.ExpiresAt), sqldb.Micros(k.RevokedAt), hash[:])
	return taken(err)
}

// RevokeKeyTx implements identity.Store.
func (s *Store) RevokeKeyTx(tx txn.Tx, tenantID, userID, keyID string, at time.Time) (prefix string, err error) {
	const ofMember = ` WHERE tenant_id = ? AND user_id = ? AND key_id = ?`
	_, err = sqldb.From(tx).Exec(`UPDATE api_keys SET status = ?, revoked_at = ?`+ofMember+` AND status <> ?`,
		string(identity.Revoked), sqldb.Micros(at), tenantID, userID, keyID, string(identity.Revoked))
	if err != nil {
		return "", err
	}
	err = sqldb.From(tx).QueryRow(`SELECT prefix FROM api_keys`+ofMember, tenantID, userID, keyID).Scan(&prefix)
	return prefix, notFound(err)
}

// RecordUseTx implements identity.Store.
func (s *Store) RecordUseTx(tx txn.Tx, uses []identity.Use) error {
	// In one order, so that nodes that write the same rows cannot deadlock.
	uses = slices.SortedFunc(slices.Values(uses), func(a, b identity.Use) int {
		return cmp.Or(strings.Compare(a.KeyID, b.KeyID), strings.Compare(a.SessionID, b.SessionID))
	})
	for _, u := range uses {
		record := recordKeyUse
		if u.SessionID != "" {
			record = recordSessionUse
		}
		if err := record(sqldb.From(tx), u); err != nil {
			return err
		}
	}
	return nil
}

func recordKeyUse(tx *sqldb.Tx, u identity.Use) error {
	at := sqldb.Micros(u.At)
	_, err := tx.Exec(`UPDATE api_keys SET last_used_at = ? WHERE tenant_id = ? AND key_id = ? AND last_used_at < ?`,
		at, u.TenantID, u.KeyID, at)
	return err
}

func notFound(err error) error { return sqldb.NoRowsAs(err, identity.ErrNotFound) }

func taken(err error) error { return sqldb.UniqueAs(err, identity.ErrTaken) }
