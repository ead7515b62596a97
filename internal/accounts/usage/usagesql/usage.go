// Package usagesql keeps counters, budgets and limits of usage on SQL.
package usagesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentd/internal/accounts/usage"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
	"agentd/internal/store/sqldb"
)

// Store keeps what tenants use. It implements usage.Store.
type Store struct{ db *sqldb.DB }

var _ usage.Store = (*Store)(nil)

// New uses the tables of migration 16.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	selectTerms = `SELECT t.plan, COALESCE(b.limit_nano, 0), COALESCE(b.soft_threshold, 0), COALESCE(b.hard_threshold, 0),
		COALESCE(b.period, ''), COALESCE(b.updated_at, 0), COALESCE(b.overage, FALSE), t.past_due
		FROM tenants t LEFT JOIN usage_budgets b ON b.tenant_id = t.tenant_id WHERE t.tenant_id = ?`

	counterKey = `tenant_id, period, agent_id, model, source, key_id`
	counters   = `runs, model_calls, input_tokens, output_tokens, thinking_tokens, tool_calls, cost_nano,
		cached_tokens, cache_write_tokens, tool_errors, completed, failures, cancelled, duration_ms`
	totals = `period, runs, input_tokens + output_tokens, tool_calls, cost_nano`
	// A month sorts before its days, and its name is shorter than that of a day.
	spent = `SELECT CAST(COALESCE(SUM(cost_nano), 0) AS BIGINT) FROM (
		SELECT cost_nano FROM usage_counters WHERE tenant_id = ? AND agent_id = '' AND model = ''
			AND source = '' AND period >= ? AND period <= ? AND LENGTH(period) = 10
		UNION ALL SELECT cost_nano FROM usage_entries WHERE tenant_id = ? AND day >= ? AND day <= ?) AS parts`
	entryTotals = `SELECT '', day, CAST(SUM(runs) AS BIGINT), CAST(SUM(input_tokens + output_tokens) AS BIGINT),
		CAST(SUM(tool_calls) AS BIGINT), CAST(SUM(cost_nano) AS BIGINT) FROM usage_entries WHERE tenant_id = ? GROUP BY day`
	// One statement, since what is read must be of one moment: entries move to the
	// counters.
	listTotals = entryTotals + ` UNION ALL SELECT period, ` + totals + ` FROM usage_counters
		WHERE tenant_id = ? AND agent_id = '' AND model = '' AND source = '' AND period`
)

var (
	oneCounter     = sqldb.Values(counterKey + `, ` + counters)
	insertCounters = `INSERT INTO usage_counters (` + counterKey + `, ` + counters + `) VALUES ` + oneCounter
	addToCounters  = ` ON CONFLICT (` + counterKey + `) DO UPDATE SET ` + forEachCounter(`%[1]s = usage_counters.%[1]s + excluded.%[1]s`)
	summedCounters = forEachCounter(`CAST(SUM(%[1]s) AS BIGINT)`)
	counterArgs    = 1 + strings.Count(oneCounter, `,`)

	eventColumns = `type, resource, period, used, cap, resets_at, created_at`
	insertEvent  = sqldb.Insert(`usage_events`, `tenant_id, event_id, `+eventColumns) + ` ON CONFLICT DO NOTHING`
	selectEvent  = `SELECT ` + eventColumns + ` FROM usage_events WHERE tenant_id = ? AND event_id = ?`

	budgetColumns = `limit_nano, soft_threshold, hard_threshold, period, updated_at`
	putBudget     = sqldb.Insert(`usage_budgets`, `tenant_id, `+budgetColumns) +
		` ON CONFLICT (tenant_id) DO UPDATE SET ` + sqldb.Excluded(budgetColumns)
)

// forEachCounter formats each column of counters.
func forEachCounter(format string) string {
	names := strings.Split(counters, `,`)
	for i, name := range names {
		names[i] = fmt.Sprintf(format, strings.TrimSpace(name))
	}
	return strings.Join(names, `, `)
}

// rowOr reads one row in tx, or outside of any transaction where tx is nil.
func (s *Store) rowOr(ctx context.Context, tx txn.Tx, query string, args ...any) *sql.Row {
	if tx == nil {
		return s.db.QueryRow(ctx, query, args...)
	}
	return sqldb.From(tx).QueryRow(query, args...)
}

// GetTerms implements usage.Store.
func (s *Store) GetTerms(ctx context.Context, tx txn.Tx, tenant string) (usage.Terms, error) {
	var t usage.Terms
	var b usage.Budget
	var updated int64
	err := s.rowOr(ctx, tx, selectTerms, tenant).Scan(&t.Plan, &b.LimitNano, &b.Soft, &b.Hard, &b.Period, &updated, &b.Overage, &t.PastDue)
	if errors.Is(err, sql.ErrNoRows) {
		return usage.Terms{}, nil
	}
	if b.UpdatedAt = sqldb.Time(updated); b.LimitNano > 0 {
		t.Budget = &b
	}
	return t, err
}

// LockBudgetTx implements usage.Store.
func (s *Store) LockBudgetTx(tx txn.Tx, tenant string) (*usage.Budget, error) {
	if err := sqldb.From(tx).LockTenant(tenant); err != nil {
		return nil, err
	}
	t, err := s.GetTerms(tx.Context(), tx, tenant)
	return t.Budget, err
}

// IncrementTx implements usage.Store.
func (s *Store) IncrementTx(tx txn.Tx, tenant, month, day string, uses []quota.Use) (m, d usage.Totals, err error) {
	var total quota.Use
	for _, u := range uses {
		total = usage.Sum(total, u)
	}
	args := make([]any, 0, counterArgs*(2+len(uses)))
	add := func(period string, u quota.Use) { args = append(args, useArgs(tenant, period, u)...) }
	total.AgentID, total.Model, total.Source, total.KeyID = "", "", "", ""
	add(month, total)
	add(day, total)
	for _, u := range uses {
		add(day, u)
	}
	t := sqldb.From(tx)
	query := insertCounters + strings.Repeat(`, `+oneCounter, 1+len(uses)) + addToCounters + ` RETURNING agent_id, ` + totals
	err = scanTotals(t.Query, query, args, func(agent, period string, n usage.Totals) {
		switch {
		case agent != "":
		case period == month:
			m = n
		default:
			d = n
		}
	})
	if err != nil {
		return m, d, err
	}
	took := durations{}
	for i := range uses {
		took.add(durationOf{tenant, day, uses[i].AgentID, 0}, &uses[i])
	}
	if err := took.store(t); err != nil {
		return m, d, err
	}
	// Entries from when the tenant had no limits. They cannot move to the counters
	// now, which are locked.
	err = scanTotals(t.Query, entryTotals, []any{tenant}, func(_, of string, n usage.Totals) {
		if strings.HasPrefix(of, month) {
			m = m.Plus(n)
		}
		if of == day {
			d = d.Plus(n)
		}
	})
	return m, d, err
}

// scanTotals reads rows of two names and totals.
func scanTotals(query sqldb.QueryFunc, text string, args []any, row func(first, second string, n usage.Totals)) error {
	rows, err := query(text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var first, second string
		var n usage.Totals
		if err := rows.Scan(&first, &second, &n.Runs, &n.Tokens, &n.ToolCalls, &n.CostNano); err != nil {
			return err
		}
		row(first, second, n)
	}
	return errors.Join(rows.Err(), rows.Close())
}

func useArgs(tenant, period string, u quota.Use) []any {
	return []any{
		tenant, period, u.AgentID, u.Model, u.Source, u.KeyID,
		u.Runs, u.ModelCalls, u.InputTokens, u.OutputTokens, u.ThinkingTokens, u.ToolCalls, u.CostNano,
		u.CachedTokens, u.CacheWriteTokens, u.ToolErrors, u.Completed, u.Failures, u.Cancelled, u.DurationMS,
	}
}

// scanned returns where the counters of a row are read to.
func scanned(u *quota.Use) []any {
	return []any{
		&u.Runs, &u.ModelCalls, &u.InputTokens, &u.OutputTokens, &u.ThinkingTokens, &u.ToolCalls, &u.CostNano,
		&u.CachedTokens, &u.CacheWriteTokens, &u.ToolErrors, &u.Completed, &u.Failures, &u.Cancelled, &u.DurationMS,
	}
}

// IncrementRequestsTx implements usage.Store.
func (s *Store) IncrementRequestsTx(tx txn.Tx, tenant string, requests map[string]int64) error {
	if len(requests) == 0 {
		return nil
	}
	var args []any
	for _, period := range slices.Sorted(maps.Keys(requests)) {
		args = append(args, useArgs(tenant, period, quota.Use{Runs: requests[period]})...)
	}
	_, err := sqldb.From(tx).Exec(insertCounters+strings.Repeat(`, `+oneCounter, len(requests)-1)+addToCounters, args...)
	return err
}

// ListTotals implements usage.Store.
func (s *Store) ListTotals(ctx context.Context, tenant string, periods ...string) ([]usage.Totals, error) {
	all := make([]usage.Totals, len(periods))
	add := func(period string, n usage.Totals) {
		if i := slices.Index(periods, period); i >= 0 {
			all[i] = all[i].Plus(n)
		}
	}
	in, args := sqldb.In(periods, tenant, tenant)
	err := scanTotals(s.db.Reader(ctx), listTotals+in, args, func(period, day string, n usage.Totals) {
		if period != "" {
			add(period, n)
			return
		}
		add(day, n)
		add(day[:len("2026-09")], n)
	})
	return all, err
}

// GetSpent implements usage.Store.
func (s *Store) GetSpent(ctx context.Context, tx txn.Tx, tenant, from, to string) (nano int64, err error) {
	err = s.rowOr(ctx, tx, spent, tenant, from, to, tenant, from, to).Scan(&nano)
	return nano, err
}

// ListRows implements usage.Store.
func (s *Store) ListRows(ctx context.Context, tenant string, q usage.Query) ([]usage.Row, error) {
	query, by := `SELECT '', model, source, key_id, `, ` GROUP BY model, source, key_id`
	if q.ByDay {
		query, by = `SELECT period, '', '', '', `, ` GROUP BY period`
	}
	ofAgent := ` AND agent_id <> ''`
	args := []any{tenant, q.From, q.To}
	if q.AgentID != "" {
		ofAgent = ` AND agent_id = ?`
		args = append(args, q.AgentID)
	}
	const columns = ` AS period, model, source, key_id, ` + counters + ` FROM usage_`
	query += summedCounters + ` FROM (SELECT period` + columns + `counters WHERE tenant_id = ? AND period >= ? AND period <= ?` + ofAgent +
		` UNION ALL SELECT day` + columns + `entries WHERE tenant_id = ? AND day >= ? AND day <= ?` + ofAgent + `) AS parts`
	rows, err := s.db.Query(ctx, query+by, append(args, args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []usage.Row
	for rows.Next() {
		var r usage.Row
		if err := rows.Scan(append([]any{&r.Day, &r.Model, &r.Source, &r.KeyID}, scanned(&r.Use)...)...); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// GetStoredBytes implements usage.Store.
func (s *Store) GetStoredBytes(ctx context.Context, tenant string) (n int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM blobs WHERE tenant_id = ? AND refs > 0`, tenant).Scan(&n)
	return n, err
}

