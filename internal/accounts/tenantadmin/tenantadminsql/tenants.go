// Package tenantadminsql keeps on SQL what the operator does with tenants.
package tenantadminsql

import (
	"context"
	"database/sql"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/tenantadmin"
	"agentd/internal/base/authz"
	"agentd/internal/base/page"
	"agentd/internal/base/pii"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

// Store keeps what the operator changes of tenants, and purges. It implements
// tenantadmin.Store.
type Store struct{ db *sqldb.DB }

var _ tenantadmin.Store = (*Store)(nil)

// New uses the tables of migrations 3 and 20.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	selectTenants = `SELECT t.tenant_id, t.name, t.slug, t.status, t.plan, t.settings, t.operator, t.created_at, t.updated_at,
		t.suspended_at, t.suspension_reason, t.purge_protected, t.egress_allowlist,
		(SELECT MIN(u.user_id || ' ' || u.email) FROM users u
			WHERE u.tenant_id = t.tenant_id AND u.role = 'owner' AND u.email <> '')
		FROM tenants t WHERE t.status <> 'deleted'`
	selectStatus = `SELECT status FROM tenants WHERE tenant_id = ?`

	purgeColumns = `subject_id, name, asked_by, asked_at, counts, told`
	selectPurge  = `SELECT ` + purgeColumns + ` FROM tenant_purges WHERE subject_id = ?`
)

var insertPurge = sqldb.Insert(`tenant_purges`, purgeColumns)

var filters = sqldb.FiltersOf[tenantadmin.Filter]()

// List implements tenantadmin.Store.
func (s *Store) List(ctx context.Context, f tenantadmin.Filter, w page.Window) ([]tenantadmin.Tenant, error) {
	and, args := filters.And(&f)
	query := selectTenants + and
	if w.After != "" {
		query, args = query+` AND t.tenant_id < ?`, append(args, w.After)
	}
	query += ` ORDER BY t.tenant_id DESC`
	if w.Limit > 0 {
		query, args = query+` LIMIT ?`, append(args, w.Limit)
	}
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []tenantadmin.Tenant{}
	for rows.Next() {
		t, err := scanTenant(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, rows.Err()
}

// Count implements tenantadmin.Store.
func (s *Store) Count(ctx context.Context, f tenantadmin.Filter) (n int, err error) {
	and, args := filters.And(&f)
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM tenants t WHERE t.status <> 'deleted'`+and, args...).Scan(&n)
	return n, err
}

// Get implements tenantadmin.Store.
func (s *Store) Get(ctx context.Context, id string) (tenantadmin.Tenant, error) {
	return scanTenant(s.db.QueryRow(ctx, selectTenants+` AND t.tenant_id = ?`, id))
}

// LockTx implements tenantadmin.Store.
func (s *Store) LockTx(tx txn.Tx, id string) (tenantadmin.Tenant, error) {
	t := sqldb.From(tx)
	if t.Postgres() {
		return scanTenant(t.QueryRow(selectTenants+` AND t.tenant_id = ? FOR UPDATE OF t`, id))
	}
	return scanTenant(t.QueryRow(selectTenants+` AND t.tenant_id = ?`, id))
}

func scanTenant(row sqldb.Row) (tenantadmin.Tenant, error) {
	var t tenantadmin.Tenant
	var settings, egress string
	var created, updated, suspended int64
	var owner sql.NullString // id and email of the oldest
	err := row.Scan(&t.TenantID, &t.Name, &t.Slug, &t.Status, &t.Plan, &settings, &t.Operator, &created, &updated,
		&suspended, &t.SuspensionReason, &t.PurgeProtection, &egress, &owner)
	if err != nil {
		return t, notFound(err)
	}
	if t.EgressAllowlist, err = parseEgress(egress); err != nil {
		return t, err
	}
	t.Settings = schema.Object(settings)
	t.CreatedAt, t.UpdatedAt = sqldb.Time(created), sqldb.Time(updated)
	if suspended != 0 {
		at := sqldb.Time(suspended)
		t.SuspendedAt = &at
	}
	if _, email, ok := strings.Cut(owner.String, " "); ok {
		t.PrimaryEmail = email
	}
	return t, nil
}

// UpdateTx implements tenantadmin.Store.
func (s *Store) UpdateTx(tx txn.Tx, t tenantadmin.Tenant) error {
	var suspended int64
	if t.SuspendedAt != nil {
		suspended = sqldb.Micros(*t.SuspendedAt)
	}
	egress := ""
	if len(t.EgressAllowlist) > 0 {
		text, err := json.Marshal(t.EgressAllowlist)
		if err != nil {
			return err
		}
		egress = string(text)
	}
	_, err := sqldb.From(tx).Exec(`UPDATE tenants SET name = ?, slug = ?, status = ?, plan = ?, settings = ?, updated_at = ?,
		suspended_at = ?, suspension_reason = ?, purge_protected = ?, egress_allowlist = ?, legal_hold = ?, redact = ?
		WHERE tenant_id = ?`,
		t.Name, t.Slug, string(t.Status), t.Plan, string(t.Settings), sqldb.Micros(t.UpdatedAt),
		suspended, t.SuspensionReason, t.PurgeProtection, egress, t.UnderHold(), identity.StoredRedaction(jsontext.Value(t.Settings)), t.TenantID)
	return taken(err)
}

