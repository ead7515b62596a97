package auditsql

import (
	"context"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/store/sqldb"
)

var _ audit.PushStore = (*Store)(nil)

const (
	// insertUnsent notes an entry while entries are pushed: audit_push has one row
	// then, and none otherwise.
	insertUnsent = `INSERT INTO audit_unsent (at, entry_id, tenant_id)
		SELECT CAST(? AS BIGINT), CAST(? AS TEXT), CAST(? AS TEXT) FROM audit_push`
	enablePush   = `INSERT INTO audit_push (since) SELECT CAST(? AS BIGINT) WHERE NOT EXISTS (SELECT 1 FROM audit_push)`
	disablePush  = `DELETE FROM audit_push`
	forgetUnsent = `DELETE FROM audit_unsent`
	deleteUnsent = `DELETE FROM audit_unsent WHERE at = ? AND entry_id = ?`
)

var selectUnsent = `SELECT ` + sqldb.Qualify(`l`, auditColumns) + ` FROM audit_unsent AS u
	JOIN audit_log AS l ON l.tenant_id = u.tenant_id AND l.at = u.at AND l.entry_id = u.entry_id
	ORDER BY u.at, u.entry_id LIMIT ?`

// EnablePushTx implements audit.PushStore.
func (s *Store) EnablePushTx(tx txn.Tx, now time.Time) error {
	_, err := sqldb.From(tx).Exec(enablePush, sqldb.Micros(now))
	return err
}

// ClearPushTx implements audit.PushStore.
func (s *Store) ClearPushTx(tx txn.Tx) error {
	if _, err := sqldb.From(tx).Exec(disablePush); err != nil {
		return err
	}
	_, err := sqldb.From(tx).Exec(forgetUnsent)
	return err
}

// ListUnsent implements audit.PushStore.
func (s *Store) ListUnsent(ctx context.Context, n int) ([]audit.Record, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectUnsent, []any{n}, scanEntry)
}

// DeleteUnsentTx implements audit.PushStore.
func (s *Store) DeleteUnsentTx(tx txn.Tx, sent []audit.Record) error {
	for i := range sent {
		if _, err := sqldb.From(tx).Exec(deleteUnsent, sqldb.Micros(sent[i].At), sent[i].EntryID); err != nil {
			return err
		}
	}
	return nil
}