// LockTx implements usage.Store.
func (s *Store) LockTx(tx txn.Tx, tenant string, r quota.Resource) error {
	_, err := sqldb.From(tx).Exec(`INSERT INTO usage_locks (tenant_id, resource) VALUES (?, ?)
		ON CONFLICT (tenant_id, resource) DO UPDATE SET resource = excluded.resource`, tenant, string(r))
	return err
}

// counted selects the rows of a tenant that count for a quota.
type counted struct {
	from string
	args func(tenant string, now time.Time) []any
}

// documentsOf counts the documents of a kind.
func documentsOf(kind string) counted {
	return counted{`documents WHERE kind = ? AND tenant_id = ?`, func(tenant string, _ time.Time) []any { return []any{kind, tenant} }}
}

// countedResources are the resources with a quota on how many there are.
var countedResources = map[quota.Resource]counted{
	quota.Agents:         documentsOf("agent"),
	quota.Teams:          documentsOf("team"),
	quota.KnowledgeBases: documentsOf("knowledge_base"),
	quota.Workspaces: {
		`workspaces WHERE tenant_id = ? AND owner_type = 'standalone'`,
		func(tenant string, _ time.Time) []any { return []any{tenant} },
	},
	quota.Webhooks: {
		`webhooks WHERE tenant_id = ? AND deleted_at = 0`,
		func(tenant string, _ time.Time) []any { return []any{tenant} },
	},
	quota.TeamRuns: {
		`team_runs WHERE tenant_id = ? AND completed_at = 0`,
		func(tenant string, _ time.Time) []any { return []any{tenant} },
	},
	quota.ActiveSessions: {
		`sessions WHERE tenant_id = ? AND status = 'active' AND (expires_at = 0 OR expires_at > ?)`,
		func(tenant string, now time.Time) []any { return []any{tenant, sqldb.Micros(now)} },
	},
}

