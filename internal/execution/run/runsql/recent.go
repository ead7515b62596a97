package runsql

import (
	"context"
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

// ListRecent returns what is known of the newest runs of agents, by agent; one without
// runs is left out. Those since a time are counted up to limit. It is one statement for all agents: each count
// stops at the limit, and the last run is the end of an index.
func (s *Store) ListRecent(
	ctx context.Context, tenant string, agents []string, since time.Time, limit int,
) (map[string]run.Recent, error) {
	out := make(map[string]run.Recent, len(agents))
	if len(agents) == 0 {
		return out, nil
	}
	args := make([]any, 0, len(agents)+len(failedStatuses)+8)
	for _, id := range agents {
		args = append(args, id)
	}
	from := sqldb.Micros(since)
	args = append(args, tenant, from, limit, tenant)
	args = append(append(args, failedStatuses...), from, limit, tenant, tenant)
	const of = ` FROM runs r WHERE r.tenant_id = ? AND r.agent_id = a.agent_id`
	_, err := sqldb.Collect(s.db.Reader(ctx), `WITH a (agent_id) AS (VALUES (?)`+strings.Repeat(`, (?)`, len(agents)-1)+`)
		SELECT a.agent_id, (SELECT COUNT(*) FROM (SELECT 1`+of+` AND r.created_at >= ? LIMIT ?) AS counted),
			(SELECT COUNT(*) FROM (SELECT 1`+of+` AND r.status`+failures+` AND r.created_at >= ? LIMIT ?) AS counted),
			l.run_id, l.status, l.created_at
		FROM a JOIN runs l ON l.tenant_id = ? AND l.run_id = (SELECT r.run_id`+of+` ORDER BY r.created_at DESC, r.run_id DESC LIMIT 1)`,
		args, func(row sqldb.Row) (string, error) {
			var id string
			var at int64
			var n run.Recent
			err := row.Scan(&id, &n.Runs, &n.Failures, &n.LastID, &n.LastStatus, &at)
			n.LastAt = sqldb.Time(at)
			out[id] = n
			return id, err
		})
	return out, err
}
