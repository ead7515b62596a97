package modeltest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

const (
	modelName = "sim-model"
	created   = 1_700_000_000
)

// Answer is what the simulated model says to one call. The zero value is an
// empty text.
type Answer struct {
	Text      string
	Pieces    []string // how Text is cut for streaming; default: after each space
	Thinking  string   // comes before the text, as reasoning_content
	ToolCalls []model.ToolCall
	Finish    string       // default stop, or tool_calls
	Usage     *model.Usage // default: counted
	NoUsage   bool

	TTFT  time.Duration // before the first byte
	Delay time.Duration // before each further piece; a plain answer waits for all of them

	// Faults of the protocol.
	Status      int    // other than 200: an error, with Error as its message
	Error       string // with status 200: an error inside the answer, after the pieces
	RetryAfter  string
	Raw         []byte // sent instead of everything above
	ContentType string // of Raw; default as the call asked
	NoFinish    bool   // the stream has neither finish reason nor usage
	NoDone      bool   // the stream has no [DONE]

	// Faults of the connection. Pieces are those of the stream, from 1.
	HangFirst  bool // never answers
	HangAfter  int  // says nothing more after that many pieces
	BreakAfter int  // cuts the connection after that many pieces
	EndAfter   int  // ends the stream properly, but in the middle, after that many pieces
	Filler     int  // at least this many bytes of further text after the pieces
}

// Tokens is a text of n tokens.
func Tokens(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "tok%d ", i)
	}
	return b.String()
}

// reply is an answer in bytes.
type reply struct {
	Answer
	plain  []byte
	events [][]byte // what a stream sends, one element per piece
	joined []byte   // all of them, for when there is no pace
	ending [][]byte // after the pieces
}

type object = map[string]any

func (a Answer) compile() *reply {
	r := &reply{Answer: a}
	if a.Raw != nil {
		return r
	}
	if a.Status != 0 && a.Status != 200 {
		r.plain = encode(object{"error": object{"message": a.Error, "type": "sim_error", "code": nil}})
		return r
	}
	pieces := a.Pieces
	if pieces == nil && a.Text != "" {
		pieces = strings.SplitAfter(a.Text, " ")
		if last := len(pieces) - 1; pieces[last] == "" {
			pieces = pieces[:last]
		}
	}
	text := strings.Join(pieces, "")
	usage := a.usage(len(pieces))
	finish := a.Finish
	if finish == "" {
		finish = model.FinishStop
		if len(a.ToolCalls) > 0 {
			finish = model.FinishToolCalls
		}
	}
	r.compilePlain(text, finish, usage)
	r.compileStream(pieces, finish, usage)
	return r
}

func (a Answer) usage(tokens int) object {
	if a.NoUsage {
		return nil
	}
	u := model.Usage{InputTokens: 10, OutputTokens: tokens}
	if a.Usage != nil {
		u = *a.Usage
	}
	return object{
		"prompt_tokens": u.InputTokens, "completion_tokens": u.OutputTokens, "total_tokens": u.InputTokens + u.OutputTokens,
		"prompt_tokens_details":     object{"cached_tokens": u.CachedTokens},
		"completion_tokens_details": object{"reasoning_tokens": u.ThinkingTokens},
	}
}

func (r *reply) compilePlain(text, finish string, usage object) {
	message := object{"role": "assistant", "content": text}
	if r.Thinking != "" {
		message["reasoning_content"] = r.Thinking
	}
	if len(r.ToolCalls) > 0 {
		message["tool_calls"] = wireCalls(r.ToolCalls)
		if text == "" {
			message["content"] = nil
		}
	}
	whole := object{
		"id": "chatcmpl-sim", "object": "chat.completion", "created": created, "model": modelName,
		"choices": []any{object{"index": 0, "message": message, "finish_reason": finish}},
	}
	if usage != nil {
		whole["usage"] = usage
	}
	if r.Error != "" {
		whole = object{"error": object{"message": r.Error, "type": "server_error", "code": nil}}
	}
	r.plain = encode(whole)
}

func (r *reply) compileStream(pieces []string, finish string, usage object) {
	r.events = append(r.events, chunk(object{"role": "assistant", "content": ""}, nil))
	if r.Thinking != "" {
		for _, p := range strings.SplitAfter(r.Thinking, " ") {
			r.events = append(r.events, chunk(object{"reasoning_content": p}, nil))
		}
	}
	for _, p := range pieces {
		r.events = append(r.events, chunk(object{"content": p}, nil))
	}
	for i, call := range r.ToolCalls {
		for _, piece := range callPieces(i, call) {
			r.events = append(r.events, chunk(object{"tool_calls": []any{piece}}, nil))
		}
	}
	switch {
	case r.Error != "":
		r.ending = append(r.ending, event(object{"error": object{"message": r.Error, "type": "server_error", "code": nil}}))
	case !r.NoFinish:
		r.ending = append(r.ending, chunk(object{}, finish))
		if usage != nil {
			r.ending = append(r.ending, event(object{
				"id": "chatcmpl-sim", "object": "chat.completion.chunk", "created": created, "model": modelName, "choices": []any{}, "usage": usage,
			}))
		}
	}
	if !r.NoDone && r.Error == "" {
		r.ending = append(r.ending, []byte("data: [DONE]\n\n"))
	}
	r.joined = append(bytes.Join(r.events, nil), bytes.Join(r.ending, nil)...)
}

// callPieces cuts a tool call as models do: name first, then the arguments in
// two halves.
func callPieces(index int, call model.ToolCall) []object {
	half := len(call.Arguments) / 2
	return []object{
		signed(object{"index": index, "id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": ""}}, call),
		{"index": index, "function": object{"arguments": call.Arguments[:half]}},
		{"index": index, "function": object{"arguments": call.Arguments[half:]}},
	}
}

func wireCalls(calls []model.ToolCall) []object {
	var out []object
	for _, c := range calls {
		out = append(out, signed(object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}}, c))
	}
	return out
}

// signed adds the opaque data of a call, as Gemini does.
func signed(wire object, call model.ToolCall) object {
	if call.Opaque != "" {
		wire["extra_content"] = jsontext.Value(call.Opaque)
	}
	return wire
}

func chunk(delta object, finish any) []byte {
	return event(object{
		"id": "chatcmpl-sim", "object": "chat.completion.chunk", "created": created, "model": modelName,
		"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}},
	})
}

func event(v object) []byte { return fmt.Appendf(nil, "data: %s\n\n", encode(v)) }

func encode(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err) // only for text that is no UTF-8
	}
	return b
}
