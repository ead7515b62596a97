package anthropic

import (
	"strconv"
	"unicode/utf8"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/model"
)

// blockKind is the type of the open content block.
type blockKind byte

const (
	noBlock blockKind = iota
	textBlock
	thinkingBlock
	toolBlock
	redactedBlock
)

// frames renders the events of one streamed answer into buf, in wire form. Blocks
// have consecutive indexes, and one is closed before the next begins.
type frames struct {
	buf      []byte
	thinking bool // the client requested the reasoning

	index     int          // of the open block, or the next one
	open      blockKind    // the type of the open block
	calls     int          // tool calls so far
	repair    jsonRepairer // of the open call
	raw       []byte       // its last output
	lateText  []byte       // text that arrived while a call was open, whose pieces may continue
	textShown bool         // text was shown
}

// start writes the first event. tokens estimates the input.
func (f *frames) start(id, name string, tokens int) {
	b := append(f.buf, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\""...)
	b = append(append(b, id...), `","type":"message","role":"assistant","model":`...)
	b = append(appendString(b, name), `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	f.buf = append(appendUsage(b, &model.Usage{InputTokens: tokens}), "}}\n\n"...)
	f.buf = append(f.buf, pingFrame...)
}

// pingFrame shows that the answer goes on.
const pingFrame = "event: ping\ndata: {\"type\":\"ping\"}\n\n"

// openBlock opens a block; block is its JSON, to be completed by the caller.
func (f *frames) openBlock(kind blockKind, block string) {
	f.closeBlock()
	f.open = kind
	b := append(f.buf, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	b = strconv.AppendInt(b, int64(f.index), 10)
	f.buf = append(append(b, `,"content_block":`...), block...)
}

// closeBlock ends the open block, if any.
func (f *frames) closeBlock() {
	switch f.open {
	case noBlock:
		return
	case thinkingBlock:
		f.beginDelta("signature_delta", "signature")
		f.buf = append(f.buf, `"`+signature+"\"}}\n\n"...)
	case toolBlock:
		f.raw = f.repair.end(f.raw[:0])
		f.sendInput()
	}
	b := append(f.buf, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	b = strconv.AppendInt(b, int64(f.index), 10)
	f.buf = append(b, "}\n\n"...)
	f.open = noBlock
	f.index++
}

// beginDelta writes a delta of the open block, up to the value of its member.
func (f *frames) beginDelta(kind, member string) {
	b := append(f.buf, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	b = strconv.AppendInt(b, int64(f.index), 10)
	b = append(append(b, `,"delta":{"type":"`...), kind...)
	f.buf = append(append(append(b, `","`...), member...), `":`...)
}

func (f *frames) addDeltaEvent(kind, member, value string) {
	f.beginDelta(kind, member)
	f.buf = append(appendString(f.buf, value), "}}\n\n"...)
}

// addDelta adds a piece of the answer.
func (f *frames) addDelta(d model.Delta) {
	switch {
	case d.Text != "":
		f.addText(d.Text)
	case d.Thinking != "":
		f.addThought(d.Thinking)
	case d.Call != model.CallDelta{}:
		f.addCall(d.Call)
	}
}

func (f *frames) addText(piece string) {
	f.textShown = true
	if f.open == toolBlock { // its input may continue
		f.lateText = append(f.lateText, piece...)
		return
	}
	if f.open != textBlock {
		f.openBlock(textBlock, "{\"type\":\"text\",\"text\":\"\"}}\n\n")
	}
	f.addDeltaEvent("text_delta", "text", piece)
}

// addThought adds a piece of reasoning, if the client requested it. Reasoning during
// a tool call is dropped, because it would split the block.
func (f *frames) addThought(piece string) {
	if !f.thinking || f.open == toolBlock {
		return
	}
	if f.open != thinkingBlock {
		f.openBlock(thinkingBlock, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n")
	}
	f.addDeltaEvent("thinking_delta", "thinking", piece)
}

// addCall adds a piece of a tool call; the first one of a call has its name.
func (f *frames) addCall(d model.CallDelta) {
	if d.Name != "" {
		f.openBlock(toolBlock, `{"type":"tool_use","id":`)
		f.buf = append(appendString(f.buf, d.ID), `,"name":`...)
		f.buf = append(appendString(f.buf, d.Name), ",\"input\":{}}}\n\n"...)
		f.addDeltaEvent("input_json_delta", "partial_json", "")
		f.repair = jsonRepairer{raw: f.repair.raw[:0], stack: f.repair.stack[:0]}
		f.calls++
	}
	if f.open == toolBlock {
		f.raw = f.repair.write(f.raw[:0], d.Arguments)
		f.sendInput()
	}
}

// maxInputPiece is the maximum length of a piece of input, in bytes.
const maxInputPiece = 512

// sendInput sends what the JSON repairer returned, in pieces.
func (f *frames) sendInput() {
	for rest := f.raw; len(rest) > 0; {
		n := min(len(rest), maxInputPiece)
		for n < len(rest) && !utf8.RuneStart(rest[n]) {
			n++
		}
		f.addDeltaEvent("input_json_delta", "partial_json", string(rest[:n]))
		rest = rest[n:]
	}
}

// end adds what did not arrive in pieces, and completes the answer. sealed is the data
// of the block redacted_thinking; "": none.
func (f *frames) end(resp *model.Response, sealed string) {
	if !f.textShown && f.calls == 0 {
		f.addDelta(model.Delta{Text: resp.Text})
	}
	for i := f.calls; i < len(resp.ToolCalls); i++ {
		call := &resp.ToolCalls[i]
		f.addCall(model.CallDelta{ID: call.ID, Name: call.Name, Arguments: call.Arguments})
	}
	f.closeBlock()
	if len(f.lateText) > 0 {
		f.addText(string(f.lateText))
		f.closeBlock()
	}
	if sealed != "" {
		f.openBlock(redactedBlock, `{"type":"redacted_thinking","data":`)
		f.buf = append(appendString(f.buf, sealed), "}}\n\n"...)
		f.closeBlock()
	}
	b := append(f.buf, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
	b = append(appendStop(b, resp), `},"usage":`...)
	b = append(appendUsage(b, &resp.Usage), "}\n\n"...)
	f.buf = append(b, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

// fail ends an answer that is incomplete.
func (f *frames) fail(e *fault.Error, requestID string) {
	f.buf = append(f.buf, "event: error\ndata: "...)
	f.buf = append(appendEnvelope(f.buf, e, requestID), "\n\n"...)
}
