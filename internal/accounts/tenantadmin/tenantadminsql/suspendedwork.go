package tenantadminsql

import (
	"database/sql"
	"errors"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/worksql"
)

// SuspendWorkTx implements tenantadmin.Store. It locks the tenant's row: a
// transaction that reactivates the tenant commits either before, and then
// nothing is suspended, or after, and then resumes what was.
func (s *Store) SuspendWorkTx(tx txn.Tx, held work.Lease, now time.Time) (bool, error) {
	t := sqldb.From(tx)
	var status identity.Status
	switch err := t.QueryRow(selectStatus+t.ForUpdate(), held.TenantID).Scan(&status); {
	case errors.Is(err, sql.ErrNoRows):
		return false, identity.ErrNotFound
	case err != nil:
		return false, err
	case status == identity.Active:
		return false, nil
	}
	err := worksql.SuspendTx(tx, held, now)
	return !errors.Is(err, work.ErrLost), err
}

// ResumeWorkTx implements tenantadmin.Store.
func (s *Store) ResumeWorkTx(tx txn.Tx, tenant, kind string, limit int) (int, error) {
	return worksql.ResumeTx(tx, tenant, kind, limit)
}
