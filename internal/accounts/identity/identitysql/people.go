package identitysql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

// People keeps members and invites. It implements identity.PeopleStore.
type People struct{ db *sqldb.DB }

var _ identity.PeopleStore = (*People)(nil)

// NewPeople uses the tables of migrations 3 and 17.
func NewPeople(db *sqldb.DB) *People { return &People{db} }

const (
	inviteColumns = `tenant_id, invite_id, email, role, status, secret_hash, mailed, invited_by, created_at, sent_at, expires_at`
	liveInvites   = ` FROM invites i WHERE i.tenant_id = ? AND i.status = 'pending' AND i.expires_at > ?`
	others        = `FROM users o WHERE o.tenant_id = u.tenant_id AND o.status <> 'deleted'`
)

var (
	insertInvite    = sqldb.Insert(`invites`, inviteColumns)
	qualifiedInvite = sqldb.Qualify(`i`, inviteColumns)
	selectInvite    = `SELECT ` + qualifiedInvite + ` FROM invites i `
	selectInvitesTo = `SELECT ` + qualifiedInvite + `, t.name, COALESCE(u.name, '')
		FROM invites i JOIN tenants t ON t.tenant_id = i.tenant_id AND t.status <> 'deleted'
		LEFT JOIN users u ON u.tenant_id = i.tenant_id AND u.user_id = i.invited_by
		WHERE i.email = ? AND i.status = 'pending' AND i.expires_at > ? AND t.status = 'active' ORDER BY i.invite_id`
	selectMemberships = `SELECT ` + MemberColumns + `, ` + TenantColumns + `,
			(SELECT COUNT(*) ` + others + `), (SELECT COUNT(*) ` + others + ` AND o.role = 'owner')
		FROM (SELECT tenant_id, user_id FROM users WHERE tenant_id = ? AND user_id = ?
			UNION SELECT tenant_id, user_id FROM users WHERE email = ? AND email <> '' AND email_verified) AS mine
		JOIN users u ON u.tenant_id = mine.tenant_id AND u.user_id = mine.user_id
		JOIN tenants t ON t.tenant_id = u.tenant_id AND t.status <> 'deleted' WHERE TRUE` + Present + ` ORDER BY u.user_id`
)

// LockTenantTx implements identity.PeopleStore.
func (s *People) LockTenantTx(tx txn.Tx, tenantID string) (identity.Tenant, error) {
	t := sqldb.From(tx)
	return scanTenant(t.QueryRow(selectTenant+t.ForUpdate(), tenantID))
}

// UpdateTenantTx implements identity.PeopleStore.
func (s *People) UpdateTenantTx(tx txn.Tx, t identity.Tenant) error {
	var enc sqldb.Encoder
	public := ""
	if !t.PublicSettings.IsZero() {
		public = enc.JSON(t.PublicSettings)
	}
	err := enc.Op("tenant", `UPDATE tenants SET name = ?, slug = ?, description = ?, logo_url = ?, settings = ?,
		branding = ?, social_links = ?, published_at = ?, public_agent_id = ?, published_agents = ?, public_settings = ?,
		updated_at = ?, redact = ? WHERE tenant_id = ?`,
		t.Name, t.Slug, t.Description, t.LogoURL, string(t.Settings), string(t.Branding), string(t.SocialLinks),
		sqldb.Micros(t.PublishedAt), t.PublicAgentID, strings.Join(t.PublishedAgentIDs, " "), public,
		sqldb.Micros(t.UpdatedAt), identity.StoredRedaction(t.Settings), t.TenantID)(tx)
	return taken(err)
}

// GetMemberTx implements identity.PeopleStore.
func (s *People) GetMemberTx(tx txn.Tx, tenantID, userID string) (identity.Member, error) {
	return scanMember(sqldb.From(tx).QueryRow(selectMember+`WHERE u.tenant_id = ? AND u.user_id = ?`+Present, tenantID, userID))
}

