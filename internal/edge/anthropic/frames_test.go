package anthropic

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/goldentest"
	"agentd/internal/kernel/model"
)

func text(s string) model.Delta { return model.Delta{Text: s} }

func thought(s string) model.Delta { return model.Delta{Thinking: s} }

func called(i int, id, name, arguments string) model.Delta {
	return model.Delta{Call: model.CallDelta{Index: i, ID: id, Name: name, Arguments: arguments}}
}

// streamCases are the shapes of streams, each a transcript in testdata/streams.
var streamCases = []struct {
	name     string
	thinking bool
	deltas   []model.Delta
	resp     model.Response
	err      *fault.Error
}{
	{
		name: "text", deltas: []model.Delta{text("Hello "), text("\"you\"\nthere é\u2028.")},
		resp: model.Response{Usage: model.Usage{InputTokens: 12, OutputTokens: 3, CachedTokens: 4}},
	},
	{name: "nothing"},
	{name: "text_at_once", resp: model.Response{Text: "Hello.", Usage: model.Usage{InputTokens: 1, OutputTokens: 2}}},
	{name: "cut", deltas: []model.Delta{text("Hel")}, resp: model.Response{FinishReason: model.FinishLength}},
	{name: "stop_sequence", deltas: []model.Delta{text("Hel")}, resp: model.Response{StopSequence: "lo\n"}},
	{
		name: "call_in_pieces",
		deltas: []model.Delta{
			text("Let me see."), called(0, "call_1", "weather", `{"ci`), called(0, "", "", `ty": "Be`), called(0, "", "", `rn"}`),
		},
		resp: model.Response{FinishReason: model.FinishToolCalls, ToolCalls: []model.ToolCall{{ID: "call_1", Name: "weather", Arguments: `{"city": "Bern"}`}}},
	},
	{
		name: "calls_at_once",
		resp: model.Response{Text: "Both.", ToolCalls: []model.ToolCall{
			{ID: "call_1", Name: "write", Arguments: `{"text":"` + strings.Repeat("é", 400) + `"}`}, {ID: "call_2", Name: "now", Arguments: `{}`},
		}},
	},
	{
		name: "parallel_calls",
		deltas: []model.Delta{
			called(0, "call_1", "weather", `{"city":`), called(0, "", "", `"Bern"}`), called(1, "call_2", "now", `{}`), called(2, "call_3", "weather", `{"city":"Rome"}`),
		},
		resp: model.Response{ToolCalls: make([]model.ToolCall, 3)},
	},
	{
		name: "broken_input", deltas: []model.Delta{called(0, "call_1", "weather", `{"city":"Be`), called(1, "call_2", "weather", `Bern`)},
		resp: model.Response{ToolCalls: make([]model.ToolCall, 2)},
	},
	{
		name: "text_behind_a_call", deltas: []model.Delta{called(0, "call_1", "now", `{`), text("I am "), called(0, "", "", `}`), thought("Hm."), text("late.")},
		resp: model.Response{ToolCalls: make([]model.ToolCall, 1)}, thinking: true,
	},
	{
		name: "thinking", thinking: true,
		deltas: []model.Delta{thought("Hm. "), thought("Well."), text("Yes."), thought("Or?"), text(" No."), called(0, "call_1", "now", `{}`)},
		resp:   model.Response{ToolCalls: make([]model.ToolCall, 1)},
	},
	{name: "thinking_hidden", deltas: []model.Delta{thought("Hm. "), text("Yes.")}},
	{
		name: "error_in_the_middle", deltas: []model.Delta{text("Hel")},
		err: fault.New(fault.Unavailable, "model_error", "The connection to the model endpoint broke in the middle of its answer."),
	},
	{name: "error_before_a_piece", err: fault.New(fault.Limited, "model_rate_limited", "The model endpoint limits the rate of calls.")},
}

func TestStreams(t *testing.T) {
	t.Parallel()
	for _, tt := range streamCases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := frames{thinking: tt.thinking}
			f.start("msg_1", "claude-x", 42)
			for _, d := range tt.deltas {
				f.addDelta(d)
			}
			if tt.err != nil {
				f.fail(tt.err, "request-1")
			} else {
				f.end(&tt.resp, "")
			}
			goldentest.Check(t, "testdata/streams/"+tt.name+".txt", f.buf)
			checkGrammar(t, f.buf, tt.err == nil)
		})
	}
}

// streamEvent is what the tests read of any event.
type streamEvent struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Content []any `json:"content"`
	} `json:"message"`
	Block struct {
		Type string `json:"type"`
	} `json:"content_block"`
	Delta struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Error struct {
		Type string `json:"type"`
	} `json:"error"`
}

// decodedStream is what a client decodes from a stream.
type decodedStream struct {
	text   string
	inputs []string
	stop   string
	failed string // the type of the error
}

