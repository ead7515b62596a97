// Package audiencesql reads sign-ups and sign-ins from the audit logs of all companies.
package audiencesql

import (
	"context"
	"time"

	"agentd/internal/operation/audience"
	"agentd/internal/store/sqldb"
)

// Store implements audience.Store.
type Store struct{ db *sqldb.DB }

var _ audience.Store = (*Store)(nil)

// New uses the index of migration 800.
func New(db *sqldb.DB) *Store { return &Store{db} }

// A query names the actions of the index, so that it is used. A company that the operator
// made is no sign-up: its entry was written by another company.
const (
	arrivals = ` FROM audit_log WHERE action = ? AND action IN ('auth.signed_in', 'tenant.created')
		AND (action = 'auth.signed_in' OR (target_id = tenant_id AND actor_tenant_id = tenant_id)) AND at >= ?`
	newest  = ` ORDER BY at DESC, entry_id DESC LIMIT ?`
	ofADay  = int64(24 * time.Hour / time.Microsecond)
	counted = `SELECT day, COUNT(*) FROM (SELECT at / ? AS day` + arrivals + ` AND at < ?` + newest + `) AS newest GROUP BY day`
)

var actions = map[audience.Type]string{audience.Signup: "tenant.created", audience.Login: "auth.signed_in"}

// CountArrivals implements audience.Store.
func (s *Store) CountArrivals(ctx context.Context, t audience.Type, from, to time.Time, limit int) ([]audience.Count, error) {
	args := []any{ofADay, actions[t], sqldb.Micros(from), sqldb.Micros(to), limit}
	return sqldb.Collect(s.db.Reader(ctx), counted, args, func(row sqldb.Row) (c audience.Count, err error) {
		var day int64
		err = row.Scan(&day, &c.Number)
		c.Day, c.Name = sqldb.Time(day*ofADay).UTC().Format("2006-01-02"), string(t)
		return c, err
	})
}

// ListArrivals implements audience.Store.
func (s *Store) ListArrivals(ctx context.Context, t audience.Type, since time.Time, limit int) ([]audience.Arrival, error) {
	text := `SELECT entry_id, at, tenant_id, actor_user_id` + arrivals + newest
	args := []any{actions[t], sqldb.Micros(since), limit}
	return sqldb.Collect(s.db.Reader(ctx), text, args, func(row sqldb.Row) (audience.Arrival, error) {
		a := audience.Arrival{Type: t}
		var at int64
		err := row.Scan(&a.EventID, &at, &a.TenantID, &a.UserID)
		a.At = sqldb.Time(at)
		return a, err
	})
}