// UpdateMemberTx implements identity.PeopleStore.
func (s *People) UpdateMemberTx(tx txn.Tx, m identity.Member) error {
	_, err := sqldb.From(tx).Exec(`UPDATE users SET email = ?, email_verified = ?, name = ?, avatar_url = ?, role = ?, status = ?,
		last_login_at = ?, updated_at = ? WHERE tenant_id = ? AND user_id = ?`,
		m.Email, m.Verified, m.Name, m.AvatarURL, string(m.Role), string(m.Status),
		sqldb.Micros(m.LastLogin), sqldb.Micros(m.UpdatedAt), m.TenantID, m.UserID)
	return taken(err)
}

// ListMembers implements identity.PeopleStore.
func (s *People) ListMembers(ctx context.Context, tenantID, after string, limit int) ([]identity.Member, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectMember+`WHERE u.tenant_id = ? AND u.user_id > ?`+Present+` ORDER BY u.user_id LIMIT ?`,
		[]any{tenantID, after, limit}, scanMember)
}

// CountMembers implements identity.PeopleStore.
func (s *People) CountMembers(ctx context.Context, tenantID string) (n int, err error) {
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM users u WHERE u.tenant_id = ?`+Present, tenantID).Scan(&n)
	return n, err
}

// CountOwnersTx implements identity.PeopleStore.
func (s *People) CountOwnersTx(tx txn.Tx, tenantID string) (n int, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT COUNT(*) FROM users u WHERE u.tenant_id = ? AND u.role = 'owner'`+Present, tenantID).Scan(&n)
	return n, err
}

// CountOwnedTx implements identity.PeopleStore.
func (s *People) CountOwnedTx(tx txn.Tx, email string) (n int, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT COUNT(*) FROM users u WHERE u.email = ? AND u.email <> '' AND u.email_verified
		AND u.role = 'owner'`, email).Scan(&n)
	return n, err
}

// ListKeyIDsTx implements identity.PeopleStore.
func (s *People) ListKeyIDsTx(tx txn.Tx, tenantID, userID string) ([]string, error) {
	return sqldb.Collect(sqldb.From(tx).Query, `SELECT key_id FROM api_keys
		WHERE tenant_id = ? AND user_id = ? AND status = 'active' ORDER BY key_id`,
		[]any{tenantID, userID}, func(row sqldb.Row) (id string, err error) { return id, row.Scan(&id) })
}

// LockUnverifiedTx implements identity.PeopleStore.
func (s *People) LockUnverifiedTx(tx txn.Tx, email string) ([]identity.Member, error) {
	t := sqldb.From(tx)
	return sqldb.Collect(t.Query, selectMember+`WHERE u.email = ? AND u.email <> '' AND NOT u.email_verified ORDER BY u.user_id`+t.ForUpdate(),
		[]any{email}, scanMember)
}

// ListMemberships implements identity.PeopleStore.
func (s *People) ListMemberships(ctx context.Context, tenantID, userID, email string) ([]identity.MembershipOf, error) {
	args := []any{tenantID, userID, email}
	return sqldb.Collect(s.db.Reader(ctx), selectMemberships, args, func(row sqldb.Row) (m identity.MembershipOf, err error) {
		var member MemberRow
		var tenant TenantRow
		err = row.Scan(append(append(member.Dest(), tenant.Dest()...), &m.Members, &m.Owners)...)
		m.Member, m.Tenant = member.Member(), tenant.Tenant()
		return m, err
	})
}

// CreateInviteTx implements identity.PeopleStore.
func (s *People) CreateInviteTx(tx txn.Tx, i identity.Invite) error {
	_, err := sqldb.From(tx).Exec(insertInvite,
		i.TenantID, i.InviteID, i.Email, string(i.Role), string(i.Status), i.Secret[:], i.Mailed, i.InvitedBy,
		sqldb.Micros(i.CreatedAt), sqldb.Micros(i.SentAt), sqldb.Micros(i.ExpiresAt))
	return taken(err)
}

// UpdateInviteTx implements identity.PeopleStore.
func (s *People) UpdateInviteTx(tx txn.Tx, i identity.Invite) error {
	_, err := sqldb.From(tx).Exec(`UPDATE invites SET status = ?, secret_hash = ?, mailed = ?, sent_at = ?, expires_at = ?
		WHERE tenant_id = ? AND invite_id = ?`,
		string(i.Status), i.Secret[:], i.Mailed, sqldb.Micros(i.SentAt), sqldb.Micros(i.ExpiresAt), i.TenantID, i.InviteID)
	return err
}

// LockInviteTx implements identity.PeopleStore.
func (s *People) LockInviteTx(tx txn.Tx, tenantID, inviteID string) (identity.Invite, error) {
	t := sqldb.From(tx)
	return scanInvite(t.QueryRow(selectInvite+`WHERE i.tenant_id = ? AND i.invite_id = ?`+t.ForUpdate(), tenantID, inviteID))
}

// GetInviteTenantTx implements identity.PeopleStore.
func (s *People) GetInviteTenantTx(tx txn.Tx, inviteID string) (tenantID string, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT tenant_id FROM invites WHERE invite_id = ?`, inviteID).Scan(&tenantID)
	return tenantID, notFound(err)
}

