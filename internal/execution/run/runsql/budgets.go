package runsql

import (
	"context"
	"math"
	"slices"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

const (
	insertBudget = `INSERT INTO run_budgets (tenant_id, budget_id, cap, spent, reserved) VALUES (?, ?, ?, 0, 0)`

	oneBudget     = ` WHERE tenant_id = ? AND budget_id = ?`
	selectBudget  = `SELECT cap, cap - spent - reserved FROM run_budgets` + oneBudget
	reserveBudget = `UPDATE run_budgets SET reserved = reserved + ?` + oneBudget
	settleBudget  = `UPDATE run_budgets SET reserved = reserved - ?, spent = spent + ?` + oneBudget
)

// CreateBudget implements run.Budgets.
func (s *Store) CreateBudget(tenant, id string, limit int64) txn.Op {
	return func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(insertBudget, tenant, id, limit)
		return err
	}
}

// ReserveTx implements run.Budgets.
func (s *Store) ReserveTx(tx txn.Tx, tenant string, ids []string, want, least int64) (int64, error) {
	t := sqldb.From(tx)
	granted, limit := int64(math.MaxInt64), int64(0)
	ids = slices.Sorted(slices.Values(ids)) // in one order, so that no two transactions wait for each other
	for _, id := range ids {
		var budget, left int64
		if err := t.QueryRow(selectBudget+t.ForUpdate(), tenant, id).Scan(&budget, &left); err != nil {
			return 0, sqldb.NoRowsAs(err, &run.OverBudget{}) // what it belonged to was deleted
		}
		if left < granted {
			granted, limit = left, budget
		}
	}
	if granted < least {
		return 0, &run.OverBudget{Limit: limit, Left: max(0, granted)}
	}
	granted = min(granted, want)
	for _, id := range ids {
		if _, err := t.Exec(reserveBudget, granted, tenant, id); err != nil {
			return 0, err
		}
	}
	return granted, nil
}

// PutBudgetTx creates a budget, or sets the limit of the one that there is.
func (s *Store) PutBudgetTx(tx txn.Tx, tenant, id string, limit int64) error {
	_, err := sqldb.From(tx).Exec(insertBudget+` ON CONFLICT (tenant_id, budget_id) DO UPDATE SET cap = excluded.cap`, tenant, id, limit)
	return err
}

// Spent returns what was spent from a budget, what is reserved for calls under way
// included; 0 where there is no such budget.
func (s *Store) Spent(ctx context.Context, tenant, id string) (nano int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT spent + reserved FROM run_budgets`+oneBudget, tenant, id).Scan(&nano)
	return nano, sqldb.NoRowsAs(err, nil)
}

// DeleteBudgetTx deletes a budget: who spends from it has nothing left.
func (s *Store) DeleteBudgetTx(tx txn.Tx, tenant, id string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM run_budgets`+oneBudget, tenant, id)
	return err
}

// Settle implements run.Budgets.
func (s *Store) Settle(tenant string, ids []string, reserved, spent int64) txn.Op {
	ids = slices.Sorted(slices.Values(ids))
	return func(tx txn.Tx) error {
		for _, id := range ids {
			if _, err := sqldb.From(tx).Exec(settleBudget, reserved, spent, tenant, id); err != nil {
				return err
			}
		}
		return nil
	}
}
