package sqlstore

import (
	"context"
	"slices"

	"agentd/internal/sqldb"
	"agentd/internal/work"
)

// window is how many due items are looked at before tenants take turns by
// index: below it, all that is due is seen at once.
const window = 512

const (
	// fairWork orders what is due by turns: everybody's oldest item first.
	fairWork = `SELECT work_key, tenant_id, due_at, (SELECT COUNT(*) FROM due) FROM (
	SELECT work_key, tenant_id, due_at,
		ROW_NUMBER() OVER (PARTITION BY tenant_id ORDER BY due_at, work_key) AS turn
	FROM due) AS turns
ORDER BY turn, due_at, work_key LIMIT ?`
	dueWork = `WITH due AS (SELECT work_key, tenant_id, due_at FROM work WHERE kind = ? AND due_at <= ? ORDER BY due_at LIMIT ?)
` + fairWork

	// tenantsWork finds the tenants after one that have something due, without
	// a look at more than one item of each.
	tenantsWork = `WITH RECURSIVE tenants (id) AS (
	SELECT MIN(tenant_id) FROM work WHERE kind = ? AND tenant_id > ?
	UNION ALL
	SELECT (SELECT MIN(tenant_id) FROM work WHERE kind = ? AND tenant_id > tenants.id) FROM tenants WHERE tenants.id IS NOT NULL)
SELECT id FROM tenants WHERE EXISTS (SELECT 1 FROM work WHERE kind = ? AND tenant_id = tenants.id AND due_at <= ?) LIMIT ?`

	tenantWork = `SELECT work_key, tenant_id, due_at FROM work
WHERE kind = ? AND tenant_id = ? AND due_at <= ? ORDER BY due_at, work_key LIMIT ?`
)

// due gives up to n items of a kind to claim, turn by turn over tenants.
//
// Few due items, the usual case, are ordered in one query. Behind a backlog
// that fills the window there may be tenants that the window does not show;
// then tenants are found by index, and take turns from one claim to the next.
func (w *Work) due(ctx context.Context, kind string, now int64, n int) ([]work.Item, error) {
	rows, err := w.db.Query(ctx, dueWork, kind, now, window, n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var items []work.Item
	total := 0
	for rows.Next() {
		item := work.Item{Kind: kind}
		var due int64
		if err := rows.Scan(&item.Key, &item.TenantID, &due, &total); err != nil {
			return nil, err
		}
		item.Due = sqldb.Time(due)
		items = append(items, item)
	}
	if err := rows.Err(); err != nil || total < window {
		return items, err
	}
	return w.dueByTurns(ctx, kind, now, n)
}

// dueByTurns is due behind a backlog.
func (w *Work) dueByTurns(ctx context.Context, kind string, now int64, n int) ([]work.Item, error) {
	w.mu.Lock()
	last := w.turns[kind]
	w.mu.Unlock()
	tenants, err := w.tenants(ctx, kind, last, now, n)
	if err != nil {
		return nil, err
	}
	if len(tenants) < n { // around: from the first to the last that was served
		first, err := w.tenants(ctx, kind, "", now, n-len(tenants))
		if err != nil {
			return nil, err
		}
		for _, id := range first {
			if id <= last {
				tenants = append(tenants, id)
			}
		}
	}
	// Turn by turn, an item of each tenant.
	var queues [][]work.Item
	for _, id := range tenants {
		items, err := w.dueOf(ctx, kind, id, now, (n+len(tenants)-1)/len(tenants))
		if err != nil {
			return nil, err
		}
		queues = append(queues, items)
	}
	var items []work.Item
	for turn := 0; len(items) < n; turn++ {
		before := len(items)
		for _, q := range queues {
			if turn < len(q) && len(items) < n {
				items = append(items, q[turn])
			}
		}
		if len(items) == before {
			break
		}
	}
	if len(items) > 0 {
		w.mu.Lock()
		w.turns[kind] = items[len(items)-1].TenantID
		w.mu.Unlock()
	}
	return items, nil
}

// tenants gives up to n tenants after one that have something due, in order.
func (w *Work) tenants(ctx context.Context, kind, after string, now int64, n int) ([]string, error) {
	rows, err := w.db.Query(ctx, tenantsWork, kind, after, kind, kind, now, n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return slices.Clip(ids), rows.Err()
}

func (w *Work) dueOf(ctx context.Context, kind, tenant string, now int64, n int) ([]work.Item, error) {
	rows, err := w.db.Query(ctx, tenantWork, kind, tenant, now, n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var items []work.Item
	for rows.Next() {
		item := work.Item{Kind: kind}
		var due int64
		if err := rows.Scan(&item.Key, &item.TenantID, &due); err != nil {
			return nil, err
		}
		item.Due = sqldb.Time(due)
		items = append(items, item)
	}
	return items, rows.Err()
}
