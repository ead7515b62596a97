package usagesql

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"agentd/internal/accounts/usage"
	"agentd/internal/kernel/quota"
	"agentd/internal/store/sqldb"
)

// durationOf identifies a row of usage_durations. Those of a tenant are locked after
// its counters, in their order.
type durationOf struct {
	tenant, day, agent string
	bucket             int
}

// durations are how many runs ended, by how long they took.
type durations map[durationOf]int64

// add counts the end of a run, if a use has one. It is of one run, since uses of
// different runs are not merged.
func (d durations) add(at durationOf, u *quota.Use) {
	if n := u.Ended(); n > 0 {
		at.bucket = usage.BucketOf(u.DurationMS / n)
		d[at] += n
	}
}

var addDuration = sqldb.Insert(`usage_durations`, `tenant_id, day, agent_id, bucket, runs`) +
	` ON CONFLICT (tenant_id, day, agent_id, bucket) DO UPDATE SET runs = usage_durations.runs + excluded.runs`

// store adds to what is stored.
func (d durations) store(t *sqldb.Tx) error {
	order := func(a, b durationOf) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.day, b.day), cmp.Compare(a.agent, b.agent), cmp.Compare(a.bucket, b.bucket))
	}
	for _, at := range slices.SortedFunc(maps.Keys(d), order) {
		if err := t.Queue(addDuration, at.tenant, at.day, at.agent, at.bucket, d[at]); err != nil {
			return err
		}
	}
	return nil
}

// partColumns are the columns by which uses are grouped.
var partColumns = map[usage.Part]string{usage.PartAgent: "agent_id", usage.PartModel: "model", usage.PartSource: "source"}

// partsWhere returns the conditions of a query beside those of the tenant and the days,
// and the arguments of all of them.
func partsWhere(tenant string, q usage.PartQuery, key string) (where string, args []any) {
	args = []any{tenant, q.From, q.To}
	if where = ` AND agent_id <> ''`; q.AgentID != "" {
		where, args = ` AND agent_id = ?`, append(args, q.AgentID)
	}
	if len(q.Keys) > 0 {
		in, with := sqldb.In(q.Keys, args...)
		where, args = where+` AND `+key+in, with
	}
	return where, args
}

// ListParts implements usage.Store.
func (s *Store) ListParts(ctx context.Context, tenant string, q usage.PartQuery) ([]usage.PartRow, error) {
	day, key := `''`, `''`
	if q.ByDay {
		day = `period`
	}
	if column := partColumns[q.By]; column != "" {
		key = column
	}
	where, args := partsWhere(tenant, q, key)
	part := func(table, day string) string {
		return `SELECT ` + day + ` AS period, agent_id, model, source, ` + counters + ` FROM ` + table +
			` WHERE tenant_id = ? AND ` + day + ` >= ? AND ` + day + ` <= ?` + where
	}
	rows, err := s.db.Query(ctx, `SELECT `+day+`, `+key+`, `+summedCounters+` FROM (`+
		part(`usage_counters`, `period`)+` UNION ALL `+part(`usage_entries`, `day`)+`) AS parts GROUP BY 1, 2`, append(args, args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []usage.PartRow
	for rows.Next() {
		var r usage.PartRow
		if err := rows.Scan(append([]any{&r.Day, &r.Key}, scanned(&r.Use)...)...); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, errors.Join(rows.Err(), rows.Close())
}

// ListDurations implements usage.Store.
func (s *Store) ListDurations(ctx context.Context, tenant string, q usage.PartQuery) ([]usage.DurationRow, error) {
	key := `''`
	if q.By == usage.PartAgent {
		key = `agent_id`
	}
	q.Keys = nil // a histogram has few rows; the index does not lead to some agents on some days
	where, args := partsWhere(tenant, q, key)
	rows, err := s.db.Query(ctx, `SELECT day, `+key+`, bucket, CAST(SUM(runs) AS BIGINT) FROM usage_durations
		WHERE tenant_id = ? AND day >= ? AND day <= ?`+where+` GROUP BY 1, 2, 3`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []usage.DurationRow
	for rows.Next() {
		var r usage.DurationRow
		if err := rows.Scan(&r.Day, &r.Key, &r.Bucket, &r.Runs); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, errors.Join(rows.Err(), rows.Close())
}

// ofPlatform joins the tenants, of which there are few, so that each one's days are
// found by the table's key.
const ofPlatform = ` FROM tenants t JOIN usage_counters c ON c.tenant_id = t.tenant_id
	WHERE c.period >= ? AND c.period <= ? AND c.agent_id <> ''`

// ListPlatformUses implements usage.Store.
func (s *Store) ListPlatformUses(ctx context.Context, from, to string, limit int) ([]usage.PlatformRow, error) {
	rows, err := s.db.Query(ctx, `SELECT c.tenant_id, c.agent_id, `+summedCounters+ofPlatform+
		` GROUP BY c.tenant_id, c.agent_id ORDER BY SUM(runs) DESC, c.agent_id LIMIT ?`, from, to, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []usage.PlatformRow
	for rows.Next() {
		var r usage.PlatformRow
		if err := rows.Scan(append([]any{&r.TenantID, &r.AgentID}, scanned(&r.Use)...)...); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, errors.Join(rows.Err(), rows.Close())
}

// GetPlatformUse implements usage.Store.
func (s *Store) GetPlatformUse(ctx context.Context, from, to string) (u quota.Use, err error) {
	sums := forEachCounter(`CAST(COALESCE(SUM(%[1]s), 0) AS BIGINT)`)
	err = s.db.QueryRow(ctx, `SELECT `+sums+ofPlatform, from, to).Scan(scanned(&u)...)
	return u, err
}

// GetPlatformTotals implements usage.Store.
func (s *Store) GetPlatformTotals(ctx context.Context) (t usage.PlatformTotals, err error) {
	err = s.db.QueryRow(ctx, `SELECT (SELECT COUNT(*) FROM tenants), (SELECT COUNT(*) FROM documents WHERE kind = 'agent'),
		(SELECT CAST(COALESCE(SUM(c.runs), 0) AS BIGINT) FROM tenants t JOIN usage_counters c ON c.tenant_id = t.tenant_id
			WHERE c.agent_id = '' AND c.model = '' AND c.source = '' AND c.period >= '2' AND c.period < '3' AND LENGTH(c.period) = 7)`).
		Scan(&t.Tenants, &t.Agents, &t.Runs)
	return t, err
}
