package runsql

import (
	"context"
	"database/sql"
	"math"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

// GetStep implements run.Store.
func (s *Store) GetStep(ctx context.Context, tenant, id, stepID string) (*run.Step, error) {
	all, err := sqldb.Collect(s.db.Reader(ctx), `SELECT `+stepColumns+` FROM run_steps
		WHERE tenant_id = ? AND run_id = ? AND step_id = ?`, []any{tenant, id, stepID}, scanStep)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	all[0].TenantID, all[0].RunID = tenant, id
	return &all[0], nil
}

// ListChildren implements run.Store.
func (s *Store) ListChildren(ctx context.Context, tenant, id string, limit int) ([]run.Child, error) {
	args := []any{tenant, initiatorText(&run.Initiator{Type: run.ByRun, ID: id}), limit}
	return sqldb.Collect(s.db.Reader(ctx), `SELECT run_id, COALESCE(parent_step_id, '') FROM runs
		WHERE tenant_id = ? AND started_by = ? ORDER BY created_at, run_id LIMIT ?`, args,
		func(row sqldb.Row) (c run.Child, err error) { return c, row.Scan(&c.RunID, &c.StepID) })
}

// CountUnfinishedTx implements run.Store.
func (s *Store) CountUnfinishedTx(tx txn.Tx, tenant string, ids []string) (n int, err error) {
	for len(ids) > 0 {
		part := ids[:min(len(ids), sqldb.MaxIn)]
		ids = ids[len(part):]
		in, args := sqldb.In(part, tenant)
		var some int
		err := sqldb.From(tx).QueryRow(`SELECT COUNT(*) FROM runs WHERE tenant_id = ? AND run_id`+in+` AND status`+notEnded,
			append(args, endedStatuses...)...).Scan(&some)
		if err != nil {
			return 0, err
		}
		n += some
	}
	return n, nil
}

// ListUnfinishedChildrenTx implements run.Store.
func (s *Store) ListUnfinishedChildrenTx(tx txn.Tx, tenant, parent string, limit int) ([]string, error) {
	args := append([]any{tenant, initiatorText(&run.Initiator{Type: run.ByRun, ID: parent})}, endedStatuses...)
	rows, err := sqldb.From(tx).Query(`SELECT run_id FROM runs WHERE tenant_id = ? AND started_by = ?
		AND parent_step_id IS NOT NULL AND status`+notEnded+` ORDER BY created_at, run_id LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// outlineColumns are those of a run without its contents.
const outlineColumns = `run_id, agent_id, status, metrics, created_at, started_at, completed_at, pending,
	started_by, parent_step_id, root_run_id`

// ListFamily implements run.Store.
func (s *Store) ListFamily(ctx context.Context, tenant, root string, limit int) ([]run.Record, error) {
	return sqldb.Collect(s.db.Reader(ctx), `SELECT `+outlineColumns+` FROM runs
		WHERE tenant_id = ? AND root_run_id = ? ORDER BY created_at, run_id LIMIT ?`, []any{tenant, root, limit},
		func(row sqldb.Row) (run.Record, error) {
			r := run.Record{}
			r.TenantID = tenant
			var status, metrics, pending, by string
			var created, started, completed int64
			err := row.Scan(&r.RunID, &r.AgentID, &status, &metrics, &created, &started, &completed, &pending, &by, &r.ParentStepID, &r.RootRunID)
			if err != nil {
				return r, err
			}
			r.Status = run.Status(status)
			r.CreatedAt, r.StartedAt, r.CompletedAt = sqldb.Time(created), sqldb.OptionalTime(started), sqldb.OptionalTime(completed)
			setInitiator(&r.Run, by)
			var dec sqldb.Decoder
			dec.JSON(metrics, &r.Metrics)
			dec.JSON(pending, &r.Pending)
			return r, dec.Err()
		})
}

// ListOutlines implements run.Store.
func (s *Store) ListOutlines(ctx context.Context, tenant string, ids []string, limit int) ([]run.Outline, error) {
	// PostgreSQL reads no JSON with the escape of a zero character.
	end := `substr(output, -300)`
	if s.db.Postgres() {
		end = `right(output, 300)`
	}
	all := []run.Outline{}
	for len(ids) > 0 && len(all) < limit {
		part := ids[:min(len(ids), sqldb.MaxIn)]
		ids = ids[len(part):]
		in, args := sqldb.In(part, tenant)
		some, err := sqldb.Collect(s.db.Reader(ctx), `SELECT run_id, step_id, seq, type, status, started_at, completed_at,
			error, metrics, attempts, CASE type WHEN 'llm' THEN `+end+` WHEN 'tool' THEN substr(input, 1, 500) END
			FROM run_steps WHERE tenant_id = ? AND run_id`+in+` AND made_by IS NULL ORDER BY run_id, seq LIMIT ?`,
			append(args, min(limit-len(all), math.MaxInt32)), scanOutline)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func scanOutline(row sqldb.Row) (o run.Outline, err error) {
	var kind, status string
	var metrics, attempts, name sql.NullString
	var started, completed int64
	if err := row.Scan(&o.RunID, &o.StepID, &o.Seq, &kind, &status, &started, &completed, &o.Error, &metrics, &attempts, &name); err != nil {
		return o, err
	}
	o.Type, o.Status = run.StepType(kind), run.StepStatus(status)
	o.Name = run.StepName(o.Type, name.String)
	o.StartedAt, o.CompletedAt, o.Metrics = sqldb.Time(started), sqldb.OptionalTime(completed), unpacked(metrics)
	var dec sqldb.Decoder
	if attempts.Valid {
		dec.JSON(attempts.String, &o.Attempts)
	}
	return o, dec.Err()
}
