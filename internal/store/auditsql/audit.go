// Package auditsql keeps the audit log on SQL.
package auditsql

import (
	"context"
	"database/sql"
	"errors"

	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/store/sqldb"
)

// Store keeps the audit log. It implements audit.Store.
type Store struct{ db *sqldb.DB }

var _ audit.Store = (*Store)(nil)

// New uses the table of migration 15.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	auditColumns = `tenant_id, at, entry_id, action, actor_tenant_id, actor_user_id, actor_key_id, actor_session_id,
		method, target_type, target_id, details, ip_address, request_id`
	selectEntries = `SELECT ` + auditColumns + ` FROM audit_log`
	isKey         = `SELECT 1 FROM audit_log WHERE tenant_id = ? AND actor_key_id = ? AND actor_key_id <> '' LIMIT 1`
)

var insertEntry = sqldb.Insert(`audit_log`, auditColumns)

// AppendTx implements audit.Store.
func (s *Store) AppendTx(tx txn.Tx, r audit.Record) error {
	details := string(r.Details)
	if details == "" {
		details = "{}"
	}
	_, err := sqldb.From(tx).Exec(insertEntry, r.TenantID, sqldb.Micros(r.At), r.EntryID, r.Action, r.ActorIn,
		r.UserID, r.KeyID, r.SessionID, r.Method, r.Target, r.TargetID, details, r.Address, r.RequestID)
	if err == nil {
		_, err = sqldb.From(tx).Exec(insertUnsent, sqldb.Micros(r.At), r.EntryID, r.TenantID)
	}
	return err
}

// List implements audit.Store. It walks the index of one filter, in the order of
// the list.
func (s *Store) List(ctx context.Context, tenant string, f audit.Filter) ([]audit.Record, error) {
	where, args, err := s.where(ctx, tenant, f)
	if err != nil {
		return nil, err
	}
	compare, order := "<", ` ORDER BY at DESC, entry_id DESC LIMIT ?`
	if f.OldestFirst {
		compare, order = ">", ` ORDER BY at, entry_id LIMIT ?`
	}
	if !f.After.At.IsZero() {
		where += ` AND (at, entry_id) ` + compare + ` (?, ?)`
		args = append(args, sqldb.Micros(f.After.At), f.After.EntryID)
	}
	text := selectEntries + where + order
	return sqldb.Collect(s.db.Reader(ctx), text, append(args, f.Limit), scanEntry)
}

func scanEntry(row sqldb.Row) (r audit.Record, err error) {
	var at int64
	var details string
	err = row.Scan(&r.TenantID, &at, &r.EntryID, &r.Action, &r.ActorIn, &r.UserID, &r.KeyID, &r.SessionID,
		&r.Method, &r.Target, &r.TargetID, &details, &r.Address, &r.RequestID)
	r.At, r.Details = sqldb.Time(at), schema.Object(details)
	return r, err
}

// Count implements audit.Store.
func (s *Store) Count(ctx context.Context, tenant string, f audit.Filter, limit int) (n int, err error) {
	where, args, err := s.where(ctx, tenant, f)
	if err != nil {
		return 0, err
	}
	text := `SELECT COUNT(*) FROM (SELECT 1 AS one FROM audit_log` + where + ` LIMIT ?) AS found`
	err = s.db.QueryRow(ctx, text, append(args, limit)...).Scan(&n)
	return n, err
}

// narrowed is an audit.Filter of which is known what its actor is.
type narrowed struct {
	audit.TargetFilter

	Key  string `filter:"actor_key_id <> '' AND actor_key_id = ?" index:"audit_log_key"`
	User string `filter:"actor_user_id <> '' AND actor_user_id = ?" index:"audit_log_user"`

	audit.EntryFilter
}

var filters = sqldb.FiltersOf[narrowed]()

func (s *Store) where(ctx context.Context, tenant string, f audit.Filter) (string, []any, error) {
	n := narrowed{TargetFilter: f.TargetFilter, EntryFilter: f.EntryFilter}
	if f.ActorID != "" {
		// An actor is a key or a member. Which one is looked up first, so that one
		// index serves; an OR of both would sort.
		var one int
		switch err := s.db.QueryRow(ctx, isKey, tenant, f.ActorID).Scan(&one); {
		case err == nil:
			n.Key = f.ActorID
		case errors.Is(err, sql.ErrNoRows):
			n.User = f.ActorID
		default:
			return "", nil, err
		}
	}
	where, args := filters.Where(tenant, &n)
	return where, args, nil
}

// GetOwnerTx implements audit.Store.
func (s *Store) GetOwnerTx(tx txn.Tx, tenant string) (owner string, err error) {
	if tenant == "" {
		err = sqldb.From(tx).QueryRow(`SELECT tenant_id FROM tenants WHERE operator`).Scan(&owner)
	} else {
		err = sqldb.From(tx).QueryRow(`SELECT tenant_id FROM tenants WHERE tenant_id = ? AND status <> 'deleted'`, tenant).Scan(&owner)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return owner, err
}

// HasTenant implements audit.Store.
func (s *Store) HasTenant(ctx context.Context, tenant string) (exists bool, err error) {
	err = s.db.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM tenants WHERE tenant_id = ? AND status <> 'deleted')`, tenant).Scan(&exists)
	return exists, err
}
