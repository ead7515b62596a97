package usagesql

import (
	"context"
	"errors"

	"agentd/internal/kernel/quota"
	"agentd/internal/store/sqldb"
)

// ListAgentUses implements usage.Store. Days and agents are named, so that the index
// leads to the rows of each agent on each day, however many other agents there are.
func (s *Store) ListAgentUses(ctx context.Context, tenant string, days, agents []string) (map[string]quota.Use, error) {
	out := make(map[string]quota.Use, len(agents))
	if len(days) == 0 || len(agents) == 0 {
		return out, nil
	}
	inDays, args := sqldb.In(days, tenant)
	inAgents, args := sqldb.In(agents, args...)
	part := func(table, day string) string {
		return `SELECT agent_id, ` + counters + ` FROM ` + table + ` WHERE tenant_id = ? AND ` + day + inDays + ` AND agent_id` + inAgents
	}
	rows, err := s.db.Query(ctx, `SELECT agent_id, `+summedCounters+` FROM (`+
		part(`usage_counters`, `period`)+` UNION ALL `+part(`usage_entries`, `day`)+`) AS parts GROUP BY agent_id`, append(args, args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var u quota.Use
		if err := rows.Scan(append([]any{&id}, scanned(&u)...)...); err != nil {
			return nil, err
		}
		out[id] = u
	}
	return out, errors.Join(rows.Err(), rows.Close())
}
