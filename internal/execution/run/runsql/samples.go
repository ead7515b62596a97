package runsql

import (
	"context"
	"strings"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

// Outcomes reads how runs did, for those who measure them.
type Outcomes struct{ db *sqldb.DB }

// NewOutcomes uses the tables of runs.
func NewOutcomes(db *sqldb.DB) *Outcomes { return &Outcomes{db} }

// ListStatuses returns the states of those of the runs that exist, by id.
func (s *Outcomes) ListStatuses(ctx context.Context, tenant string, ids []string) (map[string]run.Status, error) {
	states := make(map[string]run.Status, len(ids))
	for len(ids) > 0 {
		part := ids[:min(len(ids), sqldb.MaxIn)]
		ids = ids[len(part):]
		in, args := sqldb.In(part, tenant)
		_, err := sqldb.Collect(s.db.Reader(ctx), `SELECT run_id, status FROM runs WHERE tenant_id = ? AND run_id`+in, args,
			func(row sqldb.Row) (none struct{}, err error) {
				var id string
				var status run.Status
				if err = row.Scan(&id, &status); err == nil {
					states[id] = status
				}
				return none, err
			})
		if err != nil {
			return nil, err
		}
	}
	return states, nil
}

// CountWorkingTx returns how many of the runs are queued or running: they exist, have not
// ended, and wait for no person. It locks none of them.
func (s *Outcomes) CountWorkingTx(tx txn.Tx, tenant string, ids []string) (n int, err error) {
	for len(ids) > 0 {
		part := ids[:min(len(ids), sqldb.MaxIn)]
		ids = ids[len(part):]
		in, args := sqldb.In(part, tenant)
		var some int
		err := sqldb.From(tx).QueryRow(`SELECT COUNT(*) FROM runs WHERE tenant_id = ? AND run_id`+in+` AND status IN (?, ?)`,
			append(args, string(run.Queued), string(run.Running))...).Scan(&some)
		if err != nil {
			return 0, err
		}
		n += some
	}
	return n, nil
}

// Ended is what comparisons of versions need of a run.
type Ended struct {
	Version int64
	Status  run.Status
	Metrics run.Metrics
}

// tests are the beginnings of started_by of runs that test an agent.
var tests = []string{string(run.ByEvaluation) + ":", string(run.ByImprovement) + ":"}

// ListEnded returns those of the newest runs of an agent, up to limit, that were created
// at a time or later and have ended, without those that test the agent.
func (s *Outcomes) ListEnded(ctx context.Context, tenant, agent string, since time.Time, limit int) ([]Ended, error) {
	type row struct {
		Ended
		startedBy string
	}
	all, err := sqldb.Collect(s.db.Reader(ctx), `SELECT agent_version, status, metrics, started_by FROM runs
		WHERE tenant_id = ? AND agent_id = ? AND created_at >= ? ORDER BY created_at DESC, run_id DESC LIMIT ?`,
		[]any{tenant, agent, sqldb.Micros(since), limit}, func(r sqldb.Row) (out row, err error) {
			var metrics string
			if err := r.Scan(&out.Version, &out.Status, &metrics, &out.startedBy); err != nil {
				return out, err
			}
			var dec sqldb.Decoder
			dec.JSON(metrics, &out.Metrics)
			return out, dec.Err()
		})
	if err != nil {
		return nil, err
	}
	var ended []Ended
	for i := range all {
		test := false
		for _, beginning := range tests {
			test = test || strings.HasPrefix(all[i].startedBy, beginning)
		}
		if all[i].Status.Final() && !test {
			ended = append(ended, all[i].Ended)
		}
	}
	return ended, nil
}
