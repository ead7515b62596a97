package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"agentd/internal/sqldb"
	"agentd/internal/work"
)

// window is how many due items are looked at before tenants are found by
// index: below it, all that is due is seen at once.
const window = 256

const (
	dueWork = `SELECT work_key, tenant_id, due_at FROM work WHERE kind = ? AND due_at <= ? ORDER BY due_at LIMIT ?`

	dueWorkOf = `SELECT work_key, tenant_id, due_at FROM work
WHERE kind = ? AND tenant_id = ? AND due_at <= ? ORDER BY due_at LIMIT ?`

	// tenantsWork finds tenants in order that have something due, without a
	// look at more than one item of each.
	tenantsWork = `WITH RECURSIVE tenants (id) AS (
	SELECT MIN(tenant_id) FROM work WHERE kind = ? AND tenant_id >= ?
	UNION ALL
	SELECT (SELECT MIN(tenant_id) FROM work WHERE kind = ? AND tenant_id > tenants.id) FROM tenants WHERE tenants.id IS NOT NULL)
SELECT id FROM tenants WHERE EXISTS (SELECT 1 FROM work WHERE kind = ? AND tenant_id = tenants.id AND due_at <= ?) LIMIT ?`
)

// due gives up to n items of a kind to claim, turn by turn over tenants.
//
// Usually few are due, and one query shows all of them. Behind a backlog that
// fills the window there may be tenants that the window does not show; then
// tenants are found by index, and take turns from one claim to the next.
func (w *Work) due(ctx context.Context, kind string, now int64, n int) ([]work.Item, error) {
	items, err := w.items(ctx, kind, dueWork, kind, now, window)
	if err != nil {
		return nil, err
	}
	if len(items) < window {
		return byTurns(items, n), nil
	}
	tenants, err := w.inTurn(ctx, kind, now, n)
	if err != nil {
		return nil, err
	}
	items = items[:0]
	for _, id := range tenants {
		share := (n + len(tenants) - 1) / len(tenants)
		more, err := w.items(ctx, kind, dueWorkOf, kind, id, now, share)
		if err != nil {
			return nil, err
		}
		items = append(items, more...)
	}
	return byTurns(items, n), nil
}

// byTurns gives n of the items: the oldest of each tenant, then the second
// oldest of each, and so on.
func byTurns(items []work.Item, n int) []work.Item {
	older := func(a, b work.Item) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Key, b.Key)) }
	slices.SortFunc(items, older)
	type turn struct {
		number int
		item   work.Item
	}
	turns := make([]turn, len(items))
	served := make(map[string]int)
	for i, item := range items {
		turns[i] = turn{served[item.TenantID], item}
		served[item.TenantID]++
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.number, b.number) })
	turns = turns[:min(n, len(turns))]
	items = items[:len(turns)]
	for i, t := range turns {
		items[i] = t.item
	}
	return items
}

// items reads keys, tenants and due times.
func (w *Work) items(ctx context.Context, kind, query string, args ...any) ([]work.Item, error) {
	rows, err := w.db.Query(ctx, query, args...)
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

// inTurn gives up to n tenants that have something due, from the one after
// whoever was last the last time, and around.
func (w *Work) inTurn(ctx context.Context, kind string, now int64, n int) ([]string, error) {
	w.mu.Lock()
	last, before := w.turns[kind]
	w.mu.Unlock()
	from := ""
	if before {
		from = last + "\x01" // before every other id, and after last
	}
	ids, err := w.tenants(ctx, kind, from, now, n)
	if err == nil && before && len(ids) < n {
		var first []string
		first, err = w.tenants(ctx, kind, "", now, n-len(ids))
		for _, id := range first {
			if id <= last {
				ids = append(ids, id)
			}
		}
	}
	if err == nil && len(ids) > 0 {
		w.mu.Lock()
		w.turns[kind] = ids[len(ids)-1]
		w.mu.Unlock()
	}
	return ids, err
}

func (w *Work) tenants(ctx context.Context, kind, from string, now int64, n int) ([]string, error) {
	rows, err := w.db.Query(ctx, tenantsWork, kind, from, kind, kind, now, n)
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
	return ids, rows.Err()
}
