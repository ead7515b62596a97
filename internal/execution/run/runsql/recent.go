package runsql

import (
	"context"
	"slices"
	"strings"
	"time"

	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

// failures are the states of runs that did not end as they should.
var failures, failedStatuses = func() (string, []any) {
	var all []any
	for _, status := range run.Statuses {
		if status.Failure() {
			all = append(all, string(status))
		}
	}
	return ` IN (?` + strings.Repeat(`, ?`, len(all)-1) + `)`, all
}()

// Activity reads what agents did lately.
type Activity struct{ db *sqldb.DB }

// NewActivity uses the runs of a [Store].
func NewActivity(db *sqldb.DB) *Activity { return &Activity{db} }

// ListRecent returns what is known of the newest runs of agents, by agent; one without
// runs is left out. Those since a time are counted up to limit. It is two statements for
// all agents: the newest run is the end of an index, and each count stops at the limit.
func (s *Activity) ListRecent(
	ctx context.Context, tenant string, agents []string, since time.Time, limit int,
) (map[string]run.Recent, error) {
	if len(agents) == 0 {
		return map[string]run.Recent{}, nil
	}
	these := `WITH a (agent_id) AS (VALUES (?)` + strings.Repeat(`, (?)`, len(agents)-1) + `) SELECT a.agent_id, `
	ids := make([]any, len(agents))
	for i, id := range agents {
		ids[i] = id
	}
	const (
		of      = ` FROM runs r WHERE r.tenant_id = ? AND r.agent_id = a.agent_id`
		counted = `(SELECT COUNT(*) FROM (SELECT 1` + of
	)
	from := sqldb.Micros(since)
	out := make(map[string]run.Recent, len(agents))
	_, err := sqldb.Collect(s.db.Reader(ctx), these+counted+` AND r.created_at >= ? LIMIT ?) AS counted), l.run_id, l.status, l.created_at
		FROM a JOIN runs l ON l.tenant_id = ? AND l.run_id = (SELECT r.run_id`+of+` ORDER BY r.created_at DESC, r.run_id DESC LIMIT 1)`,
		slices.Concat(ids, []any{tenant, from, limit, tenant, tenant}),
		func(row sqldb.Row) (id string, err error) {
			var at int64
			var n run.Recent
			err = row.Scan(&id, &n.Runs, &n.LastID, &n.LastStatus, &at)
			n.LastAt = sqldb.Time(at)
			out[id] = n
			return id, err
		})
	if err != nil {
		return nil, err
	}
	_, err = sqldb.Collect(s.db.Reader(ctx), these+counted+` AND r.status`+failures+` AND r.created_at >= ? LIMIT ?) AS counted) FROM a`,
		slices.Concat(ids, []any{tenant}, failedStatuses, []any{from, limit}),
		func(row sqldb.Row) (id string, err error) {
			var failed int64
			err = row.Scan(&id, &failed)
			if n, ok := out[id]; ok {
				n.Failures = failed
				out[id] = n
			}
			return id, err
		})
	return out, err
}
