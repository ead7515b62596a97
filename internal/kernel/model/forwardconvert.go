package model

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
)

// convert answers a forwarded chat completion by a client of another wire. A streamed
// answer goes to the sink in chunks, a whole one is returned.
func (f *Forward) convert(ctx context.Context, c Client, sink func([]byte) error) (out Forwarded, err error) {
	req, err := f.fullRequest()
	if err != nil {
		return Forwarded{}, err
	}
	if !f.Stream {
		resp, err := c.Generate(ctx, req, nil)
		if err != nil {
			return Forwarded{}, err
		}
		return Forwarded{Usage: resp.Usage, Response: &resp}, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := chunkWriter{head: chunkHead(f.Target.Model), sink: sink, cancel: cancel}
	req.Detailed = true
	resp, err := c.Generate(ctx, req, w.add)
	switch {
	case w.err != nil: // the sink's error is the most specific
		return Forwarded{Usage: resp.Usage}, w.err
	case err != nil:
		return Forwarded{Usage: resp.Usage}, err
	}
	w.end(&resp, f.Usage)
	return Forwarded{Usage: resp.Usage}, w.err
}

// ownMembers are the members of a chat completion that have a place in a Request, or that
// choose the form of the answer.
var ownMembers = []string{
	"model", "messages", "tools", "tool_choice", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop",
	"stream", "stream_options", "n", "prompt_cache_key", "user", "store", "metadata",
}

// fullRequest returns the forwarded body as a request, with all its members.
func (f *Forward) fullRequest() (Request, error) {
	var body struct {
		Messages []struct {
			Role    Role           `json:"role"`
			Content jsontext.Value `json:"content"`
			Name    string         `json:"name"`
			CallID  string         `json:"tool_call_id"`
			Calls   []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name        string         `json:"name"`
				Description string         `json:"description"`
				Parameters  jsontext.Value `json:"parameters"`
				Strict      bool           `json:"strict"`
			} `json:"function"`
		} `json:"tools"`
		ToolChoice  jsontext.Value `json:"tool_choice"`
		MaxTokens   int            `json:"max_tokens"`
		MaxOutput   int            `json:"max_completion_tokens"`
		Temperature *float64       `json:"temperature"`
		TopP        *float64       `json:"top_p"`
		Stop        jsontext.Value `json:"stop"`
		CacheKey    string         `json:"prompt_cache_key"`
	}
	var all map[string]jsontext.Value
	if err := json.Unmarshal(f.Body, &body, jsontext.AllowDuplicateNames(true)); err != nil {
		const detail = "The request cannot be converted for its model's provider: its messages or tools do not have the form of chat completions."
		return Request{}, &Error{Code: "model_error", Status: 400, Detail: detail, Cause: err}
	}
	_ = json.Unmarshal(f.Body, &all, jsontext.AllowDuplicateNames(true)) // it is an object
	req := Request{
		Target: f.Target, MaxTokens: max(body.MaxTokens, body.MaxOutput), Temperature: body.Temperature, TopP: body.TopP,
		CacheKey: body.CacheKey, LimitWait: f.LimitWait, OnRate: f.OnRate, ToolChoice: body.ToolChoice,
	}
	switch body.Stop.Kind() {
	case '"':
		var one string
		_ = json.Unmarshal(body.Stop, &one) // it is a string
		req.Stop = []string{one}
	case '[':
		_ = json.Unmarshal(body.Stop, &req.Stop) // what are no strings is no stop sequence
	}
	for _, m := range body.Messages {
		turn := Message{Role: m.Role, ToolCallID: m.CallID, Name: m.Name}
		if m.Role == "developer" {
			turn.Role = System
		}
		switch m.Content.Kind() {
		case '"':
			_ = json.Unmarshal(m.Content, &turn.Text) // it is a string
		case '[':
			_ = json.Unmarshal(m.Content, &turn.Parts) // and that a list
		}
		if turn.Parts != nil && Attachments(&turn) == 0 {
			turn.Text, turn.Parts = Plain(&turn), nil
		}
		for _, c := range m.Calls {
			turn.ToolCalls = append(turn.ToolCalls, ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		req.Messages = append(req.Messages, turn)
	}
	for _, t := range body.Tools {
		req.Tools = append(req.Tools, ToolSpec(t.Function))
	}
	maps.DeleteFunc(all, func(name string, value jsontext.Value) bool {
		return value.Kind() == 'n' || slices.Contains(ownMembers, name)
	})
	req.Extra = all
	return req, nil
}

// chunkWriter writes an answer as chunks of a chat completion.
type chunkWriter struct {
	head   []byte
	sink   func([]byte) error
	cancel context.CancelCauseFunc
	out    []byte
	begun  bool
	err    error
}

func chunkHead(name string) []byte {
	b := []byte(`data: {"id":"chatcmpl-` + ident.New() + `","object":"chat.completion.chunk","created":`)
	b = strconv.AppendInt(b, time.Now().Unix(), 10)
	b, _ = jsontext.AppendQuote(append(b, `,"model":`...), name) // invalid UTF-8 is replaced
	return append(b, `,"choices":[`...)
}

// add writes a piece; the empty one delivers what was written.
func (w *chunkWriter) add(d Delta) {
	switch {
	case w.err != nil:
	case d == Delta{}:
		w.flush()
	case d.Text != "":
		w.delta(`"content":`, d.Text, "")
	case d.Thinking != "":
		w.delta(`"reasoning_content":`, d.Thinking, "")
	default:
		head := `"tool_calls":[{"index":` + strconv.Itoa(d.Call.Index)
		if d.Call.Name != "" {
			id, _ := jsontext.AppendQuote(nil, d.Call.ID) // as above
			name, _ := jsontext.AppendQuote(nil, d.Call.Name)
			w.delta(head+`,"id":`+string(id)+`,"type":"function","function":{"name":`+string(name)+`,"arguments":`, d.Call.Arguments, `}}]`)
			return
		}
		w.delta(head+`,"function":{"arguments":`, d.Call.Arguments, `}}]`)
	}
}

func (w *chunkWriter) delta(head, text, tail string) {
	w.out = append(append(w.out, w.head...), `{"index":0,"delta":{`...)
	if !w.begun {
		w.begun = true
		w.out = append(w.out, `"role":"assistant",`...)
	}
	w.out, _ = jsontext.AppendQuote(append(w.out, head...), text) // as above
	w.out = append(append(w.out, tail...), "},\"finish_reason\":null}]}\n\n"...)
}

// end writes the last chunks.
func (w *chunkWriter) end(resp *Response, usage bool) {
	finish := resp.FinishReason
	if finish == FinishRefusal {
		finish = FinishStop
	}
	w.out = append(append(w.out, w.head...), `{"index":0,"delta":{},"finish_reason":"`+finish+"\"}]}\n\n"...)
	if usage {
		u := &resp.Usage
		w.out = append(w.out, w.head...)
		w.out = append(w.out, `],"usage":{"prompt_tokens":`...)
		w.out = strconv.AppendInt(w.out, int64(u.InputTokens), 10)
		w.out = strconv.AppendInt(append(w.out, `,"completion_tokens":`...), int64(u.OutputTokens), 10)
		w.out = strconv.AppendInt(append(w.out, `,"total_tokens":`...), int64(u.InputTokens)+int64(u.OutputTokens), 10)
		w.out = strconv.AppendInt(append(w.out, `,"prompt_tokens_details":{"cached_tokens":`...), int64(u.CachedTokens), 10)
		w.out = strconv.AppendInt(append(w.out, `},"completion_tokens_details":{"reasoning_tokens":`...), int64(u.ThinkingTokens), 10)
		w.out = append(w.out, "}}}\n\n"...)
	}
	w.out = append(w.out, "data: [DONE]\n\n"...)
	w.flush()
}

// flush delivers what was written. An error of the sink ends the call.
func (w *chunkWriter) flush() {
	if len(w.out) == 0 || w.err != nil {
		return
	}
	if w.err = w.sink(w.out); w.err != nil {
		w.cancel(w.err)
	}
	w.out = w.out[:0]
}
