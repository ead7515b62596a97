package runsql

import (
	"context"
	"database/sql"
	"math"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/store/sqldb"
)

const (
	storedColumns = `seq, step_id, type, status, started_at, completed_at, duration_us, input, output, error, metrics, tool_calls, attempts,
		opaque`
	// inheritedColumns are copied from one run to another.
	inheritedColumns = storedColumns + `, call_of`
	// stepColumns are of run_steps. The last is the output of the model's step
	// that requested a call, from which the call's step takes its arguments.
	stepColumns = storedColumns + `, made_by, CASE WHEN call_of > 0 THEN (SELECT asking.output FROM run_steps asking
		WHERE asking.tenant_id = run_steps.tenant_id AND asking.run_id = run_steps.run_id AND asking.seq = run_steps.call_of) END`
)

var insertStep = sqldb.Insert(`run_steps`, `tenant_id, run_id, `+storedColumns+`, call_of`)

// AppendStep implements run.Store.
func (s *Store) AppendStep(st *run.Step) txn.Op {
	var enc sqldb.Encoder
	input := sqldb.NullJSON(st.Input)
	if st.CallOf > 0 {
		input = withoutArguments(&enc, st.Input)
	}
	return enc.Queued(sqldb.Expect{}, insertStep,
		st.TenantID, st.RunID, st.Seq, st.StepID, string(st.Type), string(st.Status),
		sqldb.Micros(st.StartedAt), sqldb.OptionalMicros(st.CompletedAt), int64(math.Round(st.DurationMS*1000)),
		input, sqldb.NullJSON(st.Output), st.Error, packed(st.Metrics), enc.JSON(st.ToolCalls),
		attemptsJSON(&enc, st.Attempts), opaqueJSON(&enc, st.Opaque), st.CallOf)
}

// attemptsJSON is NULL for the many steps whose first attempt succeeded.
func attemptsJSON(enc *sqldb.Encoder, attempts []run.StepAttempt) any {
	if len(attempts) == 0 {
		return nil
	}
	return enc.JSON(attempts)
}

// opaqueJSON is NULL for the many steps whose endpoint wants nothing back.
func opaqueJSON(enc *sqldb.Encoder, o *run.StepOpaque) any {
	if o == nil {
		return nil
	}
	return enc.JSON(o)
}

// ListSteps implements run.Store.
func (s *Store) ListSteps(ctx context.Context, tenant, id string, after int64, limit int) ([]run.Step, error) {
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

func scanStep(rows sqldb.Row) (run.Step, error) {
	var st run.Step
	var kind, status, calls string
	var input, output, metrics, attempts, opaque, asking sql.NullString
	var started, completed, took int64
	err := rows.Scan(&st.Seq, &st.StepID, &kind, &status, &started, &completed, &took, &input, &output, &st.Error, &metrics,
		&calls, &attempts, &opaque, &st.InheritedFrom, &asking)
	if err != nil {
		return st, err
	}
	st.StepIndex, st.Type, st.Status = st.Seq-1, run.StepType(kind), run.StepStatus(status)
	st.StartedAt, st.CompletedAt, st.DurationMS = sqldb.Time(started), sqldb.OptionalTime(completed), float64(took)/1000
	st.Input, st.Output, st.Metrics = nullable(input), nullable(output), unpacked(metrics)
	var dec sqldb.Decoder
	dec.JSON(calls, &st.ToolCalls)
	if attempts.Valid {
		dec.JSON(attempts.String, &st.Attempts)
	}
	if opaque.Valid {
		dec.JSON(opaque.String, &st.Opaque)
	}
	if asking.Valid {
		st.Input = restoreArguments(&dec, input.String, asking.String)
	}
	return st, dec.Err()
}

func nullable(s sql.NullString) schema.Nullable {
	if !s.Valid {
		return nil
	}
	return schema.Nullable(s.String)
}

// modelCalls has the tool calls of the output of a model's step.
type modelCalls struct {
	ToolCalls []model.ToolCall `json:"tool_calls"`
}

func (a modelCalls) arguments(id string) string {
	i := slices.IndexFunc(a.ToolCalls, func(c model.ToolCall) bool { return c.ID == id })
	if i < 0 {
		return ""
	}
	return a.ToolCalls[i].Arguments
}

func withoutArguments(enc *sqldb.Encoder, input schema.Nullable) string {
	var in run.ToolInput
	enc.Fail(json.Unmarshal(input, &in))
	in.Arguments = ""
	return enc.JSON(in)
}

func restoreArguments(dec *sqldb.Decoder, input, output string) schema.Nullable {
	var in run.ToolInput
	var from modelCalls
	dec.JSON(input, &in)
	dec.JSON(output, &from)
	in.Arguments = from.arguments(in.ToolCallID)
	b, err := json.Marshal(in)
	dec.Fail(err)
	return b
}

// packed shortens the metrics of a step, half of which are names: to an array
// of the values in the order that unpacked has, without those at its end that are
// zero. Metrics with any other member stay the
// object that they are.
func packed(metrics schema.Nullable) any {
	var m run.StepMetrics
	if len(metrics) == 0 || json.Unmarshal(metrics, &m) != nil {
		return sqldb.NullJSON(metrics)
	}
	if same, err := json.Marshal(m); err != nil || string(same) != string(metrics) {
		return string(metrics)
	}
	numbers := []int64{m.InputTokens, m.OutputTokens, m.ThinkingTokens, m.LLMCalls, m.ToolCallsCount}
	values := make([]any, 0, 9)
	for _, n := range numbers {
		values = append(values, n)
	}
	cached := m.CachedTokens != 0 || m.CacheWriteTokens != 0
	if m.CostUSD != nil || m.Estimated || cached {
		values = append(values, m.CostUSD)
	}
	if m.Estimated || cached {
		values = append(values, m.Estimated)
	}
	if cached {
		values = append(values, m.CachedTokens, m.CacheWriteTokens)
	}
	b, err := json.Marshal(values)
	if err != nil {
		return string(metrics)
	}
	return string(b)
}

// unpacked is the inverse of packed.
func unpacked(stored sql.NullString) schema.Nullable {
	if !stored.Valid || stored.String == "" || stored.String[0] != '[' {
		return nullable(stored)
	}
	var m run.StepMetrics
	into := []any{&m.InputTokens, &m.OutputTokens, &m.ThinkingTokens, &m.LLMCalls, &m.ToolCallsCount, &m.CostUSD, &m.Estimated,
		&m.CachedTokens, &m.CacheWriteTokens}
	var values []jsontext.Value
	if json.Unmarshal([]byte(stored.String), &values) != nil || len(values) > len(into) {
		return nullable(stored)
	}
	for i, v := range values {
		if json.Unmarshal(v, into[i]) != nil {
			return nullable(stored)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nullable(stored)
	}
	return b
}
