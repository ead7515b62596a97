// Package usagesql keeps counters, budgets and limits of usage on SQL.
package usagesql

import (
	"context"
	"database/sql"
	"errors"
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

// Store keeps what tenants use; it implements usage.Store.
type Store struct{ db *sqldb.DB }

var _ usage.Store = (*Store)(nil)

// New uses the tables of migration 16.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	selectTerms = `SELECT t.plan, COALESCE(b.limit_nano, 0), COALESCE(b.soft_threshold, 0), COALESCE(b.hard_threshold, 0),
		COALESCE(b.period, ''), COALESCE(b.updated_at, 0)
		FROM tenants t LEFT JOIN usage_budgets b ON b.tenant_id = t.tenant_id WHERE t.tenant_id = ?`

	insertUse = `INSERT INTO usage_counters (tenant_id, period, agent_id, model, source, key_id,
		runs, model_calls, input_tokens, output_tokens, thinking_tokens, tool_calls, cost_nano) VALUES `
	oneUse = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	addUse = ` ON CONFLICT (tenant_id, period, agent_id, model, source, key_id) DO UPDATE SET
		runs = usage_counters.runs + excluded.runs, model_calls = usage_counters.model_calls + excluded.model_calls,
		input_tokens = usage_counters.input_tokens + excluded.input_tokens, output_tokens = usage_counters.output_tokens + excluded.output_tokens,
		thinking_tokens = usage_counters.thinking_tokens + excluded.thinking_tokens,
		tool_calls = usage_counters.tool_calls + excluded.tool_calls, cost_nano = usage_counters.cost_nano + excluded.cost_nano`
	totals = `period, runs, input_tokens + output_tokens, tool_calls, cost_nano`
	summed = `CAST(SUM(runs) AS BIGINT), CAST(SUM(model_calls) AS BIGINT), CAST(SUM(input_tokens) AS BIGINT), CAST(SUM(output_tokens) AS BIGINT),
		CAST(SUM(thinking_tokens) AS BIGINT), CAST(SUM(tool_calls) AS BIGINT), CAST(SUM(cost_nano) AS BIGINT)`
)

// rowOr reads one row in tx, or outside where there is none.
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
	err := s.rowOr(ctx, tx, selectTerms, tenant).Scan(&t.Plan, &b.LimitNano, &b.Soft, &b.Hard, &b.Period, &updated)
	if errors.Is(err, sql.ErrNoRows) {
		return usage.Terms{}, nil
	}
	if b.UpdatedAt = sqldb.Time(updated); b.LimitNano > 0 {
		t.Budget = &b
	}
	return t, err
}

// IncrementTx implements usage.Store.
func (s *Store) IncrementTx(tx txn.Tx, tenant, month, day string, uses []quota.Use, want bool) (m, d usage.Totals, err error) {
	var total quota.Use
	for _, u := range uses {
		total = usage.Sum(total, u)
	}
	args := make([]any, 0, 13*(2+len(uses)))
	add := func(period string, u quota.Use) { args = append(args, useArgs(tenant, period, u)...) }
	total.AgentID, total.Model, total.Source, total.KeyID = "", "", "", ""
	add(month, total)
	add(day, total)
	for _, u := range uses {
		add(day, u)
	}
	query := insertUse + oneUse + strings.Repeat(`, `+oneUse, 1+len(uses)) + addUse
	t := sqldb.From(tx)
	if !want {
		_, err = t.Exec(query, args...)
		return m, d, err
	}
	rows, err := t.Query(query+` RETURNING agent_id, `+totals, args...)
	if err != nil {
		return m, d, err
	}
	defer rows.Close()
	for rows.Next() {
		var agent, period string
		var n usage.Totals
		if err := rows.Scan(&agent, &period, &n.Runs, &n.Tokens, &n.ToolCalls, &n.CostNano); err != nil {
			return m, d, err
		}
		switch {
		case agent != "":
		case period == month:
			m = n
		default:
			d = n
		}
	}
	return m, d, errors.Join(rows.Err(), rows.Close())
}

func useArgs(tenant, period string, u quota.Use) []any {
	return []any{
		tenant, period, u.AgentID, u.Model, u.Source, u.KeyID,
		u.Runs, u.ModelCalls, u.InputTokens, u.OutputTokens, u.ThinkingTokens, u.ToolCalls, u.CostNano,
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
	_, err := sqldb.From(tx).Exec(insertUse+oneUse+strings.Repeat(`, `+oneUse, len(requests)-1)+addUse, args...)
	return err
}

// ListTotals implements usage.Store.
func (s *Store) ListTotals(ctx context.Context, tenant string, periods ...string) ([]usage.Totals, error) {
	args := []any{tenant}
	at := map[string]int{}
	for i, p := range periods {
		args = append(args, p)
		at[p] = i
	}
	rows, err := s.db.Query(ctx, `SELECT `+totals+` FROM usage_counters WHERE tenant_id = ? AND agent_id = '' AND model = '' AND source = ''
		AND period IN (?`+strings.Repeat(`, ?`, len(periods)-1)+`)`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := make([]usage.Totals, len(periods))
	for rows.Next() {
		var period string
		var n usage.Totals
		if err := rows.Scan(&period, &n.Runs, &n.Tokens, &n.ToolCalls, &n.CostNano); err != nil {
			return nil, err
		}
		all[at[period]] = n
	}
	return all, rows.Err()
}

// GetSpent implements usage.Store.
func (s *Store) GetSpent(ctx context.Context, tx txn.Tx, tenant, from, to string) (nano int64, err error) {
	// A month sorts before its days, and is as long as no day.
	err = s.rowOr(ctx, tx, `SELECT CAST(COALESCE(SUM(cost_nano), 0) AS BIGINT) FROM usage_counters
		WHERE tenant_id = ? AND agent_id = '' AND model = '' AND source = '' AND period >= ? AND period <= ? AND LENGTH(period) = 10`, tenant, from, to).Scan(&nano)
	return nano, err
}

// ListRows implements usage.Store.
func (s *Store) ListRows(ctx context.Context, tenant string, q usage.Query) ([]usage.Row, error) {
	query, by := `SELECT '', model, source, key_id, `, ` GROUP BY model, source, key_id`
	if q.ByDay {
		query, by = `SELECT period, '', '', '', `, ` GROUP BY period`
	}
	query += summed + ` FROM usage_counters WHERE tenant_id = ? AND period >= ? AND period <= ?`
	args := []any{tenant, q.From, q.To}
	if q.AgentID != "" {
		query += ` AND agent_id = ?`
		args = append(args, q.AgentID)
	} else {
		query += ` AND agent_id <> ''`
	}
	rows, err := s.db.Query(ctx, query+by, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []usage.Row
	for rows.Next() {
		var r usage.Row
		err := rows.Scan(&r.Day, &r.Model, &r.Source, &r.KeyID, &r.Runs, &r.ModelCalls, &r.InputTokens, &r.OutputTokens, &r.ThinkingTokens, &r.ToolCalls, &r.CostNano)
		if err != nil {
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

// held is what there is of a thing: the rows of a tenant that count.
type held struct {
	from string
	args func(tenant string, now time.Time) []any
}

// documentsOf counts the documents of a kind.
func documentsOf(kind string) held {
	return held{`documents WHERE kind = ? AND tenant_id = ?`, func(tenant string, _ time.Time) []any { return []any{kind, tenant} }}
}

// things are those that can be counted: a line for each.
var things = map[quota.Resource]held{
	quota.Agents:         documentsOf("agent"),
	quota.KnowledgeBases: documentsOf("knowledge_base"),
	quota.Workspaces: {
		`workspaces WHERE tenant_id = ? AND owner_type = 'standalone'`,
		func(tenant string, _ time.Time) []any { return []any{tenant} },
	},
	quota.Webhooks: {
		`webhooks WHERE tenant_id = ? AND deleted_at = 0`,
		func(tenant string, _ time.Time) []any { return []any{tenant} },
	},
	quota.ActiveSessions: {
		`sessions WHERE tenant_id = ? AND status = 'active' AND (expires_at = 0 OR expires_at > ?)`,
		func(tenant string, now time.Time) []any { return []any{tenant, sqldb.Micros(now)} },
	},
}

// CountHeld implements usage.Store.
func (s *Store) CountHeld(ctx context.Context, tx txn.Tx, tenant string, r quota.Resource, now time.Time, most int64) (n int64, ok bool, err error) {
	h, ok := things[r]
	if !ok {
		return 0, false, nil
	}
	err = s.rowOr(ctx, tx, `SELECT COUNT(*) FROM (SELECT 1 FROM `+h.from+` LIMIT ?) AS held`, append(h.args(tenant, now), most)...).Scan(&n)
	return n, true, err
}

// CreateEventTx implements usage.Store.
func (s *Store) CreateEventTx(tx txn.Tx, e usage.Event) (bool, error) {
	n, err := sqldb.From(tx).Exec(`INSERT INTO usage_events (tenant_id, event_id, type, resource, period, used, cap, resets_at, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		e.TenantID, e.ID, e.Type, string(e.Resource), e.Period, e.Used, e.Limit, sqldb.Micros(e.ResetsAt), sqldb.Micros(e.CreatedAt))
	return n == 1, err
}

