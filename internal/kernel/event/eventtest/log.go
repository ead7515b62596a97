// Package eventtest has the conformance suite of event.Log, and a log in memory
// for tests of its readers.
package eventtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/event"
)

// MemoryLog is an event.Log in memory. The operations of its Append need no
// transaction.
type MemoryLog struct {
	mu     sync.Mutex
	events map[string][]event.Event
}

// Append implements event.Log for entries that carry their own data or text.
func (l *MemoryLog) Append(tenant, stream string, s event.Segment) txn.Op {
	return func(txn.Tx) error {
		l.append(tenant, stream, s)
		return nil
	}
}

func (l *MemoryLog) append(tenant, stream string, s event.Segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events == nil {
		l.events = map[string][]event.Event{}
	}
	seq, key := s.First, tenant+"/"+stream
	for _, e := range s.Entries {
		if e.Lens == nil {
			l.events[key] = append(l.events[key], event.Event{Seq: seq, Name: e.Name, At: e.At, Data: e.Data})
			seq++
			continue
		}
		text := e.Text
		for _, n := range e.Lens {
			l.events[key] = append(l.events[key], event.Event{Seq: seq, Name: e.Name, At: e.At, Data: textData(text[:n])})
			text = text[n:]
			seq++
		}
	}
}

// Read implements event.Log.
func (l *MemoryLog) Read(_ context.Context, tenant, stream string, after int64, limit int) ([]event.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.events[tenant+"/"+stream]
	i := 0
	for i < len(all) && all[i].Seq <= after {
		i++
	}
	return slices.Clone(all[i:min(len(all), i+limit)]), nil
}

func textData(s string) jsontext.Value { return jsontext.Value(fmt.Sprintf(`{"text":%q}`, s)) }

// StepFunc stores the output of a step of a stream, for entries that refer to it.
type StepFunc func(tx txn.Tx, tenant, stream string, seq int64, id, output string) error

// Log runs the suite.
func Log(t *testing.T, log event.Log, w txn.Writer, step StepFunc) {
	s := suite{log, w, step, time.Date(2026, 9, 10, 12, 0, 0, 123456000, time.UTC)}
	t.Run("order_and_resume", s.orderAndResume)
	t.Run("tenants_and_streams_are_apart", s.tenantsAndStreamsAreApart)
	t.Run("chunks_expand_to_the_text_of_their_step", s.chunksExpand)
	t.Run("rolled_back_is_not_there", s.rolledBack)
}

type suite struct {
	log    event.Log
	writer txn.Writer
	step   StepFunc
	at     time.Time // of all events
}

func (s suite) write(t *testing.T, do func(txn.Tx) error) {
	t.Helper()
	if err := s.writer.Write(t.Context(), do); err != nil {
		t.Fatal(err)
	}
}

