package worksql

import (
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
)

// suspended is added to the time when an item is due: some thirty thousand
// years, in microseconds. So the items of a suspended tenant stand behind all
// others in the queue, and cost its neighbours nothing.
const suspended = 1_000_000_000_000_000_000

const suspendWork = `UPDATE work SET due_at = ?, attempt = ?, owner = '', epoch = epoch + 1 WHERE kind = ? AND work_key = ? AND epoch = ?`

// SuspendTx releases an item until ResumeTx. The attempt that ends so does not
// count. Errors: work.ErrLost.
func SuspendTx(tx txn.Tx, held work.Lease, now time.Time) error {
	return fenced(sqldb.From(tx).Exec(suspendWork, sqldb.Micros(now)+suspended, max(held.Attempt-1, 0), held.Kind, held.Key, held.Epoch))
}

// ResumeTx makes up to limit suspended items of a tenant due when they were
// before, and returns how many there were.
func ResumeTx(tx txn.Tx, tenant, kind string, limit int) (int, error) {
	n, err := sqldb.From(tx).Exec(`UPDATE work SET due_at = due_at - ? WHERE kind = ? AND work_key IN
		(SELECT work_key FROM work WHERE kind = ? AND tenant_id = ? AND due_at >= ? LIMIT ?)`,
		int64(suspended), kind, kind, tenant, int64(suspended), limit)
	return int(n), err
}
