package anthropic

import (
	"strconv"
	"unicode/utf8"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/model"
)

// blockKind is what kind of content block is open.
type blockKind byte

const (
	noBlock blockKind = iota
	textBlock
	thinkingBlock
	toolBlock
)

// frames renders the events of one streamed answer, as they stand on the wire,
// into buf. Blocks have consecutive indexes, and one is closed before the next
// begins.
type frames struct {
	buf      []byte
	thinking bool // the caller wants to see what was thought

	index int       // of the block that is open, or comes next
	open  blockKind // that is open
	calls int       // that were begun
	mend  mender    // of the call that is open
	raw   []byte    // what it gave last
	late  []byte    // text that came while a call was open, whose pieces may go on
	spoke bool      // text was shown
}

// start is the first event. tokens is about how many the model was given.
func (f *frames) start(id, name string, tokens int) {
	b := append(f.buf, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\""...)
	b = append(append(b, id...), `","type":"message","role":"assistant","model":`...)
	b = append(appendString(b, name), `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	f.buf = append(appendUsage(b, &model.Usage{InputTokens: tokens}), "}}\n\n"...)
	f.buf = append(f.buf, pingFrame...)
}

// pingFrame says that the answer goes on.
const pingFrame = "event: ping\ndata: {\"type\":\"ping\"}\n\n"

// begin opens a block; block is what is known of it, without its last bracket.
func (f *frames) begin(kind blockKind, block string) {
	f.close()
	f.open = kind
	b := append(f.buf, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	b = strconv.AppendInt(b, int64(f.index), 10)
	f.buf = append(append(b, `,"content_block":`...), block...)
}

// close ends the block that is open, if one is.
func (f *frames) close() {
	switch f.open {
	case noBlock:
		return
	case thinkingBlock:
		f.head("signature_delta", "signature")
		f.buf = append(f.buf, `"`+signature+"\"}}\n\n"...)
	case toolBlock:
		f.raw = f.mend.end(f.raw[:0])
		f.input()
	}
	b := append(f.buf, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	b = strconv.AppendInt(b, int64(f.index), 10)
	f.buf = append(b, "}\n\n"...)
	f.open = noBlock
	f.index++
}

// head begins a delta of the block that is open, up to the value of its member.
func (f *frames) head(kind, member string) {
	b := append(f.buf, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	b = strconv.AppendInt(b, int64(f.index), 10)
	b = append(append(b, `,"delta":{"type":"`...), kind...)
	f.buf = append(append(append(b, `","`...), member...), `":`...)
}

func (f *frames) delta(kind, member, value string) {
	f.head(kind, member)
	f.buf = append(appendString(f.buf, value), "}}\n\n"...)
}

// piece shows a piece of the answer.
func (f *frames) piece(d model.Delta) {
	switch {
	case d.Text != "":
		f.text(d.Text)
	case d.Thinking != "":
		f.thought(d.Thinking)
	case d.Call != model.CallDelta{}:
		f.call(d.Call)
	}
}

func (f *frames) text(piece string) {
	f.spoke = true
	if f.open == toolBlock { // more of its input may come
		f.late = append(f.late, piece...)
		return
	}
	if f.open != textBlock {
		f.begin(textBlock, "{\"type\":\"text\",\"text\":\"\"}}\n\n")
	}
	f.delta("text_delta", "text", piece)
}

// thought shows what the model thought, where the caller wants that. What it
// thinks while it calls a tool has no place.
func (f *frames) thought(piece string) {
	if !f.thinking || f.open == toolBlock {
		return
	}
	if f.open != thinkingBlock {
		f.begin(thinkingBlock, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n")
	}
	f.delta("thinking_delta", "thinking", piece)
}

// call shows a piece of a tool call, the first one with a name.
func (f *frames) call(d model.CallDelta) {
	if d.Name != "" {
		f.begin(toolBlock, `{"type":"tool_use","id":`)
		f.buf = append(appendString(f.buf, d.ID), `,"name":`...)
		f.buf = append(appendString(f.buf, d.Name), ",\"input\":{}}}\n\n"...)
		f.delta("input_json_delta", "partial_json", "")
		f.mend = mender{raw: f.mend.raw[:0], stack: f.mend.stack[:0]}
		f.calls++
	}
	if f.open == toolBlock {
		f.raw = f.mend.write(f.raw[:0], d.Arguments)
		f.input()
	}
}

// inputPiece is how long a piece of an input is at most, in bytes.
const inputPiece = 512

// input shows what the mender gave, in pieces.
func (f *frames) input() {
	for rest := f.raw; len(rest) > 0; {
		n := min(len(rest), inputPiece)
		for n < len(rest) && !utf8.RuneStart(rest[n]) {
			n++
		}
		f.delta("input_json_delta", "partial_json", string(rest[:n]))
		rest = rest[n:]
	}
}

// end shows what was not given in pieces, and that the answer is complete.
func (f *frames) end(resp *model.Response) {
	if !f.spoke && f.calls == 0 {
		f.piece(model.Delta{Text: resp.Text})
	}
	for i := f.calls; i < len(resp.ToolCalls); i++ {
		call := &resp.ToolCalls[i]
		f.call(model.CallDelta{ID: call.ID, Name: call.Name, Arguments: call.Arguments})
	}
	f.close()
	if len(f.late) > 0 {
		f.text(string(f.late))
		f.close()
	}
	b := append(f.buf, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
	b = append(appendStop(b, resp), `},"usage":`...)
	b = append(appendUsage(b, &resp.Usage), "}\n\n"...)
	f.buf = append(b, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

// fail ends the answer in the middle.
func (f *frames) fail(e *fault.Error, requestID string) {
	f.buf = append(f.buf, "event: error\ndata: "...)
	f.buf = append(appendEnvelope(f.buf, e, requestID), "\n\n"...)
}
