// Package billingsql keeps subscriptions, and the events that were applied, on SQL.
package billingsql

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/operation/billing"
	"agentd/internal/store/sqldb"
)

// Store implements billing.Store.
type Store struct{ db *sqldb.DB }

var _ billing.Store = (*Store)(nil)

// New uses the tables of migration 207.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	accountColumns = `tenant_id, customer_id, subscription_id, status, plan, trial_ends_at, plan_at, status_at`
	selectAccount  = `SELECT ` + accountColumns + ` FROM billing_accounts WHERE tenant_id = ?`
)

var (
	putAccount = sqldb.Insert(`billing_accounts`, accountColumns) + ` ON CONFLICT (tenant_id) DO UPDATE SET
		customer_id = excluded.customer_id, subscription_id = excluded.subscription_id, status = excluded.status, plan = excluded.plan,
		trial_ends_at = excluded.trial_ends_at, plan_at = excluded.plan_at, status_at = excluded.status_at`
	insertEvent = sqldb.Insert(`billing_events`, `event_id, received_at`) + ` ON CONFLICT DO NOTHING`
)

func scanAccount(row sqldb.Row, tenant string) (billing.Account, error) {
	a := billing.Account{TenantID: tenant}
	var trial, plan, status int64
	err := row.Scan(&a.TenantID, &a.CustomerID, &a.SubscriptionID, &a.Status, &a.Plan, &trial, &plan, &status)
	if errors.Is(err, sql.ErrNoRows) {
		return a, nil
	}
	a.TrialEnds, a.PlanAt, a.StatusAt = sqldb.Time(trial), sqldb.Time(plan), sqldb.Time(status)
	return a, err
}

// Get implements billing.Store.
func (s *Store) Get(ctx context.Context, tenant string) (billing.Account, error) {
	return scanAccount(s.db.QueryRow(ctx, selectAccount, tenant), tenant)
}

// LockTx implements billing.Store.
func (s *Store) LockTx(tx txn.Tx, tenant string) (a billing.Account, found bool, err error) {
	t := sqldb.From(tx)
	var id string
	err = t.QueryRow(`SELECT tenant_id FROM tenants WHERE tenant_id = ? AND status <> 'deleted'`+t.ForUpdate(), tenant).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	a, err = scanAccount(t.QueryRow(selectAccount, tenant), tenant)
	return a, true, err
}

// GetTenantTx implements billing.Store.
func (s *Store) GetTenantTx(tx txn.Tx, customer string) (tenant string, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT tenant_id FROM billing_accounts WHERE customer_id = ?`, customer).Scan(&tenant)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return tenant, err
}

// PutTx implements billing.Store.
func (s *Store) PutTx(tx txn.Tx, a *billing.Account, plan string) error {
	t := sqldb.From(tx)
	_, err := t.Exec(putAccount, a.TenantID, a.CustomerID, a.SubscriptionID, string(a.Status), a.Plan,
		sqldb.Micros(a.TrialEnds), sqldb.Micros(a.PlanAt), sqldb.Micros(a.StatusAt))
	if err != nil {
		return err
	}
	_, err = t.Exec(`UPDATE tenants SET past_due = ? WHERE tenant_id = ?`, a.Status == billing.PastDue, a.TenantID)
	if err != nil || plan == "" {
		return err
	}
	_, err = t.Exec(`UPDATE tenants SET plan = ? WHERE tenant_id = ?`, plan, a.TenantID)
	return err
}

// ClaimEventTx implements billing.Store.
func (s *Store) ClaimEventTx(tx txn.Tx, id string, at, forget time.Time) (bool, error) {
	t := sqldb.From(tx)
	if _, err := t.Exec(`DELETE FROM billing_events WHERE received_at < ?`, sqldb.Micros(forget)); err != nil {
		return false, err
	}
	n, err := t.Exec(insertEvent, id, sqldb.Micros(at))
	return n > 0, err
}
