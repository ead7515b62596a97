package notificationsql

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/notification"
	"agentd/internal/store/sqldb"
)

var _ notification.DeliveryStore = (*Store)(nil)

const (
	targetColumns = `target_id, user_id, label, enabled, kind, sealed, created_at, last_at, last_error,
		confirmed_at, confirm_hash, confirm_until`
	selectTargets = `SELECT ` + targetColumns + ` FROM notification_targets WHERE tenant_id = ?`
	hasTargets    = `SELECT EXISTS (SELECT 1 FROM notification_targets WHERE tenant_id = ?)
		OR EXISTS (SELECT 1 FROM notification_prefs WHERE tenant_id = ?)`
	countTargets = `SELECT COUNT(*) FROM notification_targets WHERE tenant_id = ? AND user_id = ?`

	listPeople = `SELECT u.user_id, CASE WHEN u.email_verified THEN u.email ELSE '' END FROM users u
		JOIN tenants t ON t.tenant_id = u.tenant_id
		WHERE u.tenant_id = ? AND u.role <> 'viewer' AND u.status = 'active' AND t.status = 'active' ORDER BY u.user_id`
	selectPrefs = `SELECT body FROM notification_prefs WHERE tenant_id = ? AND user_id = ?`
	listPrefs   = `SELECT user_id, body FROM notification_prefs WHERE tenant_id = ?`
)

var (
	insertTarget = sqldb.Insert(`notification_targets`, `tenant_id, `+targetColumns)
	putPrefs     = sqldb.Insert(`notification_prefs`, `tenant_id, user_id, body, updated_at`) +
		` ON CONFLICT (tenant_id, user_id) DO UPDATE SET ` + sqldb.Excluded(`body, updated_at`)
)

// Get implements notification.DeliveryStore.
func (s *Store) Get(ctx context.Context, tenant, id string) (*notification.Notification, error) {
	found, err := s.read(ctx, tenant, selectNotifications+` WHERE tenant_id = ? AND notification_id = ?`, tenant, id)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// ListPeople implements notification.DeliveryStore.
func (s *Store) ListPeople(ctx context.Context, tenant string) ([]notification.Person, error) {
	return sqldb.Collect(s.db.Reader(ctx), listPeople, []any{tenant}, func(row sqldb.Row) (p notification.Person, err error) {
		err = row.Scan(&p.UserID, &p.Email)
		return p, err
	})
}

// HasTargetsTx implements notification.DeliveryStore.
func (s *Store) HasTargetsTx(tx txn.Tx, tenant string) (found bool, err error) {
	err = sqldb.From(tx).QueryRow(hasTargets, tenant, tenant).Scan(&found)
	return found, err
}

// GetPrefs implements notification.DeliveryStore.
func (s *Store) GetPrefs(ctx context.Context, tenant, user string) (*notification.Prefs, error) {
	return scanPrefs(s.db.QueryRow(ctx, selectPrefs, tenant, user))
}

// LockPrefsTx implements notification.DeliveryStore.
func (s *Store) LockPrefsTx(tx txn.Tx, tenant, user string) (*notification.Prefs, error) {
	t := sqldb.From(tx)
	if err := t.LockTenant(tenant); err != nil { // there may be no row to lock yet
		return nil, err
	}
	return scanPrefs(t.QueryRow(selectPrefs, tenant, user))
}

func scanPrefs(row sqldb.Row) (*notification.Prefs, error) {
	var body string
	err := row.Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := new(notification.Prefs)
	return p, json.Unmarshal([]byte(body), p)
}

// ListPrefs implements notification.DeliveryStore.
func (s *Store) ListPrefs(ctx context.Context, tenant string) (map[string]notification.Prefs, error) {
	rows, err := s.db.Query(ctx, listPrefs, tenant)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]notification.Prefs{}
	for rows.Next() {
		var user, body string
		var p notification.Prefs
		if err := rows.Scan(&user, &body); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			return nil, err
		}
		all[user] = p
	}
	return all, rows.Err()
}

// PutPrefsTx implements notification.DeliveryStore.
func (s *Store) PutPrefsTx(tx txn.Tx, tenant, user string, p notification.Prefs, at time.Time) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(putPrefs, tenant, user, string(body), sqldb.Micros(at))
	return err
}

// ListTargets implements notification.DeliveryStore.
func (s *Store) ListTargets(ctx context.Context, tenant, user string) ([]notification.Target, error) {
	query, args := selectTargets, []any{tenant}
	if user != "" {
		query, args = query+` AND user_id = ?`, append(args, user)
	}
	return sqldb.Collect(s.db.Reader(ctx), query+` ORDER BY target_id`, args, func(row sqldb.Row) (notification.Target, error) {
		t, err := scanTarget(tenant, row)
		if err != nil {
			return notification.Target{}, err
		}
		return *t, nil
	})
}

// GetTarget implements notification.DeliveryStore.
func (s *Store) GetTarget(ctx context.Context, tenant, id string) (*notification.Target, error) {
	return scanTarget(tenant, s.db.QueryRow(ctx, selectTargets+` AND target_id = ?`, tenant, id))
}

func scanTarget(tenant string, row sqldb.Row) (*notification.Target, error) {
	t := &notification.Target{TenantID: tenant}
	var created, last, confirmed, until int64
	err := row.Scan(&t.ID, &t.UserID, &t.Label, &t.Enabled, &t.Kind, &t.Sealed, &created, &last, &t.LastError,
		&confirmed, &t.ConfirmHash, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NewNotFound("notification target")
	}
	t.CreatedAt, t.LastAt, t.ConfirmedAt, t.ConfirmUntil = sqldb.Time(created), sqldb.Time(last), sqldb.Time(confirmed), sqldb.Time(until)
	return t, err
}

// CreateTargetTx implements notification.DeliveryStore. Two at once may both
// take the last free place.
func (s *Store) CreateTargetTx(tx txn.Tx, t notification.Target) (n int, err error) {
	q := sqldb.From(tx)
	_, err = q.Exec(insertTarget,
		t.TenantID, t.ID, t.UserID, t.Label, t.Enabled, t.Kind, t.Sealed, sqldb.Micros(t.CreatedAt), sqldb.Micros(t.LastAt), t.LastError,
		sqldb.Micros(t.ConfirmedAt), t.ConfirmHash, sqldb.Micros(t.ConfirmUntil))
	if err != nil {
		return 0, err
	}
	err = q.QueryRow(countTargets, t.TenantID, t.UserID).Scan(&n)
	return n, err
}

// DeleteTargetTx implements notification.DeliveryStore.
func (s *Store) DeleteTargetTx(tx txn.Tx, tenant, user, id string) (bool, error) {
	n, err := sqldb.From(tx).Exec(`DELETE FROM notification_targets WHERE tenant_id = ? AND user_id = ? AND target_id = ?`,
		tenant, user, id)
	return n > 0, err
}

// RecordDeliveryTx implements notification.DeliveryStore.
func (s *Store) RecordDeliveryTx(tx txn.Tx, tenant, id string, at time.Time, failure string) error {
	_, err := sqldb.From(tx).Exec(`UPDATE notification_targets SET last_at = ?, last_error = ? WHERE tenant_id = ? AND target_id = ?`,
		sqldb.Micros(at), failure, tenant, id)
	return err
}
