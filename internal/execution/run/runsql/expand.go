package runsql

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/store/sqldb"
)

// stepTexts holds the contents of the steps that events refer to.
type stepTexts struct {
	tenant, run string
	low, high   int64
	outputs     map[int64]stepOutput
	steps       map[int64]run.Step
}

// stepOutput has the fields of the outputs of model and tool steps that events show.
type stepOutput struct {
	Text     string `json:"text"`
	Thinking string `json:"thinking"`
	Content  string `json:"content"`

	Model        string `json:"model"`
	FinishReason string `json:"finish_reason"`
	modelCalls
}

// need adds a step to the range that load reads; 0 is no step.
func (t *stepTexts) need(step int64) {
	if step == 0 {
		return
	}
	if t.low == 0 || step < t.low {
		t.low = step
	}
	t.high = max(t.high, step)
}

const selectStepTexts = `SELECT seq, type, status, duration_us, metrics, output FROM run_steps
	WHERE tenant_id = ? AND run_id = ? AND seq BETWEEN ? AND ?`

func (t *stepTexts) load(ctx context.Context, db *sqldb.DB) error {
	t.outputs, t.steps = map[int64]stepOutput{}, map[int64]run.Step{}
	if t.high == 0 {
		return nil
	}
	rows, err := db.Query(ctx, selectStepTexts, t.tenant, t.run, t.low, t.high)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var st run.Step
		var took int64
		var metrics, body sql.NullString
		var out stepOutput
		if err := rows.Scan(&st.Seq, &st.Type, &st.Status, &took, &metrics, &body); err != nil {
			return err
		}
		if body.Valid {
			if err := json.Unmarshal([]byte(body.String), &out); err != nil {
				return err
			}
		}
		st.DurationMS, st.Metrics = float64(took)/1000, unpacked(metrics)
		t.outputs[st.Seq], t.steps[st.Seq] = out, st
	}
	return rows.Err()
}

// expand returns the events that an entry stands for, without their sequence
// numbers.
func (t *stepTexts) expand(e *storedEntry, at time.Time) []event.Event {
	if e.Lens == nil {
		return []event.Event{{Name: e.Name, At: at, Data: t.data(e)}}
	}
	text := e.Text
	if e.Step != 0 {
		if text = t.outputs[e.Step].Text; e.Name == "llm.thinking" {
			text = t.outputs[e.Step].Thinking
		}
		t.consume(e)
	}
	events, after := make([]event.Event, len(e.Lens)), 0
	for i, n := range e.Lens {
		n = min(n, len(text))
		after += e.After[i]
		events[i] = event.Event{
			Name: e.Name, At: at.Add(time.Duration(after) * time.Millisecond), Data: withMember(nil, "text", inJSON(text[:n])),
		}
		text = text[n:]
	}
	return events
}

// data returns the data of an entry that stands for one event, completed from
// its step.
func (t *stepTexts) data(e *storedEntry) jsontext.Value {
	switch {
	case e.Step == 0:
		return e.Data
	case e.Name == "step.completed":
		st := t.steps[e.Step]
		return inJSON(run.StepCompletedOf(&st))
	case e.Name == "llm.completed":
		var m run.StepMetrics
		_ = json.Unmarshal(t.steps[e.Step].Metrics, &m) // our own; zeros without them
		out := t.outputs[e.Step]
		return inJSON(run.LLMCompletedOf(e.Step, &run.LLMOutput{Model: out.Model, FinishReason: out.FinishReason}, m))
	case e.Name == "tool.call":
		return withCallArguments(e.Data, t.outputs[e.Step].modelCalls)
	default:
		return withMember(e.Data, "output", inJSON(t.outputs[e.Step].Content))
	}
}

// consume cuts an entry's bytes off its step's text, which thinking and answer
// share among entries that may alternate.
func (t *stepTexts) consume(e *storedEntry) {
	n := 0
	for _, l := range e.Lens {
		n += l
	}
	o := t.outputs[e.Step]
	if e.Name == "llm.thinking" {
		o.Thinking = o.Thinking[min(n, len(o.Thinking)):]
	} else {
		o.Text = o.Text[min(n, len(o.Text)):]
	}
	t.outputs[e.Step] = o
}

func inJSON(v any) jsontext.Value {
	b, _ := json.Marshal(v, jsontext.AllowInvalidUTF8(true)) // types of our own
	return b
}

// withCallArguments adds the arguments of the model's call to a tool.call.
func withCallArguments(data jsontext.Value, from modelCalls) jsontext.Value {
	var call struct {
		ID string `json:"tool_call_id"`
	}
	if json.Unmarshal(data, &call) != nil {
		return data
	}
	return withMember(data, "arguments", run.ArgumentsJSON(from.arguments(call.ID)))
}

// withMember adds a last member to an object.
func withMember(data jsontext.Value, name string, value jsontext.Value) jsontext.Value {
	start := "{"
	if len(data) > 2 {
		start = strings.TrimSuffix(string(data), "}") + ","
	}
	return jsontext.Value(start + `"` + name + `":` + string(value) + "}")
}
