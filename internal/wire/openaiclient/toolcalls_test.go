package openaiclient

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// readDetailed reads a body for a sink that wants pieces of calls.
func readDetailed(body string) (model.Response, []model.Delta, error) {
	var pieces []model.Delta
	watch := modelcall.NewWatchdog(func(error) {}, 0)
	defer watch.Stop()
	a := answer{Answer: modelcall.Answer{Sink: func(d model.Delta) { pieces = append(pieces, d) }, Detailed: true, Max: 1 << 20, Began: time.Now()}}
	in := modelcall.NewReader(io.MultiReader(strings.NewReader(body)), watch, time.Minute)
	in.Pause = a.Flush
	if err := readAnswer(in, &a); err != nil {
		return model.Response{}, pieces, err
	}
	return a.response(&model.Request{}), pieces, nil
}

// gathered puts the calls of deltas together, and fails unless they come one
// after the other, each with a name first.
func gathered(t *testing.T, pieces []model.Delta) (calls []model.ToolCall) {
	t.Helper()
	for _, d := range pieces {
		if d.Call == (model.CallDelta{}) {
			continue
		}
		if d.Call.Name != "" {
			calls = append(calls, model.ToolCall{ID: d.Call.ID, Name: d.Call.Name})
		}
		if d.Call.Index != len(calls)-1 || d.Call.Name == "" && d.Call.ID != "" {
			t.Fatalf("out of order: %+v", pieces)
		}
		calls[len(calls)-1].Arguments += d.Call.Arguments
	}
	return calls
}

func callChunk(calls string) string {
	return `data: {"choices":[{"delta":{"tool_calls":[` + calls + `]}}]}` + "\n\n"
}