// GetPendingInviteTx implements identity.PeopleStore.
func (s *People) GetPendingInviteTx(tx txn.Tx, tenantID, email string) (identity.Invite, error) {
	return scanInvite(sqldb.From(tx).QueryRow(selectInvite+`WHERE i.tenant_id = ? AND i.email = ? AND i.status = 'pending'`,
		tenantID, email))
}

// CountInvitesTx implements identity.PeopleStore.
func (s *People) CountInvitesTx(tx txn.Tx, tenantID string, now time.Time) (n int, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT COUNT(*)`+liveInvites, tenantID, sqldb.Micros(now)).Scan(&n)
	return n, err
}

// ListInvites implements identity.PeopleStore.
func (s *People) ListInvites(
	ctx context.Context, tenantID string, now time.Time, after string, limit int,
) ([]identity.Invite, int, error) {
	at := sqldb.Micros(now)
	var total int
	if err := s.db.QueryRow(ctx, `SELECT COUNT(*)`+liveInvites, tenantID, at).Scan(&total); err != nil {
		return nil, 0, err
	}
	text := `SELECT ` + qualifiedInvite + liveInvites + ` AND (i.invite_id < ? OR ? = '') ORDER BY i.invite_id DESC LIMIT ?`
	args := []any{tenantID, at, after, after, limit}
	all, err := sqldb.Collect(s.db.Reader(ctx), text, args, func(row sqldb.Row) (identity.Invite, error) { return scanInvite(row) })
	return all, total, err
}

// ListInvitesByEmail implements identity.PeopleStore.
func (s *People) ListInvitesByEmail(ctx context.Context, email string, now time.Time) ([]identity.InviteTo, error) {
	args := []any{email, sqldb.Micros(now)}
	return sqldb.Collect(s.db.Reader(ctx), selectInvitesTo, args, func(row sqldb.Row) (to identity.InviteTo, err error) {
		to.Invite, err = scanInvite(row, &to.Tenant, &to.Inviter)
		return to, err
	})
}

// scanInvite reads inviteColumns, and the columns that the query has after them.
func scanInvite(row sqldb.Row, more ...any) (identity.Invite, error) {
	var i identity.Invite
	var hash []byte
	var created, sent, expires int64
	err := row.Scan(append([]any{
		&i.TenantID, &i.InviteID, &i.Email, &i.Role, &i.Status, &hash, &i.Mailed, &i.InvitedBy, &created, &sent, &expires,
	}, more...)...)
	if err != nil {
		return i, notFound(err)
	}
	if len(hash) != len(i.Secret) {
		return i, fmt.Errorf("identitysql: the hash of invite %s has %d bytes", i.InviteID, len(hash))
	}
	i.Secret = identity.Hash(hash)
	i.CreatedAt, i.SentAt, i.ExpiresAt = sqldb.Time(created), sqldb.Time(sent), sqldb.Time(expires)
	return i, nil
}
