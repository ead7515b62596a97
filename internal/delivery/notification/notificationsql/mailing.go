package notificationsql

import (
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/delivery/notification"
	"agentd/internal/store/sqldb"
)

// countMail begins a new count when the last one is older than its limit's time.
var countMail = sqldb.Insert(`notification_mail AS old`, `tenant_id, subject, since, sent`) +
	` ON CONFLICT (tenant_id, subject) DO UPDATE SET
		sent = CASE WHEN old.since <= ? THEN 1 ELSE old.sent + 1 END,
		since = CASE WHEN old.since <= ? THEN excluded.since ELSE old.since END
	RETURNING sent`

// longestCount is the age at which counts are deleted.
const longestCount = 48 * time.Hour

// CountMailTx implements notification.DeliveryStore.
func (s *Store) CountMailTx(tx txn.Tx, tenant, subject string, now time.Time, per time.Duration) (n int, err error) {
	begun := sqldb.Micros(now.Add(-per))
	err = sqldb.From(tx).QueryRow(countMail, tenant, subject, sqldb.Micros(now), 1, begun, begun).Scan(&n)
	return n, err
}

// DeleteOldCountsTx implements notification.DeliveryStore.
func (s *Store) DeleteOldCountsTx(tx txn.Tx, now time.Time) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM notification_mail WHERE (tenant_id, subject) IN
		(SELECT tenant_id, subject FROM notification_mail WHERE since <= ? ORDER BY since LIMIT 100)`, sqldb.Micros(now.Add(-longestCount)))
	return err
}

// UpdateConfirmedTx implements notification.DeliveryStore.
func (s *Store) UpdateConfirmedTx(tx txn.Tx, tenant, id string, hash []byte, now time.Time) (bool, error) {
	at := sqldb.Micros(now)
	n, err := sqldb.From(tx).Exec(`UPDATE notification_targets SET confirmed_at = CASE WHEN confirmed_at = 0 THEN ? ELSE confirmed_at END
		WHERE tenant_id = ? AND target_id = ? AND confirm_hash = ? AND confirm_until > ?`, at, tenant, id, hash, at)
	return n > 0, err
}

// CreateOptOutTx implements notification.DeliveryStore.
func (s *Store) CreateOptOutTx(tx txn.Tx, tenant string, address notification.AddressHash, at time.Time) error {
	_, err := sqldb.From(tx).Exec(sqldb.Insert(`notification_optouts`, `tenant_id, address_hash, created_at`)+` ON CONFLICT DO NOTHING`,
		tenant, address[:], sqldb.Micros(at))
	return err
}

// DeleteOptOutTx implements notification.DeliveryStore.
func (s *Store) DeleteOptOutTx(tx txn.Tx, tenant string, address notification.AddressHash) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM notification_optouts WHERE tenant_id = ? AND address_hash = ?`, tenant, address[:])
	return err
}

// HasOptOutTx implements notification.DeliveryStore.
func (s *Store) HasOptOutTx(tx txn.Tx, tenant string, address notification.AddressHash) (out bool, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT EXISTS (SELECT 1 FROM notification_optouts WHERE tenant_id = ? AND address_hash = ?)`,
		tenant, address[:]).Scan(&out)
	return out, err
}
