package openai

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// chunker renders the chunks of one streamed answer. The constant head and tail are
// rendered once; a returned chunk is valid until the next call.
type chunker struct {
	top        []byte // everything before the choices
	head, tail []byte // around a delta
	buf        []byte
}

func newChunker(runID, model string, created time.Time) *chunker {
	top := append(make([]byte, 0, 256), `{"id":"`...)
	top = append(top, completionID(runID)...)
	top = append(top, `","object":"chat.completion.chunk","created":`...)
	top = strconv.AppendInt(top, created.Unix(), 10)
	top = append(top, `,"model":`...)
	top = append(top, quote(model)...)
	top = append(top, `,"choices":[`...)
	return &chunker{
		top:  top,
		head: append(slices.Clip(top), `{"index":0,"delta":`...),
		tail: []byte(`,"logprobs":null,"finish_reason":null}]}`),
	}
}

// quote returns a text as JSON. Invalid UTF-8 becomes U+FFFD; the ignored error
// only reports that.
func quote(s string) []byte {
	b, _ := jsontext.AppendQuote(nil, s)
	return b
}

// Members of a delta that carry text.
const (
	contentMember   = "content"
	reasoningMember = "reasoning_content"
)

// paragraph separates the texts of two steps of a run.
var paragraph = []byte(`"\n\n"`)

// role returns the first chunk.
func (c *chunker) role() []byte {
	c.buf = append(c.buf[:0], c.head...)
	c.buf = append(c.buf, `{"role":"assistant","content":"","refusal":null}`...)
	return append(c.buf, c.tail...)
}

// delta returns a chunk with one member, whose value is JSON already.
func (c *chunker) delta(member string, value []byte) []byte {
	c.buf = append(c.buf[:0], c.head...)
	c.buf = append(c.buf, `{"`...)
	c.buf = append(c.buf, member...)
	c.buf = append(c.buf, `":`...)
	c.buf = append(c.buf, value...)
	c.buf = append(c.buf, '}')
	c.buf = append(c.buf, c.tail...)
	return c.buf
}

// calls returns a chunk with complete tool calls.
func (c *chunker) calls(calls []ToolCall) ([]byte, error) {
	type indexed struct {
		Index    int `json:"index"`
		ToolCall `json:",inline"`
	}
	list := make([]indexed, len(calls))
	for i, call := range calls {
		list[i] = indexed{i, call}
	}
	b, err := json.Marshal(list, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	return c.delta("tool_calls", b), nil
}

// end returns the last chunk with a choice.
func (c *chunker) end(finish string, failure *ErrorBody) ([]byte, error) {
	c.buf = append(c.buf[:0], c.head...)
	c.buf = append(c.buf, `{},"logprobs":null,"finish_reason":"`...)
	c.buf = append(c.buf, finish...)
	c.buf = append(c.buf, `"}]`...)
	if failure != nil {
		b, err := json.Marshal(failure, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return nil, err
		}
		c.buf = append(append(c.buf, `,"run_error":`...), b...)
	}
	c.buf = append(c.buf, '}')
	return c.buf, nil
}

// usage returns the chunk that stream_options.include_usage requests.
func (c *chunker) usage(u Usage) ([]byte, error) {
	b, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	c.buf = append(append(c.buf[:0], c.top...), `],"usage":`...)
	c.buf = append(append(c.buf, b...), '}')
	return c.buf, nil
}

var textHead = []byte(`{"text":"`)

// textOf returns the quoted text of an event's {"text":"…", …}, usually without
// decoding: it is JSON already, and comes first.
func textOf(data jsontext.Value) []byte {
	if bytes.HasPrefix(data, textHead) {
		text := data[len(textHead)-1:]
		if end := stringEnd(text); end > 0 && end < len(text) {
			return text[:end]
		}
	}
	var v struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(data, &v) // an event of another shape has no text
	return quote(v.Text)
}

// stringEnd returns the length of the JSON string that b begins with, -1 if it is
// unterminated.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}
