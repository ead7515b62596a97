package runsql

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/store/sqldb"
)

// Events keeps the event log of runs; it implements event.Log.
type Events struct{ db *sqldb.DB }

// NewEvents uses the tables of migration 4.
func NewEvents(db *sqldb.DB) *Events { return &Events{db} }

// storedEntry is an event.Entry as it is kept: short names, because there are
// many.
type storedEntry struct {
	Name  string         `json:"n"`
	At    int64          `json:"t,omitzero"` // microseconds: since 1970 in the first entry of a row, then since the one before
	Data  jsontext.Value `json:"d,omitzero"`
	Lens  small          `json:"l,omitzero"`
	After small          `json:"a,omitzero"` // each since the one before
	Text  string         `json:"x,omitzero"`
	Step  int64          `json:"s,omitzero"`
}

const insertEvents = `INSERT INTO run_events (tenant_id, run_id, last_seq, first_seq, draft, body) VALUES (?, ?, ?, ?, ?, ?)`

// Append implements event.Log.
func (s *Events) Append(tenant, stream string, seg event.Segment) txn.Op {
	var enc sqldb.Encoder
	entries := make([]storedEntry, len(seg.Entries))
	before := int64(0)
	for i, e := range seg.Entries {
		at := e.At.UnixMicro()
		entries[i] = storedEntry{shorten(e.Name), at - before, e.Data, e.Lens, differences(e.After), e.Text, e.Step}
		before = at
	}
	return enc.Op("run", insertEvents, tenant, stream, seg.Last(), seg.First, seg.Draft, enc.JSON(entries))
}

// DeleteDraftsTx deletes the drafts of the text of every step up to one.
func (s *Events) DeleteDraftsTx(tx txn.Tx, tenant, stream string, step int64) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM run_events WHERE tenant_id = ? AND run_id = ? AND draft > 0 AND draft <= ?`, tenant, stream, step)
	return err
}

// Read implements event.Log.
func (s *Events) Read(ctx context.Context, tenant, stream string, after int64, limit int) ([]event.Event, error) {
	rows, err := s.db.Query(ctx, `SELECT first_seq, body FROM run_events
		WHERE tenant_id = ? AND run_id = ? AND last_seq > ? ORDER BY last_seq LIMIT ?`, tenant, stream, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	type segment struct {
		first   int64
		entries []storedEntry
	}
	var segments []segment
	texts := &stepTexts{ctx: ctx, db: s.db, tenant: tenant, run: stream}
	for n := int64(0); n < int64(limit) && rows.Next(); {
		var seg segment
		var body string
		if err := rows.Scan(&seg.first, &body); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(body), &seg.entries); err != nil {
			return nil, err
		}
		seq := seg.first
		for i := range seg.entries {
			e := &seg.entries[i]
			e.Name = lengthen(e.Name)
			count := int64(max(1, len(e.Lens)))
			if seq+count-1 > after {
				n += count
				texts.need(e.Step)
			}
			seq += count
		}
		segments = append(segments, seg)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	if err := texts.load(); err != nil {
		return nil, err
	}
	var out []event.Event
	for _, seg := range segments {
		seq, at := seg.first, int64(0)
		for _, e := range seg.entries {
			at += e.At
			e.At = at
			for _, ev := range texts.expand(e) {
				if seq > after && len(out) < limit {
					ev.Seq = seq
					out = append(out, ev)
				}
				seq++
			}
		}
	}
	return out, nil
}

// stepTexts finds what steps hold for the events that refer to them.
type stepTexts struct {
	ctx         context.Context
	db          *sqldb.DB
	tenant, run string
	low, high   int64
	outputs     map[int64]stepOutput
	steps       map[int64]run.Step
}

// stepOutput is what the outputs of model and tool steps have in common here.
type stepOutput struct {
	Text     string `json:"text"`
	Thinking string `json:"thinking"`
	Content  string `json:"content"`

	Model        string `json:"model"`
	FinishReason string `json:"finish_reason"`
	asking
}

func (t *stepTexts) need(step int64) {
	if step == 0 {
		return
	}
	if t.low == 0 || step < t.low {
		t.low = step
	}
	t.high = max(t.high, step)
}

func (t *stepTexts) load() error {
	t.outputs, t.steps = map[int64]stepOutput{}, map[int64]run.Step{}
	if t.high == 0 {
		return nil
	}
	rows, err := t.db.Query(t.ctx, `SELECT seq, type, status, duration_us, metrics, output FROM run_steps WHERE tenant_id = ? AND run_id = ? AND seq BETWEEN ? AND ?`,
		t.tenant, t.run, t.low, t.high)
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

// expand gives the events that an entry stands for, without their seqs.
func (t *stepTexts) expand(e storedEntry) []event.Event {
	at := sqldb.Time(e.At)
	if e.Lens == nil {
		data := e.Data
		switch {
		case e.Step == 0:
		case e.Name == "step.completed":
			st := t.steps[e.Step]
			data = inJSON(run.StepCompletedOf(&st))
		case e.Name == "llm.completed":
			var m run.StepMetrics
			_ = json.Unmarshal(t.steps[e.Step].Metrics, &m) // our own; where it is not there, zeros
			out := t.outputs[e.Step]
			data = inJSON(run.LLMCompletedOf(e.Step, &run.LLMOutput{Model: out.Model, FinishReason: out.FinishReason}, m))
		case e.Name == "tool.call":
			data = withArguments(data, t.outputs[e.Step].asking)
		default:
			data = withMember(data, "output", quoted(t.outputs[e.Step].Content))
		}
		return []event.Event{{Name: e.Name, At: at, Data: data}}
	}
	text := e.Text
	if e.Step != 0 {
		if text = t.outputs[e.Step].Text; e.Name == "llm.thinking" {
			text = t.outputs[e.Step].Thinking
		}
		t.consume(e)
	}
	out, after := make([]event.Event, len(e.Lens)), 0
	for i, n := range e.Lens {
		n = min(n, len(text))
		after += e.After[i]
		out[i] = event.Event{Name: e.Name, At: at.Add(time.Duration(after) * time.Millisecond), Data: withMember(nil, "text", quoted(text[:n]))}
		text = text[n:]
	}
	return out
}

// consume takes an entry's bytes off its step's text: thinking and speaking
// may alternate, each in entries of its own.
func (t *stepTexts) consume(e storedEntry) {
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

func quoted(value string) jsontext.Value {
	b, _ := json.Marshal(value, jsontext.AllowInvalidUTF8(true))
	return b
}

// withArguments completes a tool.call by what the model asked for.
func withArguments(data jsontext.Value, from asking) jsontext.Value {
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

var _ run.Store = (*Store)(nil)
var _ event.Log = (*Events)(nil)
