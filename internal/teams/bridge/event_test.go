package bridge

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
)

const status = `{"type":"status","timestamp":"2026-11-27T12:00:00Z"}`

func TestDecodeEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body  string
		n     int
		kind  fault.Kind
		field string
	}{
		"one":         {status, 1, 0, ""},
		"a list":      {"[" + status + "," + status + "]", 2, 0, ""},
		"most":        {"[" + strings.Repeat(status+",", maxEvents-1) + status + "]", maxEvents, 0, ""},
		"too many":    {"[" + strings.Repeat(status+",", maxEvents) + status + "]", 0, fault.Invalid, "events"},
		"none":        {"[]", 0, fault.Invalid, "events"},
		"no type":     {`[` + status + `,{"timestamp":"2026-11-27T12:00:00Z"}]`, 0, fault.Invalid, "[1].type"},
		"no time":     {`{"type":"status"}`, 0, fault.Invalid, "timestamp"},
		"a long type": {`{"type":"` + strings.Repeat("x", 101) + `","timestamp":"2026-11-27T12:00:00Z"}`, 0, fault.Invalid, "type"},
		"a number":    {"7", 0, fault.Invalid, ""},
		"too large":   {`{"type":"status","timestamp":"2026-11-27T12:00:00Z","x":"` + strings.Repeat("x", MaxBody) + `"}`, 0, fault.TooLarge, ""},
	} {
		events, err := DecodeEvents(jsontext.Value(c.body))
		if c.n > 0 && (err != nil || len(events) != c.n) {
			t.Errorf("%s: %d events, %v", name, len(events), err)
		}
		if c.n > 0 {
			continue
		}
		if !fault.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
		if fields := fault.From(err).Fields; c.field != "" && (len(fields) != 1 || fields[0].Field != c.field) {
			t.Errorf("%s: the fields are %v", name, fields)
		}
	}
}

// An event is known again by its id, or else by what it says.
func TestKeysOfEvents(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	event := func(edit func(*Event)) string {
		e := Event{Type: "text", Timestamp: at, Content: "Hi"}
		edit(&e)
		return e.key()
	}
	same := event(func(*Event) {})
	if event(func(e *Event) { e.Timestamp = at.In(time.FixedZone("", 3600)) }) != same {
		t.Error("the same moment in another zone is another event")
	}
	others := map[string]bool{same: true}
	for name, edit := range map[string]func(*Event){
		"type":    func(e *Event) { e.Type = "content" },
		"time":    func(e *Event) { e.Timestamp = at.Add(time.Nanosecond) },
		"content": func(e *Event) { e.Content = "Ho" },
		"moved":   func(e *Event) { e.Content, e.Message = "", "Hi" },
		"output":  func(e *Event) { e.Output = "x" },
		"call":    func(e *Event) { e.ToolCallID = "x" },
		"result":  func(e *Event) { e.ToolResult = "x" },
		"id":      func(e *Event) { e.EventID = "1" },
	} {
		key := event(edit)
		if others[key] {
			t.Errorf("%s: the key is that of another event", name)
		}
		others[key] = true
	}
	if event(func(e *Event) { e.EventID = "1" }) != event(func(e *Event) { e.EventID, e.Content = "1", "Ho" }) {
		t.Error("events with one id have two keys")
	}
}

// What a machine sends is decoded or refused; what is decoded is within its bounds, and is
// decoded alike alone and in a list.
func FuzzDecodeEvents(f *testing.F) {
	for _, seed := range []string{
		status, "[" + status + "]", "[]", "{}", "null", "[null]", `[[` + status + `]]`, `{"type":"completed","status":"failed","timestamp":"2026-11-27T12:00:00Z"}`,
		`{"type":"metrics","metrics":{"llm_calls":1e400},"timestamp":"2026-11-27T12:00:00Z"}`, "{\"type\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := DecodeEvents(jsontext.Value(body))
		if err != nil {
			if fault.From(err).Kind == fault.Internal {
				t.Errorf("%q is answered as a failure of the service: %v", body, err)
			}
			return
		}
		if len(events) == 0 || len(events) > maxEvents {
			t.Fatalf("%d events", len(events))
		}
		for i := range events {
			e := &events[i]
			if e.Type == "" || e.Timestamp.IsZero() && !strings.Contains(string(body), "0001") || e.size() < 100 {
				t.Errorf("%+v", e)
			}
			if ends, well := e.ends(); well && !ends {
				t.Errorf("%+v ends well and does not end", e)
			}
		}
		if jsontext.Value(body).Kind() == '{' {
			if again, err := DecodeEvents(jsontext.Value("[" + string(body) + "]")); err != nil || len(again) != 1 || again[0].key() != events[0].key() {
				t.Errorf("%q in a list: %v %v", body, again, err)
			}
		}
	})
}
