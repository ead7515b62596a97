package worksql

import (
	"cmp"
	"context"
	"slices"

	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
)

// window is how many due items are read before tenants are found by index. If
// fewer are due, one query shows all of them.
const window = 256

const (
	// claimable takes the results of timeline.claimable. Its first part alone can be
	// looked up in an index.
	claimable = `due_at <= @now AND due_at <= CASE owner WHEN '' THEN @now ELSE @now END`

	dueWork = `SELECT work_key, tenant_id, due_at FROM work WHERE kind = ? AND ` + claimable + ` ORDER BY due_at LIMIT ?`

	dueWorkOf = `SELECT work_key, tenant_id, due_at FROM work
WHERE kind = ? AND tenant_id = ? AND ` + claimable + ` ORDER BY due_at LIMIT ?`

	// tenantsWork finds tenants that have due items, in order, and reads one item
	// of each.
	tenantsWork = `WITH RECURSIVE tenants (id) AS (
	SELECT MIN(tenant_id) FROM work WHERE kind = ? AND tenant_id >= ?
	UNION ALL
	SELECT (SELECT MIN(tenant_id) FROM work WHERE kind = ? AND tenant_id > tenants.id) FROM tenants WHERE tenants.id IS NOT NULL)
SELECT id FROM tenants WHERE EXISTS (SELECT 1 FROM work WHERE kind = ? AND tenant_id = tenants.id AND ` + claimable + `) LIMIT ?`
)

// due returns up to n items of a kind to claim. Tenants take turns, also from
// one claim to the next, since many claims fill just the one slot that became
// free.
//
// Usually few items are due, and one query shows all of them. A backlog that
// fills the window may hide tenants; then those whose turn it is are found by
// index.
func (w *Queue) due(ctx context.Context, kind string, until []any, n int) ([]work.Item, error) {
	w.mu.Lock()
	last := w.turns[kind]
	w.mu.Unlock()
	items, err := w.items(ctx, kind, w.texts.due, slices.Concat([]any{kind}, until, []any{window})...)
	if err == nil && len(items) == window {
		items, err = w.dueInTurn(ctx, kind, last, until, n)
	}
	if err != nil || len(items) == 0 {
		return nil, err
	}
	items = last.order(items)[:min(n, len(items))]
	w.mu.Lock()
	w.turns[kind] = turn{taken: true, tenant: items[len(items)-1].TenantID}
	w.mu.Unlock()
	return items, nil
}

// turn is the tenant that was served last.
type turn struct {
	taken  bool // false before the first claim
	tenant string
}

// order sorts items: the oldest of each tenant, beginning with the tenant after
// the one that was served last, then the second oldest of each, and so on.
func (t turn) order(items []work.Item) []work.Item {
	slices.SortFunc(items, func(a, b work.Item) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Key, b.Key))
	})
	type placed struct {
		round int
		again int // 1: its turn in this round is over
		item  work.Item
	}
	rounds := make(map[string]int)
	queue := make([]placed, len(items))
	for i, item := range items {
		queue[i] = placed{round: rounds[item.TenantID], item: item}
		if t.taken && item.TenantID <= t.tenant {
			queue[i].again = 1
		}
		rounds[item.TenantID]++
	}
	slices.SortFunc(queue, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.again, b.again), cmp.Compare(a.item.TenantID, b.item.TenantID))
	})
	for i, p := range queue {
		items[i] = p.item
	}
	return items
}

// dueInTurn returns enough items of the tenants whose turn it is.
func (w *Queue) dueInTurn(ctx context.Context, kind string, last turn, until []any, n int) ([]work.Item, error) {
	from := ""
	if last.taken {
		from = last.tenant + "\x01" // before every other id, and after last
	}
	tenants, err := w.tenants(ctx, kind, from, until, n)
	if err != nil {
		return nil, err
	}
	if last.taken && len(tenants) < n { // from the first tenant on
		first, err := w.tenants(ctx, kind, "", until, n-len(tenants))
		if err != nil {
			return nil, err
		}
		for _, id := range first {
			if id <= last.tenant {
				tenants = append(tenants, id)
			}
		}
	}
	var items []work.Item
	for _, id := range tenants {
		share := (n + len(tenants) - 1) / len(tenants)
		more, err := w.items(ctx, kind, w.texts.dueOf, slices.Concat([]any{kind, id}, until, []any{share})...)
		if err != nil {
			return nil, err
		}
		items = append(items, more...)
	}
	return items, nil
}

// items reads keys, tenants and due times.
func (w *Queue) items(ctx context.Context, kind, query string, args ...any) ([]work.Item, error) {
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

// tenants returns up to n tenants that have due items, in order, from one on.
func (w *Queue) tenants(ctx context.Context, kind, from string, until []any, n int) ([]string, error) {
	rows, err := w.db.Query(ctx, w.texts.tenants, slices.Concat([]any{kind, from, kind, kind}, until, []any{n})...)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}
