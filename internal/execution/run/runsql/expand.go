package runsql

import (
	"context"
	"database/sql"
	"slices"
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

const selectStepTexts = `SELECT seq, step_id, type, status, duration_us, metrics, output FROM run_steps
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
		if err := rows.Scan(&st.Seq, &st.StepID, &st.Type, &st.Status, &took, &metrics, &body); err != nil {
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

// started returns the members of a step.started that name its step.
func (e *storedEntry) started() jsontext.Value {
	if e.ID == "" {
		return nil
	}
	return inJSON(run.StepRef{StepID: longID(e.ID), StepSeq: e.Step})
}

// expand returns the events that an entry stands for, without their sequence
// numbers. begun names the step of a step.started, and of a tool.call after it.
func (t *stepTexts) expand(e *storedEntry, begun jsontext.Value, at time.Time) []event.Event {
	if e.Lens == nil {
		return []event.Event{{Name: e.Name, At: at, Data: joined(begun, t.data(e))}}
	}
	text, ref := e.Text, e.Data
	if e.Step != 0 {
		st := t.steps[e.Step]
		ref = inJSON(st.Ref())
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
			Name: e.Name, At: at.Add(time.Duration(after) * time.Millisecond), Data: chunkData(text[:n], ref),
		}
		text = text[n:]
	}
	return events
}

// data returns the data of an entry that stands for one event, completed from
// its step.
func (t *stepTexts) data(e *storedEntry) jsontext.Value {
	switch {
	case e.Step == 0, e.Name == "step.started":
		return e.Data
	case e.Name == "step.completed":
		st := t.steps[e.Step]
		return inJSON(run.StepCompletedOf(&st))
	case e.Name == "llm.completed":
		var m run.StepMetrics
		st := t.steps[e.Step]
		_ = json.Unmarshal(st.Metrics, &m) // our own; zeros without them
		out := t.outputs[e.Step]
		return inJSON(run.LLMCompletedOf(st.Ref(), &run.LLMOutput{Model: out.Model, FinishReason: out.FinishReason}, m))
	case e.Name == "tool.call":
		return withCallArguments(e.Data, t.outputs[e.Step].modelCalls)
	default:
		st := t.steps[e.Step]
		return withMember(joined(inJSON(st.Ref()), e.Data), "output", inJSON(t.outputs[e.Step].Content))
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

// joined returns an object with the members of two; a may have none.
func joined(a, b jsontext.Value) jsontext.Value {
	switch {
	case len(a) <= 2:
		return b
	case len(b) <= 2:
		return a
	}
	return append(append(slices.Clone(a[:len(a)-1]), ','), b[1:]...)
}

// chunkData returns the data of a chunk: its text, and the members of step.
func chunkData(text string, step jsontext.Value) jsontext.Value {
	b := append(jsontext.Value(`{"text":`), inJSON(text)...)
	if len(step) <= 2 {
		return append(b, '}')
	}
	return append(append(b, ','), step[1:]...)
}

// withMember adds a last member to an object.
func withMember(data jsontext.Value, name string, value jsontext.Value) jsontext.Value {
	start := "{"
	if len(data) > 2 {
		start = strings.TrimSuffix(string(data), "}") + ","
	}
	return jsontext.Value(start + `"` + name + `":` + string(value) + "}")
}
