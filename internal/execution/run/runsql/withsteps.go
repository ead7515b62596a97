package runsql

import (
	"context"
	"slices"

	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

// WithSteps returns runs with their steps, in the order of their ids. A run
// that does not exist is left empty.
func WithSteps(ctx context.Context, db *sqldb.DB, tenant string, ids []string) ([]run.Journal, error) {
	all := make([]run.Journal, len(ids))
	position := make(map[string]int, len(ids))
	for i, id := range ids {
		position[id] = i
	}
	for part := range slices.Chunk(ids, sqldb.MaxIn) {
		in, args := sqldb.In(part, tenant)
		runs, err := sqldb.Collect(db.Reader(ctx), `SELECT `+runColumns+` FROM runs WHERE tenant_id = ? AND run_id`+in, args,
			func(row sqldb.Row) (*run.Record, error) { return scanRun(tenant, row) })
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			all[position[r.RunID]].Run = *r
		}
		steps, err := sqldb.Collect(db.Reader(ctx), `SELECT run_id, `+stepColumns+` FROM run_steps
			WHERE tenant_id = ? AND run_id`+in+` ORDER BY run_id, seq`, args, func(row sqldb.Row) (run.Step, error) {
			var id string
			st, err := scanStep(prefixed{row, &id})
			st.TenantID, st.RunID = tenant, id
			return st, err
		})
		if err != nil {
			return nil, err
		}
		for _, st := range steps {
			r := &all[position[st.RunID]]
			r.Steps = append(r.Steps, st)
		}
	}
	return all, nil
}

// prefixed is a row with one more column in front.
type prefixed struct {
	sqldb.Row
	first any
}

// Scan implements sqldb.Row.
func (p prefixed) Scan(dest ...any) error { return p.Row.Scan(append([]any{p.first}, dest...)...) }
