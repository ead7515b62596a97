package run

import (
	"fmt"
	"math"

	"agentd/internal/base/txn"
)

// Budgets is the port to what runs may spend on models. A run with max_cost_usd
// has a budget with the run's id. A run that another one starts spends from the
// other's budgets too. Amounts are billionths of a US dollar. An amount that is
// reserved for a call counts until the call is settled, so that parallel calls
// never overspend together.
type Budgets interface {
	CreateBudget(tenant, id string, limit int64) txn.Op
	// ReserveTx takes up to want from all of the budgets, or fails with *OverBudget where
	// any of them has less than least left.
	ReserveTx(tx txn.Tx, tenant string, ids []string, want, least int64) (granted int64, err error)
	// Settle returns a reservation and adds what was spent.
	Settle(tenant string, ids []string, reserved, spent int64) txn.Op
}

// OverBudget is the error of a budget that has not enough left.
type OverBudget struct {
	Limit, Left int64
}

func (e *OverBudget) Error() string {
	return fmt.Sprintf("run: %d of a budget of %d are left", e.Left, e.Limit)
}

// NanoUSD converts dollars to billionths of a dollar, rounded up.
func NanoUSD(usd float64) int64 {
	return int64(math.Ceil(min(usd, 9e9) * 1e9))
}
