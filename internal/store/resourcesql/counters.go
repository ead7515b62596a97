package resourcesql

import (
	"context"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/sqldb"
)

// Counters implements resource.Counters.
type Counters struct{ db *sqldb.DB }

var _ resource.Counters = (*Counters)(nil)

// NewCounters uses the table of migration 94.
func NewCounters(db *sqldb.DB) *Counters { return &Counters{db} }

const (
	addToCounter = `INSERT INTO counters (tenant_id, name, value) VALUES (?, ?, ?)
		ON CONFLICT (tenant_id, name) DO UPDATE SET value = counters.value + excluded.value`
	listCounters = `SELECT name, value FROM counters WHERE tenant_id = ? AND name >= ? AND name < ?`
)

// IncrementTx implements resource.Counters.
func (c *Counters) IncrementTx(tx txn.Tx, tenant, name string, by int64) error {
	_, err := sqldb.From(tx).Exec(addToCounter, tenant, name, by)
	return err
}

// List implements resource.Counters.
func (c *Counters) List(ctx context.Context, tenant, prefix string) (map[string]int64, error) {
	rows, err := c.db.Query(ctx, listCounters, tenant, prefix, prefix+"~")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]int64{}
	for rows.Next() {
		var name string
		var value int64
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		all[name] = value
	}
	return all, rows.Err()
}
