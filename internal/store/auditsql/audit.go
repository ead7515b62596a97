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
	return err
}

// List implements audit.Store. Each filter walks along an index of its own, in
// the order of the list.
func (s *Store) List(ctx context.Context, tenant string, f audit.Filter) ([]audit.Record, error) {
	where, args, err := s.where(ctx, tenant, f)
	if err != nil {
		return nil, err
	}
	if !f.After.At.IsZero() {
		where += ` AND (at, entry_id) < (?, ?)`
		args = append(args, sqldb.Micros(f.After.At), f.After.EntryID)
	}
	return sqldb.Collect(s.db.Reader(ctx), selectEntries+where+` ORDER BY at DESC, entry_id DESC LIMIT ?`, append(args, f.Limit), scanEntry)
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
func (s *Store) Count(ctx context.Context, tenant string, f audit.Filter, max int) (n int, err error) {
	where, args, err := s.where(ctx, tenant, f)
	if err != nil {
		return 0, err
	}
	text := `SELECT COUNT(*) FROM (SELECT 1 AS one FROM audit_log` + where + ` LIMIT ?) AS found`
	err = s.db.QueryRow(ctx, text, append(args, max)...).Scan(&n)
	return n, err
}

func (s *Store) where(ctx context.Context, tenant string, f audit.Filter) (string, []any, error) {
	where, args := ` WHERE tenant_id = ?`, []any{tenant}
	add := func(condition string, arg any) {
		where += ` AND ` + condition
		args = append(args, arg)
	}
	if f.TargetID != "" {
		add(`target_id = ? AND target_id <> ''`, f.TargetID)
	}
	if f.TargetType != "" {
		add(`target_type = ?`, f.TargetType)
	}
	if f.Action != "" {
		add(`action = ?`, f.Action)
	}
	if f.Actor != "" {
		// An actor is a key or a member. Which one is looked up first, so that one
		// index serves; an OR of both would sort.
		var one int
		err := s.db.QueryRow(ctx, isKey, tenant, f.Actor).Scan(&one)
		switch {
		case err == nil:
			add(`actor_key_id = ? AND actor_key_id <> ''`, f.Actor)
		case errors.Is(err, sql.ErrNoRows):
			add(`actor_user_id = ? AND actor_user_id <> ''`, f.Actor)
		default:
			return "", nil, err
		}
	}
	if !f.From.IsZero() {
		add(`at >= ?`, sqldb.Micros(f.From))
	}
	if !f.To.IsZero() {
		add(`at < ?`, sqldb.Micros(f.To))
	}
	return where, args, nil
}

// HasTenant implements audit.Store.
func (s *Store) HasTenant(ctx context.Context, tenant string) (exists bool, err error) {
	err = s.db.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM tenants WHERE tenant_id = ? AND status <> 'deleted')`, tenant).Scan(&exists)
	return exists, err
}