// CountHeld implements usage.Store.
func (s *Store) CountHeld(
	ctx context.Context, tx txn.Tx, tenant string, r quota.Resource, now time.Time, limit int64,
) (n int64, ok bool, err error) {
	h, ok := countedResources[r]
	if !ok {
		return 0, false, nil
	}
	text := `SELECT COUNT(*) FROM (SELECT 1 FROM ` + h.from + ` LIMIT ?) AS held`
	err = s.rowOr(ctx, tx, text, append(h.args(tenant, now), limit)...).Scan(&n)
	return n, true, err
}

// CreateEventTx implements usage.Store.
func (s *Store) CreateEventTx(tx txn.Tx, e usage.Event) (bool, error) {
	n, err := sqldb.From(tx).Exec(insertEvent,
		e.TenantID, e.ID, e.Type, string(e.Resource), e.Period, e.Used, e.Limit, sqldb.Micros(e.ResetsAt), sqldb.Micros(e.CreatedAt))
	return n == 1, err
}

// GetEvent implements usage.Store.
func (s *Store) GetEvent(ctx context.Context, tenant, id string) (usage.Event, error) {
	e := usage.Event{TenantID: tenant, ID: id}
	var resets, created int64
	err := s.db.QueryRow(ctx, selectEvent, tenant, id).
		Scan(&e.Type, &e.Resource, &e.Period, &e.Used, &e.Limit, &resets, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return e, fault.NewNotFound("event")
	}
	e.ResetsAt, e.CreatedAt = sqldb.Time(resets), sqldb.Time(created)
	return e, err
}

// PutBudgetTx implements usage.Store.
func (s *Store) PutBudgetTx(tx txn.Tx, tenant string, b usage.Budget) error {
	_, err := sqldb.From(tx).Exec(putBudget,
		tenant, b.LimitNano, b.Soft, b.Hard, string(b.Period), sqldb.Micros(b.UpdatedAt))
	return err
}

// UpdateOverageTx implements usage.Store.
func (s *Store) UpdateOverageTx(tx txn.Tx, tenant string, on bool) error {
	_, err := sqldb.From(tx).Exec(`UPDATE usage_budgets SET overage = ? WHERE tenant_id = ?`, on, tenant)
	return err
}

// DeleteBudgetTx implements usage.Store.
func (s *Store) DeleteBudgetTx(tx txn.Tx, tenant string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM usage_budgets WHERE tenant_id = ?`, tenant)
	return err
}

// ListAdmins returns the ids of a tenant's active admins and owners.
func (s *Store) ListAdmins(ctx context.Context, tenant string) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT user_id FROM users
		WHERE tenant_id = ? AND role IN ('admin', 'owner') AND status = 'active' ORDER BY user_id`, tenant)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}