// GetEgress returns a tenant's egress allowlist; nil if there is none.
func (s *Store) GetEgress(ctx context.Context, tenant string) ([]string, error) {
	var text string
	err := s.db.QueryRow(ctx, `SELECT egress_allowlist FROM tenants WHERE tenant_id = ?`, tenant).Scan(&text)
	if err != nil {
		return nil, notFound(err)
	}
	return parseEgress(text)
}

func parseEgress(text string) (entries []string, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &entries)
	}
	return entries, err
}

// ListInactive implements tenantadmin.Store.
func (s *Store) ListInactive(ctx context.Context) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT tenant_id FROM tenants WHERE status <> 'active'`)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// ListHeld implements tenantadmin.Store.
func (s *Store) ListHeld(ctx context.Context) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT tenant_id FROM tenants WHERE legal_hold`)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// ListRedacted implements tenantadmin.Store.
func (s *Store) ListRedacted(ctx context.Context) (map[string][]pii.Entity, error) {
	rows, err := s.db.Query(ctx, `SELECT tenant_id, redact FROM tenants WHERE redact <> ''`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string][]pii.Entity{}
	for rows.Next() {
		var id, kinds string
		if err := rows.Scan(&id, &kinds); err != nil {
			return nil, err
		}
		for k := range strings.FieldsSeq(kinds) {
			all[id] = append(all[id], pii.Entity(k))
		}
	}
	return all, rows.Err()
}

// MarkDeletedTx implements tenantadmin.Store. The slug is free for other tenants at once.
func (s *Store) MarkDeletedTx(tx txn.Tx, t tenantadmin.Tenant, p tenantadmin.Purge) error {
	by, err := json.Marshal(requester{p.By.TenantID, p.By.UserID, p.By.KeyID, p.By.SessionID, p.By.Method, p.By.Address, p.By.RequestID})
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(`UPDATE tenants SET status = 'deleted', slug = tenant_id WHERE tenant_id = ?`, t.TenantID)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(insertPurge, t.TenantID, p.Name, string(by), sqldb.Micros(p.At), `{}`, false)
	return err
}

// requester is a caller as it is stored.
type requester struct {
	TenantID  string `json:"tenant_id"`
	UserID    string `json:"user_id,omitzero"`
	KeyID     string `json:"key_id,omitzero"`
	SessionID string `json:"session_id,omitzero"`
	Method    string `json:"method,omitzero"`
	Address   string `json:"address,omitzero"`
	RequestID string `json:"request_id,omitzero"`
}

// GetPurge implements tenantadmin.Store.
func (s *Store) GetPurge(ctx context.Context, id string) (tenantadmin.Purge, error) {
	return scanPurge(s.db.QueryRow(ctx, selectPurge, id))
}

func scanPurge(row sqldb.Row) (tenantadmin.Purge, error) {
	var p tenantadmin.Purge
	var by, counts string
	var at int64
	if err := row.Scan(&p.TenantID, &p.Name, &by, &at, &counts, &p.Logged); err != nil {
		return p, notFound(err)
	}
	var who requester
	if err := json.Unmarshal([]byte(by), &who); err != nil {
		return p, err
	}
	p.By = authz.Caller{
		TenantID: who.TenantID, UserID: who.UserID, KeyID: who.KeyID, SessionID: who.SessionID,
		Method: who.Method, Address: who.Address, RequestID: who.RequestID,
	}
	p.At, p.Counts = sqldb.Time(at), []byte(counts)
	return p, nil
}

// DeleteTx implements tenantadmin.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant string) (tenantadmin.Purge, error) {
	t := sqldb.From(tx)
	if _, err := t.Exec(`DELETE FROM tenants WHERE tenant_id = ? AND status = 'deleted'`, tenant); err != nil {
		return tenantadmin.Purge{}, err
	}
	if _, err := t.Exec(`UPDATE tenant_purges SET told = TRUE WHERE subject_id = ?`, tenant); err != nil {
		return tenantadmin.Purge{}, err
	}
	return scanPurge(t.QueryRow(selectPurge, tenant))
}

// DeletePurgeTx implements tenantadmin.Store.
func (s *Store) DeletePurgeTx(tx txn.Tx, tenant string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM tenant_purges WHERE subject_id = ?`, tenant)
	return err
}

func notFound(err error) error { return sqldb.NoRowsAs(err, identity.ErrNotFound) }

func taken(err error) error { return sqldb.UniqueAs(err, identity.ErrTaken) }
