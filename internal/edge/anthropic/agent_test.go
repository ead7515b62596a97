package anthropic

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/edge/runstream"
	"agentd/internal/kernel/event"
)

// An answer that breaks off and is made again goes on where it broke off, if it says
// the same; each step's text is a block of its own.
func TestAnswersOfRunsThatBreakOff(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		events []string // name and text in turn
		want   string   // of the text, blocks separated by |
		same   bool
	}{
		"whole":            {[]string{"step.started", "", "llm.chunk", "It is", "llm.chunk", " 42.", "llm.completed", ""}, "It is 42.", true},
		"two steps":        {[]string{"step.started", "", "llm.chunk", "One.", "step.started", "", "llm.chunk", "Two."}, "One.|Two.", true},
		"the same again":   {[]string{"llm.chunk", "It \n\"is", "step.draft_void", "", "llm.chunk", "It \n", "llm.chunk", "\"is\" 42."}, "It \n\"is\" 42.", true},
		"another answer":   {[]string{"llm.chunk", "It is", "step.draft_void", "", "llm.chunk", "I think"}, "It is", false},
		"a shorter answer": {[]string{"llm.chunk", "It is", "step.draft_void", "", "llm.chunk", "It", "llm.completed", ""}, "It is", false},
		"other thoughts": {
			[]string{"llm.thinking", "Hm", "step.draft_void", "", "llm.thinking", "So", "llm.chunk", "42"}, "HmSo|42", true,
		},
		"no text": {[]string{"llm.chunk", "-", "tool.call", "x"}, "-", true},
	} {
		w := runWriter{frames: frames{thinking: true}}
		same := true
		for i := 0; i < len(tt.events) && same; i += 2 {
			data, err := json.Marshal(map[string]string{"text": tt.events[i+1]})
			if err != nil {
				t.Fatal(err)
			}
			same = w.observe(event.Event{Name: tt.events[i], Data: jsontext.Value(data)})
		}
		w.frames.closeBlock()
		if got := blocks(t, w.frames.buf); got != tt.want || same != tt.same {
			t.Errorf("%s: %q, same %t", name, got, same)
		}
	}
	if text := runstream.TextOf(jsontext.Value(`{"other":1}`)); unquote(text) != "" {
		t.Errorf("an event without text has %s", text)
	}
}

// blocks returns the text and the reasoning of a stream, blocks separated by |.
func blocks(t *testing.T, wire []byte) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.SplitSeq(string(wire), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string `json:"type"`
			Index int    `json:"index"`
			Delta struct {
				Text     string `json:"text"`
				Thinking string `json:"thinking"`
			} `json:"delta"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if e.Type == "content_block_start" && e.Index > 0 {
			b.WriteByte('|')
		}
		b.WriteString(e.Delta.Text + e.Delta.Thinking)
	}
	return b.String()
}
