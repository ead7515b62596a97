package route_test

import (
	"strings"
	"testing"

	"agentd/internal/base/route"
)

// Whatever a frame is made of, a reader sees one event, with its data and no
// other id or name than its own.
func FuzzFrame(f *testing.F) {
	f.Add("1", "llm.chunk", `{"text":"a"}`)
	f.Add("1\n2", "forged\revent", "one\ntwo\r\n\nid: 9")
	f.Add("", "", "")
	f.Add("\x00", "a", "\r\r\n\n: comment\ndata: x")
	f.Fuzz(func(t *testing.T, id, name, data string) {
		wire := string(route.Frame{ID: id, Name: name, Data: []byte(data)}.AppendWire([]byte("before")))
		event, ok := strings.CutSuffix(strings.TrimPrefix(wire, "before"), "\n\n")
		if !ok || strings.Contains(event, "\r") || strings.Contains(event, "\n\n") {
			t.Fatalf("%q is not one event", wire)
		}
		var got []string
		for line := range strings.SplitSeq(event, "\n") {
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "id":
				if value != id || len(got) > 0 {
					t.Errorf("the id %q became %q", id, value)
				}
			case "event":
				if value != name || len(got) > 0 {
					t.Errorf("the name %q became %q", name, value)
				}
			case "data":
				got = append(got, value)
			default:
				t.Errorf("%q has a line %q", wire, line)
			}
		}
		lines := strings.NewReplacer("\r", "\n").Replace(data)
		if joined := strings.Join(got, "\n"); joined != lines {
			t.Errorf("the data %q became %q", data, joined)
		}
	})
}
