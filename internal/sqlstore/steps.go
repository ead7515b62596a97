package sqlstore

import (
	"context"
	"database/sql"
	"math"

	"agentd/internal/run"
	"agentd/internal/schema"
	"agentd/internal/sqldb"
	"agentd/internal/txn"
)

const stepColumns = `seq, step_id, type, status, started_at, completed_at, duration_us, input, output, error, metrics, tool_calls`

const insertStep = `INSERT INTO run_steps (tenant_id, run_id, ` + stepColumns + `)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// AppendStep implements run.Store.
func (s *Runs) AppendStep(st *run.Step) txn.Op {
	var enc encoder
	return enc.op(insertStep,
		st.TenantID, st.RunID, st.Seq, st.StepID, string(st.Type), string(st.Status), sqldb.Micros(st.StartedAt), micros(st.CompletedAt),
		int64(math.Round(st.DurationMS*1000)), nullJSON(st.Input), nullJSON(st.Output), st.Error, nullJSON(st.Metrics), enc.json(st.ToolCalls))
}

// Steps implements run.Store.
func (s *Runs) Steps(ctx context.Context, tenant, id string, after int64, limit int) ([]run.Step, error) {
	if limit <= 0 {
		limit = math.MaxInt32
	}
	rows, err := s.db.Query(ctx, `SELECT `+stepColumns+` FROM run_steps
		WHERE tenant_id = ? AND run_id = ? AND seq > ? ORDER BY seq LIMIT ?`, tenant, id, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []run.Step{}
	for rows.Next() {
		st, err := scanStep(rows)
		if err != nil {
			return nil, err
		}
		st.TenantID, st.RunID = tenant, id
		out = append(out, st)
	}
	return out, rows.Err()
}

func scanStep(rows scanner) (run.Step, error) {
	var st run.Step
	var kind, status, calls string
	var input, output, metrics sql.NullString
	var started, completed, took int64
	err := rows.Scan(&st.Seq, &st.StepID, &kind, &status, &started, &completed, &took, &input, &output, &st.Error, &metrics, &calls)
	if err != nil {
		return st, err
	}
	st.StepIndex, st.Type, st.Status = st.Seq-1, run.StepType(kind), run.StepStatus(status)
	st.StartedAt, st.CompletedAt, st.DurationMS = sqldb.Time(started), when(completed), float64(took)/1000
	st.Input, st.Output, st.Metrics = nullable(input), nullable(output), nullable(metrics)
	var dec decoder
	dec.json(calls, &st.ToolCalls)
	return st, dec.err
}

func nullable(s sql.NullString) schema.Nullable {
	if !s.Valid {
		return nil
	}
	return schema.Nullable(s.String)
}
