// Package notificationsql keeps notifications, preferences and targets on SQL.
package notificationsql

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/notification"
	"agentd/internal/store/sqldb"
)

// Store keeps notifications. It implements notification.Store and
// notification.DeliveryStore.
type Store struct{ db *sqldb.DB }

var _ notification.Store = (*Store)(nil)

// New uses the tables of migration 9.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	// nextNumber locks the tenant's row until commit, so that numbers commit in
	// order: a reader that has seen one has seen all below it.
	nextNumber = `INSERT INTO notification_numbers (tenant_id, last_seq) VALUES (?, 1)
		ON CONFLICT (tenant_id) DO UPDATE SET last_seq = notification_numbers.last_seq + 1 RETURNING last_seq`

	notificationColumns = `seq, notification_id, user_id, type, priority, title, message, data, action_url, source_kind, source_id,
		dedup_key, created_at, read_at`
	selectNotifications = `SELECT ` + notificationColumns + ` FROM notifications`
	deleteOldest        = `DELETE FROM notifications WHERE tenant_id = ? AND seq <= ?`

	// visible selects what a user sees; its second argument is their id.
	visible = ` WHERE tenant_id = ? AND user_id IN ('', ?)`
	unread  = ` AND read_at = 0`
	seen    = ` AND read_at <> 0`
)

var insertNotification = sqldb.Insert(`notifications`, `tenant_id, `+notificationColumns) + ` ON CONFLICT DO NOTHING`

// CreateTx implements notification.Store.
func (s *Store) CreateTx(tx txn.Tx, n *notification.Notification) (int64, error) {
	t := sqldb.From(tx)
	var seq int64
	if err := t.QueryRow(nextNumber, n.TenantID).Scan(&seq); err != nil {
		return 0, err
	}
	user, source := "", notification.Source{}
	if n.UserID != nil {
		user = *n.UserID
	}
	if n.Source != nil {
		source = *n.Source
	}
	added, err := t.Exec(insertNotification, n.TenantID, seq, n.ID, user, n.Type, string(n.Priority), n.Title, n.Message,
		sqldb.NullJSON(n.Data), n.ActionURL, source.Kind, source.ID, n.DedupKey, sqldb.Micros(n.CreatedAt), 0)
	if added == 0 {
		seq = 0
	}
	return seq, err
}

// DeleteOldestTx implements notification.Store.
func (s *Store) DeleteOldestTx(tx txn.Tx, tenant string, upTo int64) error {
	_, err := sqldb.From(tx).Exec(deleteOldest, tenant, upTo)
	return err
}

var filters = sqldb.FiltersOf[notification.Filter]()

// List implements notification.Store.
func (s *Store) List(ctx context.Context, tenant, user string, f notification.Filter, limit int) ([]notification.Notification, error) {
	where, args := filters.Where(tenant, &f)
	in, args := toBoth(where, ` ORDER BY seq DESC LIMIT ?`, user, append(args, limit))
	text := selectNotifications + ` WHERE tenant_id = ? AND seq IN (` + in + `) ORDER BY seq DESC LIMIT ?`
	return s.read(ctx, tenant, text, append(append([]any{tenant}, args...), limit)...)
}

// ListAfter implements notification.Store.
func (s *Store) ListAfter(ctx context.Context, tenant, user string, after int64, limit int) ([]notification.Notification, error) {
	in, args := toBoth(` WHERE tenant_id = ? AND seq > ?`, ` ORDER BY seq LIMIT ?`, user, []any{tenant, after, limit})
	text := selectNotifications + ` WHERE tenant_id = ? AND seq IN (` + in + `) ORDER BY seq LIMIT ?`
	return s.read(ctx, tenant, text, append(append([]any{tenant}, args...), limit)...)
}

// toBoth selects the numbers of the first notifications to a user, and of the
// first to everybody: an index has each of them in order. The last argument is
// that of order.
func toBoth(where, order, user string, args []any) (string, []any) {
	own := slices.Insert(slices.Clone(args), len(args)-1, any(user))
	texts := []string{where + ` AND user_id = ''` + order, where + ` AND user_id = ? AND user_id <> ''` + order}
	return sqldb.UnionOf(`notifications`, `seq`, texts), append(slices.Clone(args), own...)
}

func (s *Store) read(ctx context.Context, tenant, query string, args ...any) ([]notification.Notification, error) {
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []notification.Notification{}
	for rows.Next() {
		n := notification.Notification{TenantID: tenant}
		var user string
		var data sql.NullString
		var source notification.Source
		var created, read int64
		err := rows.Scan(&n.Seq, &n.ID, &user, &n.Type, &n.Priority, &n.Title, &n.Message, &data, &n.ActionURL,
			&source.Kind, &source.ID, &n.DedupKey, &created, &read)
		if err != nil {
			return nil, err
		}
		n.CreatedAt, n.Read = sqldb.Time(created), read != 0
		if data.Valid {
			n.Data = schema.Nullable(data.String)
		}
		if user != "" {
			n.UserID = &user
		}
		if source.Kind != "" {
			n.Source = &source
		}
		all = append(all, n)
	}
	return all, rows.Err()
}

// GetLastSeq implements notification.Store.
func (s *Store) GetLastSeq(ctx context.Context, tenant string) (seq int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT last_seq FROM notification_numbers WHERE tenant_id = ?`, tenant).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return seq, err
}

// CountUnread implements notification.Store.
func (s *Store) CountUnread(ctx context.Context, tenant, user string, limit int) (n int, err error) {
	in, args := toBoth(` WHERE tenant_id = ?`+unread, ` LIMIT ?`, user, []any{tenant, limit})
	err = s.db.QueryRow(ctx, `SELECT COUNT(*) FROM (`+in+`) AS found`, args...).Scan(&n)
	return min(n, limit), err
}

// MarkReadTx implements notification.Store.
func (s *Store) MarkReadTx(tx txn.Tx, tenant, user, id string, at time.Time) (int, error) {
	args := []any{sqldb.Micros(at), tenant, user}
	n, err := sqldb.From(tx).Exec(`UPDATE notifications SET read_at = ?`+visible+unread+onlyID(&args, id), args...)
	return int(n), err
}

// DeleteTx implements notification.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant, user, id string, read bool) (int, error) {
	args := []any{tenant, user}
	query := `DELETE FROM notifications` + visible + onlyID(&args, id)
	if read {
		query += seen
	}
	n, err := sqldb.From(tx).Exec(query, args...)
	return int(n), err
}

// DeleteByUserTx deletes the notifications of a user who is no longer a member.
func (s *Store) DeleteByUserTx(tx txn.Tx, tenant, user string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM notifications WHERE tenant_id = ? AND user_id = ? AND user_id <> ''`, tenant, user)
	return err
}

// onlyID narrows a statement to one notification, unless the id is empty.
func onlyID(args *[]any, id string) string {
	if id == "" {
		return ""
	}
	*args = append(*args, id)
	return ` AND notification_id = ?`
}
