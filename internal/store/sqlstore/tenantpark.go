package sqlstore

import (
	"errors"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
)

// parked is added to the time when an item is due: some thirty thousand years,
// in microseconds. So a queue that is full of what a suspended tenant left
// costs its neighbours nothing.
const parked = 1_000_000_000_000_000_000

// Park implements tenancy.Store. The tenant's row is locked: whoever lets the
// tenant in comes before this, and then nothing is parked, or after, and then
// finds what is.
func (s *Tenancy) Park(tx txn.Tx, held work.Lease, now time.Time) (bool, error) {
	t := sqldb.From(tx)
	var status identity.Status
	switch err := t.QueryRow(lockTenant+t.ForUpdate(), held.TenantID).Scan(&status); {
	case noRows(err):
		return false, identity.ErrNotFound
	case err != nil:
		return false, err
	case status == identity.Active:
		return false, nil
	}
	err := fenced(t.Exec(releaseWork, sqldb.Micros(now)+parked, max(held.Attempt-1, 0), held.Kind, held.Key, held.Epoch))
	return !errors.Is(err, work.ErrLost), err
}

// Unpark implements tenancy.Store.
func (s *Tenancy) Unpark(tx txn.Tx, tenant, kind string, most int) (int, error) {
	n, err := sqldb.From(tx).Exec(`UPDATE work SET due_at = due_at - ? WHERE kind = ? AND work_key IN
		(SELECT work_key FROM work WHERE kind = ? AND tenant_id = ? AND due_at >= ? LIMIT ?)`,
		int64(parked), kind, kind, tenant, int64(parked), most)
	return int(n), err
}