func (s suite) read(t *testing.T, tenant, stream string, after int64, limit int) []event.Event {
	t.Helper()
	got, err := s.log.Read(t.Context(), tenant, stream, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// single returns a segment with a single event.
func (s suite) single() event.Segment {
	return event.Segment{First: 1, Entries: []event.Entry{{Name: "e", At: s.at, Data: jsontext.Value(`{}`)}}}
}

func (s suite) orderAndResume(t *testing.T) {
	tenant, stream := ident.New(), ident.New()
	var want []event.Event
	for first := int64(1); first <= 9; first += 3 {
		seg := event.Segment{First: first}
		for i := range int64(3) {
			e := event.Entry{Name: fmt.Sprintf("e.%d", first+i), At: s.at, Data: jsontext.Value(fmt.Sprintf(`{"n":%d}`, first+i))}
			seg.Entries = append(seg.Entries, e)
			want = append(want, event.Event{Seq: first + i, Name: e.Name, At: s.at, Data: e.Data})
		}
		s.write(t, s.log.Append(tenant, stream, seg))
	}
	asText := cmp.Transformer("value", func(v jsontext.Value) string { return string(v) })
	for after := range int64(11) {
		for _, limit := range []int{1, 2, 4, 100} {
			got := s.read(t, tenant, stream, after, limit)
			from := min(int(after), len(want))
			to := min(from+limit, len(want))
			if diff := cmp.Diff(want[from:to], got, asText); diff != "" && (len(got) > 0 || from < to) {
				t.Fatalf("after %d limit %d (-want +got):\n%s", after, limit, diff)
			}
		}
	}
}

func (s suite) tenantsAndStreamsAreApart(t *testing.T) {
	tenant, stream := ident.New(), ident.New()
	s.write(t, s.log.Append(tenant, stream, s.single()))
	if got := s.read(t, ident.New(), stream, 0, 10); len(got) != 0 {
		t.Errorf("another tenant reads %v", got)
	}
	if got := s.read(t, tenant, ident.New(), 0, 10); len(got) != 0 {
		t.Errorf("another stream has %v", got)
	}
}

func (s suite) chunksExpand(t *testing.T) {
	tenant, stream, begun := ident.New(), ident.New(), ident.New()
	seg := event.Segment{First: 5, Entries: []event.Entry{
		{Name: "llm.thinking", At: s.at, Lens: []int{2, 1}, After: []int{0, 7}, Step: 3},
		{Name: "llm.chunk", At: s.at, Lens: []int{3, 2}, After: []int{0, 10}, Step: 3},
		{Name: "llm.thinking", At: s.at, Lens: []int{1}, After: []int{0}, Step: 3},
		{Name: "llm.chunk", At: s.at, Lens: []int{4}, After: []int{0}, Step: 3},
		{Name: "tool.result", At: s.at, Data: jsontext.Value(`{"name":"t"}`), Step: 4},
		{Name: "step.completed", At: s.at, Data: jsontext.Value(`{}`)},
		{Name: "tool.call", At: s.at, Data: jsontext.Value(`{"tool_call_id":"c2"}`), Step: 3},
		{Name: "tool.call", At: s.at, Data: jsontext.Value(`{"tool_call_id":"c1"}`), Step: 3},
		{Name: "step.started", At: s.at, Data: jsontext.Value(`{"type":"tool"}`), Step: 6, StepID: begun},
		{Name: "tool.call", At: s.at, Data: jsontext.Value(`{"tool_call_id":"c1"}`), Step: 3},
		{Name: "step.started", At: s.at, Data: jsontext.Value(`{"type":"llm"}`), Step: 7, StepID: "none"},
	}}
	const answer = `{"text":"abcde\"é\n","thinking":"hmm!","tool_calls":[` +
		`{"id":"c1","name":"t","arguments":"{ \"n\": 1}"},{"id":"c2","name":"t","arguments":"none"}]}`
	s.write(t, func(tx txn.Tx) error {
		if err := s.step(tx, tenant, stream, 3, "s3", answer); err != nil {
			return err
		}
		if err := s.step(tx, tenant, stream, 4, "s4", `{"content":"four"}`); err != nil {
			return err
		}
		return s.log.Append(tenant, stream, seg)(tx)
	})
	const ofStep = `,"step_id":"s3","step_seq":3}`
	want := []string{
		`5 llm.thinking {"text":"hm"` + ofStep, `6 llm.thinking {"text":"m"` + ofStep,
		`7 llm.chunk {"text":"abc"` + ofStep, `8 llm.chunk {"text":"de"` + ofStep,
		`9 llm.thinking {"text":"!"` + ofStep, `10 llm.chunk {"text":"\"é\n"` + ofStep,
		`11 tool.result {"step_id":"s4","step_seq":4,"name":"t","output":"four"}`, `12 step.completed {}`,
		`13 tool.call {"tool_call_id":"c2","arguments":"none"}`, `14 tool.call {"tool_call_id":"c1","arguments":{"n":1}}`,
		`15 step.started {"step_id":"` + begun + `","step_seq":6,"type":"tool"}`,
		`16 tool.call {"step_id":"` + begun + `","step_seq":6,"tool_call_id":"c1","arguments":{"n":1}}`,
		`17 step.started {"step_id":"none","step_seq":7,"type":"llm"}`,
	}
	for after := range int64(18) {
		var got []string
		for _, e := range s.read(t, tenant, stream, after, 100) {
			got = append(got, fmt.Sprintf("%d %s %s", e.Seq, e.Name, e.Data))
		}
		rest := want[max(0, min(int(after)-4, len(want))):]
		if diff := cmp.Diff(rest, got); diff != "" && len(got)+len(rest) > 0 {
			t.Errorf("after %d (-want +got):\n%s", after, diff)
		}
	}
	if got := s.read(t, tenant, stream, 0, 100)[1].At; !got.Equal(s.at.Add(7 * time.Millisecond)) {
		t.Errorf("the time of the second chunk is %v", got)
	}
}

func (s suite) rolledBack(t *testing.T) {
	tenant, stream := ident.New(), ident.New()
	abandon := errors.New("abandon")
	err := s.writer.Write(t.Context(), func(tx txn.Tx) error {
		if err := s.log.Append(tenant, stream, s.single())(tx); err != nil {
			return err
		}
		return abandon
	})
	if err == nil {
		t.Fatal("the write succeeded")
	}
	if got := s.read(t, tenant, stream, 0, 10); len(got) != 0 {
		t.Errorf("the log has %v", got)
	}
}