// checkGrammar fails unless a stream is one of the messages API: consecutive
// indexes, one block open at a time, deltas of its kind, inputs that are objects,
// and an end.
func checkGrammar(t *testing.T, wire []byte, ends bool) (h decodedStream) {
	t.Helper()
	open, index, last := "", 0, ""
	fits := map[string]string{"text_delta": "text", "input_json_delta": "tool_use", "thinking_delta": "thinking", "signature_delta": "thinking"}
	wrong := func(e streamEvent, why string) { t.Errorf("%s: %+v\n%s", why, e, wire) }
	for i, raw := range bytes.Split(bytes.TrimSuffix(wire, []byte("\n\n")), []byte("\n\n")) {
		name, data, ok := bytes.Cut(raw, []byte("\ndata: "))
		var e streamEvent
		if err := json.Unmarshal(data, &e); err != nil || !ok || string(name) != "event: "+e.Type || bytes.Contains(data, []byte("\n")) {
			t.Fatalf("no event: %v: %s", err, raw)
		}
		if (i == 0) != (e.Type == "message_start") || last == "message_stop" || last == "error" || last == "message_delta" && e.Type != "message_stop" {
			wrong(e, "out of order behind "+last)
		}
		last = e.Type
		switch e.Type {
		case "content_block_start":
			if open != "" || e.Index != index {
				wrong(e, "a block begins")
			}
			if open = e.Block.Type; open == "tool_use" {
				h.inputs = append(h.inputs, "")
			}
		case "content_block_delta":
			if e.Index != index || fits[e.Delta.Type] != open {
				wrong(e, "a delta of another block than "+open)
			}
			h.text += e.Delta.Text
			if e.Delta.Type == "input_json_delta" {
				h.inputs[len(h.inputs)-1] += e.Delta.PartialJSON
			}
		case "content_block_stop":
			if open == "" || e.Index != index {
				wrong(e, "a block ends")
			}
			if open == "tool_use" {
				var input map[string]any
				if err := json.Unmarshal([]byte(h.inputs[len(h.inputs)-1]), &input); err != nil {
					wrong(e, fmt.Sprintf("the input %q: %v", h.inputs[len(h.inputs)-1], err))
				}
			}
			open = ""
			index++
		case "message_delta":
			if open != "" || e.Delta.StopReason == "" {
				wrong(e, "the end with an open block")
			}
			h.stop = e.Delta.StopReason
		case "error":
			h.failed = e.Error.Type
		}
	}
	if want := map[bool]string{true: "message_stop", false: "error"}[ends]; last != want {
		t.Errorf("the last event is %s, want %s", last, want)
	}
	return h
}

// An answer in one piece says the same as a stream of it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	resp := model.Response{
		Text: "Hi \"you\".\n", Thinking: "Hm.", FinishReason: model.FinishToolCalls,
		ToolCalls: []model.ToolCall{{ID: "call_1", Name: "now", Arguments: `{"a":[1]}`}, {ID: "call_2", Name: "later", Arguments: `{"a`}},
		Usage:     model.Usage{InputTokens: 9, OutputTokens: 4, CachedTokens: 3},
	}
	want := `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[` +
		`{"type":"thinking","thinking":"Hm.","signature":"YWdlbnRk"},{"type":"text","text":"Hi \"you\".\n"},` +
		`{"type":"tool_use","id":"call_1","name":"now","input":{"a":[1]}},{"type":"tool_use","id":"call_2","name":"later","input":{"a":null,"_raw":"{\"a"}}],` +
		`"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":3,"output_tokens":4}}`
	if got := string(appendAnswer(nil, "msg_1", "claude-x", &resp, true, "")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, tt := range []struct {
		name string
		resp model.Response
		want string
	}{
		{"nothing", model.Response{}, `"content":[],"stop_reason":"end_turn","stop_sequence":null`},
		{"hidden thinking", model.Response{Thinking: "Hm."}, `"content":[],"stop_reason":"end_turn"`},
		{"cut in a call", model.Response{FinishReason: model.FinishLength, ToolCalls: resp.ToolCalls[:1]}, `"stop_reason":"max_tokens","stop_sequence":null`},
		{"stop sequence", model.Response{Text: "x", StopSequence: "a\"b"}, `"stop_reason":"stop_sequence","stop_sequence":"a\"b"`},
		{"call before a stop sequence", model.Response{StopSequence: "x", ToolCalls: resp.ToolCalls[:1]}, `"stop_reason":"tool_use","stop_sequence":null`},
		{"filter", model.Response{Text: "x", FinishReason: model.FinishFilter}, `"stop_reason":"end_turn"`},
	} {
		if got := string(appendAnswer(nil, "msg_1", "m", &tt.resp, false, "")); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