func TestCallPieces(t *testing.T) {
	t.Parallel()
	piece := func(index int, id, name, arguments string) string {
		return callChunk(fmt.Sprintf(`{"index":%d,"id":%q,"function":{"name":%q,"arguments":%q}}`, index, id, name, arguments))
	}
	tests := []struct {
		name, body string
		shown      []string // arguments of each piece
	}{
		{"pieces", piece(0, "a", "x", "") + piece(0, "", "", `{"a`) + piece(0, "", "", `":1}`), []string{`{"a`, `":1}`}},
		{"at once", piece(0, "a", "x", `{"a":1}`), []string{`{"a":1}`}},
		{"two", piece(0, "a", "x", `{"a"`) + piece(0, "", "", `:1}`) + piece(1, "b", "y", `{`) + piece(1, "", "", `}`), []string{`{"a"`, `:1}`, `{`, `}`}},
		{"mixed", piece(0, "a", "x", `{"a"`) + piece(1, "b", "y", `{`) + piece(0, "", "", `:1}`) + piece(1, "", "", `}`), []string{`{"a"`, `:1}`, `{`, `}`}},
		{"second begins before the first has arguments", piece(0, "a", "x", "") + piece(1, "b", "y", `{}`) + piece(0, "", "", `{"a":1}`), []string{`{"a":1}`, `{}`}},
		{"no arguments", piece(0, "a", "x", "") + piece(1, "b", "y", ""), []string{`{}`, `{}`}},
		{"no name", piece(0, "a", "", `{}`) + piece(1, "b", "y", `{}`), []string{`{}`}},
		{"name in pieces", piece(0, "a", "get_", "") + piece(0, "", "weather", "") + piece(0, "", "", `{}`), []string{`{}`}},
		{"name again", piece(0, "a", "x", "{") + piece(0, "a", "x", "}"), []string{`{`, `}`}},
		{"no ids", piece(0, "", "x", "{}") + piece(1, "", "y", "{}"), []string{`{}`, `{}`}},
		{"the same id", piece(0, "a", "x", "{}") + piece(1, "a", "y", "{}"), []string{`{}`, `{}`}},
		{"more behind the end", piece(0, "a", "x", "{}") + piece(1, "b", "y", "{}") + piece(0, "", "", " {}"), []string{`{}`, `{}`}},
		{"broken arguments", piece(0, "a", "x", `{"a`) + piece(1, "b", "y", "{}"), []string{`{"a`, `{}`}},
		{"two in a chunk", callChunk(`{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"y","arguments":"{}"}}`), []string{`{}`, `{}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resp, pieces, err := readDetailed(tt.body + end)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(resp.ToolCalls, gathered(t, pieces)); diff != "" {
				t.Errorf("the pieces (+) are not the calls (-):\n%s", diff)
			}
			var shown []string
			for _, d := range pieces {
				if d.Call.Arguments != "" {
					shown = append(shown, d.Call.Arguments)
				}
			}
			if diff := cmp.Diff(tt.shown, shown); diff != "" {
				t.Errorf("pieces (-want +got):\n%s", diff)
			}
			// Without the wish for pieces the answer is the same, as far as ids go.
			plain, others, err := read(tt.body+end, whole)
			if err != nil || len(others) != 0 || len(plain.ToolCalls) != len(resp.ToolCalls) {
				t.Errorf("%v, %d pieces, %+v", err, len(others), plain.ToolCalls)
			}
		})
	}
}

// The zero Delta stands where no more was at hand.
func TestPauses(t *testing.T) {
	t.Parallel()
	chunk := func(text string) string { return `data: {"choices":[{"delta":{"content":"` + text + `"}}]}` + "\n\n" }
	var said []string
	watch := modelcall.NewWatchdog(func(error) {}, 0)
	defer watch.Stop()
	a := answer{Answer: modelcall.Answer{Detailed: true, Max: 1 << 20, Began: time.Now(), Sink: func(d model.Delta) { said = append(said, d.Text) }}}
	in := modelcall.NewReader(io.MultiReader(
		strings.NewReader(chunk("a")+chunk("b")), strings.NewReader(": nothing\n\n"), strings.NewReader(chunk("c")+"data: {"), strings.NewReader("}\n\n"+end)),
		watch, time.Minute)
	in.Pause = a.Flush
	if err := readAnswer(in, &a); err != nil && a.Finish == "" && err != modelcall.ErrTruncated {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "", "c", ""}, said); diff != "" {
		t.Errorf("the sink heard (-want +got):\n%s", diff)
	}
}

// However pieces come, what is shown is what the answer has.
func FuzzCallPieces(f *testing.F) {
	f.Add([]byte("\x00a{\x01b{\x00 }\x01 }"))
	f.Fuzz(func(t *testing.T, tape []byte) {
		var body strings.Builder
		texts := []string{"", "{", "}", `"a":1`, "{}", " ", ","}
		for i := 0; i+2 < len(tape) && i < 300; i += 3 {
			index := fmt.Sprintf(`"index":%d,`, tape[i]%4)
			if tape[i]&64 != 0 {
				index = ""
			}
			id := []string{"", "", "a", "b"}[tape[i+1]%4]
			name := []string{"", "", "x", "y"}[tape[i+1]>>2%4]
			body.WriteString(callChunk(fmt.Sprintf(`{%s"id":%q,"function":{"name":%q,"arguments":%q}}`, index, id, name, texts[int(tape[i+2])%len(texts)])))
		}
		resp, pieces, err := readDetailed(body.String() + end)
		if err != nil {
			return
		}
		if diff := cmp.Diff(resp.ToolCalls, gathered(t, pieces)); diff != "" {
			t.Fatalf("%s\nthe pieces (+) are not the calls (-):\n%s", body.String(), diff)
		}
	})
}

// A request's own budget holds for streamed and whole answers alike.
func TestBudget(t *testing.T) {
	t.Parallel()
	c := New(Config{PlainTimeout: 1, HeaderTimeout: 2, IdleTimeout: 3, AnswerTimeout: 4})
	for _, stream := range []bool{false, true} {
		if got := c.completions(nil, nil, stream, time.Hour).Timeouts; got != modelcall.Within(time.Hour) {
			t.Errorf("stream %t: %+v", stream, got)
		}
	}
	if plain, streamed := c.completions(nil, nil, false, 0).Timeouts, c.completions(nil, nil, true, 0).Timeouts; plain != (modelcall.Timeouts{Begin: 1, Idle: 3, All: 4}) || streamed != (modelcall.Timeouts{Begin: 2, Idle: 3, All: 4}) {
		t.Errorf("%+v, %+v", plain, streamed)
	}
}
