package openai

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// chunker renders the chunks of one streamed answer. What every chunk begins
// and ends with is made once; what it gives is valid until its next call.
type chunker struct {
	top        []byte // up to the list of choices
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

// quote writes a text as JSON. Bytes that are no UTF-8 become U+FFFD, which is
// what the ignored error tells of.
func quote(s string) []byte {
	b, _ := jsontext.AppendQuote(nil, s)
	return b
}

// Members of a delta that carry text.
const (
	contentMember   = "content"
	reasoningMember = "reasoning_content"
)

// paragraph stands between the texts of two steps of a run.
var paragraph = []byte(`"\n\n"`)

// role is the first chunk.
func (c *chunker) role() []byte {
	c.buf = append(c.buf[:0], c.head...)
	c.buf = append(c.buf, `{"role":"assistant","content":"","refusal":null}`...)
	return append(c.buf, c.tail...)
}

// delta is a chunk with one member, whose value is JSON already.
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

// calls is a chunk with whole tool calls.
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

// end is the last chunk with a choice.
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

// usage is the chunk that stream_options.include_usage asks for.
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

// textOf takes the quoted text out of the {"text":"…"} of an event as it
// stands: it is JSON already.
func textOf(data jsontext.Value) []byte {
	if bytes.HasPrefix(data, textHead) {
		text := data[len(textHead)-1:]
		if end := stringEnd(text); end == len(text)-1 {
			return text[:end]
		}
	}
	var v struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(data, &v) // an event of another shape has no text
	return quote(v.Text)
}

// stringEnd gives the length of the JSON string that b begins with, -1 where
// it does not end.
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