// GetEvent implements usage.Store.
func (s *Store) GetEvent(ctx context.Context, tenant, id string) (usage.Event, error) {
	e := usage.Event{TenantID: tenant, ID: id}
	var resets, created int64
	err := s.db.QueryRow(ctx, `SELECT type, resource, period, used, cap, resets_at, created_at FROM usage_events WHERE tenant_id = ? AND event_id = ?`, tenant, id).
		Scan(&e.Type, &e.Resource, &e.Period, &e.Used, &e.Limit, &resets, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return e, fault.NoSuch("event")
	}
	e.ResetsAt, e.CreatedAt = sqldb.Time(resets), sqldb.Time(created)
	return e, err
}

// PutBudgetTx implements usage.Store.
func (s *Store) PutBudgetTx(tx txn.Tx, tenant string, b usage.Budget) error {
	_, err := sqldb.From(tx).Exec(`INSERT INTO usage_budgets (tenant_id, limit_nano, soft_threshold, hard_threshold, period, updated_at)
		VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tenant_id) DO UPDATE SET limit_nano = excluded.limit_nano,
		soft_threshold = excluded.soft_threshold, hard_threshold = excluded.hard_threshold, period = excluded.period, updated_at = excluded.updated_at`,
		tenant, b.LimitNano, b.Soft, b.Hard, string(b.Period), sqldb.Micros(b.UpdatedAt))
	return err
}

// DeleteBudgetTx implements usage.Store.
func (s *Store) DeleteBudgetTx(tx txn.Tx, tenant string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM usage_budgets WHERE tenant_id = ?`, tenant)
	return err
}

// ListAdmins gives the ids of the people who look after a tenant.
func (s *Store) ListAdmins(ctx context.Context, tenant string) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT user_id FROM users WHERE tenant_id = ? AND role IN ('admin', 'owner') AND status = 'active' ORDER BY user_id`, tenant)
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
