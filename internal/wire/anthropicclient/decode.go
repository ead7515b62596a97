package anthropicclient

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// decoder reads an answer, streamed or whole.
type decoder struct {
	modelcall.Answer
	counts usage
	order  modelcall.Layout
	opaque int // bytes of thinking that goes back
	open   []openBlock
	ended  bool
}

// openBlock is a block of a stream.
type openBlock struct {
	kind                string
	thinking, signature []byte
	data                string
	input               jsontext.Value // of a call, until pieces come
}

type usage struct {
	Input   *float64 `json:"input_tokens"`
	Output  *float64 `json:"output_tokens"`
	Written *float64 `json:"cache_creation_input_tokens"`
	Read    *float64 `json:"cache_read_input_tokens"`
	Details struct {
		Thinking *float64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

type answerBlock struct {
	Type      string         `json:"type"`
	Text      modelcall.Text `json:"text"`
	Thinking  modelcall.Text `json:"thinking"`
	Signature modelcall.Text `json:"signature"`
	Data      modelcall.Text `json:"data"`
	ID        modelcall.Text `json:"id"`
	Name      modelcall.Text `json:"name"`
	Input     jsontext.Value `json:"input"`
}

type answer struct {
	Type         string         `json:"type"`
	Model        modelcall.Text `json:"model"`
	Content      []answerBlock  `json:"content"`
	StopReason   modelcall.Text `json:"stop_reason"`
	StopSequence modelcall.Text `json:"stop_sequence"`
	Usage        usage          `json:"usage"`
}

type event struct {
	Type    string      `json:"type"`
	Index   int         `json:"index"`
	Message answer      `json:"message"`
	Block   answerBlock `json:"content_block"`
	Delta   struct {
		Type         string         `json:"type"`
		Text         modelcall.Text `json:"text"`
		Thinking     modelcall.Text `json:"thinking"`
		Signature    modelcall.Text `json:"signature"`
		JSON         modelcall.Text `json:"partial_json"`
		StopReason   modelcall.Text `json:"stop_reason"`
		StopSequence modelcall.Text `json:"stop_sequence"`
	} `json:"delta"`
	Usage usage `json:"usage"`
}

// Whole implements modelcall.Decoder.
func (d *decoder) Whole(body []byte) error {
	var a answer
	if err := modelcall.Decode(body, &a); err != nil {
		return err
	}
	switch {
	case a.Type == "message":
	case a.Type == "error" || bytes.Contains(body, []byte(`"error"`)):
		return modelcall.ParseError(body)
	default:
		return modelcall.ErrGarbage
	}
	d.SetModel([]byte(a.Model))
	for i := range a.Content {
		if err := d.begin(i, &a.Content[i]); err != nil {
			return err
		}
		if err := d.end(i); err != nil {
			return err
		}
	}
	d.Finish, d.Stop, d.ended = string(a.StopReason), string(a.StopSequence), true
	d.count(&a.Usage)
	if d.Empty() && d.Finish == "" {
		return modelcall.ErrEmpty
	}
	return nil
}

// Complete implements modelcall.Decoder.
func (d *decoder) Complete() bool { return d.Finish != "" }

// Event implements modelcall.Decoder.
func (d *decoder) Event(data []byte) (last bool, err error) {
	var e event
	if err := modelcall.Decode(data, &e); err != nil {
		return false, err
	}
	switch e.Type {
	case "message_start":
		d.SetModel([]byte(e.Message.Model))
		d.count(&e.Message.Usage)
	case "content_block_start":
		return false, d.begin(e.Index, &e.Block)
	case "content_block_delta":
		return false, d.delta(&e)
	case "content_block_stop":
		return false, d.end(e.Index)
	case "message_delta":
		if e.Delta.StopReason != "" {
			d.Finish, d.Stop = string(e.Delta.StopReason), string(e.Delta.StopSequence)
		}
		d.count(&e.Usage)
	case "message_stop":
		if d.Empty() && d.Finish == "" {
			return true, modelcall.ErrEmpty
		}
		d.ended = true
		return true, nil
	case "error":
		return true, modelcall.ParseError(data)
	case "":
		if bytes.Contains(data, []byte(`"error"`)) { // of a gateway
			return true, modelcall.ParseError(data)
		}
	}
	return false, nil // ping, and events of later versions
}

// maxBlocks bounds the blocks of an answer.
const maxBlocks = 10_000

// block returns a block of the answer; nil if there is none.
func (d *decoder) block(i int) *openBlock {
	if i < 0 || i >= len(d.open) {
		return nil
	}
	return &d.open[i]
}

// begin adds a block with what it begins with.
func (d *decoder) begin(i int, b *answerBlock) error {
	if i < 0 || i >= maxBlocks {
		return modelcall.ErrGarbage
	}
	for len(d.open) <= i {
		d.open = append(d.open, openBlock{})
	}
	open := &d.open[i]
	*open = openBlock{kind: b.Type, data: string(b.Data), signature: []byte(b.Signature), thinking: []byte(b.Thinking)}
	switch b.Type {
	case "text":
		return d.text(string(b.Text))
	case "thinking":
		return d.AddThinking([]byte(b.Thinking))
	case "tool_use":
		if b.Input.Kind() == '{' && len(bytes.TrimSpace(b.Input[1:len(b.Input)-1])) > 0 {
			open.input = b.Input.Clone()
		}
		d.order = append(d.order, modelcall.Place{Call: true})
		err := d.AddCall(modelcall.CallPiece{Index: &i, ID: string(b.ID), Name: string(b.Name)})
		d.EmitCalls()
		return err
	}
	return nil // of redacted thinking, and of server tools, which are not requested
}

func (d *decoder) text(piece string) error {
	d.order.AddText(len(piece))
	return d.AddText([]byte(piece))
}

// delta adds a piece of a block.
func (d *decoder) delta(e *event) error {
	open := d.block(e.Index)
	switch e.Delta.Type {
	case "text_delta":
		return d.text(string(e.Delta.Text))
	case "thinking_delta":
		if open != nil {
			open.thinking = append(open.thinking, e.Delta.Thinking...)
		}
		return d.AddThinking([]byte(e.Delta.Thinking))
	case "signature_delta":
		if open != nil {
			open.signature = append(open.signature, e.Delta.Signature...)
		}
		return d.AddSize(len(e.Delta.Signature))
	case "input_json_delta":
		if open == nil || open.kind != "tool_use" || e.Delta.JSON == "" {
			return nil
		}
		open.input = nil
		err := d.AddCall(modelcall.CallPiece{Index: &e.Index, Arguments: string(e.Delta.JSON)})
		d.EmitCalls()
		return err
	}
	return nil
}

// end closes a block.
func (d *decoder) end(i int) error {
	open := d.block(i)
	if open == nil {
		return nil
	}
	kept := map[string]string{"type": open.kind}
	switch open.kind {
	case "tool_use":
		if open.input != nil {
			err := d.AddCall(modelcall.CallPiece{Index: &i, Arguments: string(open.input)})
			d.EmitCalls()
			return err
		}
		return nil
	case "thinking":
		if len(open.signature) == 0 { // of an endpoint that wants nothing back
			return nil
		}
		kept["thinking"], kept["signature"] = string(open.thinking), string(open.signature)
	case "redacted_thinking":
		kept["data"] = open.data
	default:
		return nil
	}
	raw := modelcall.MustMarshal(kept)
	if d.opaque += len(raw); d.opaque > model.MaxOpaque {
		return modelcall.ErrTooLong
	}
	d.order = append(d.order, modelcall.Place{Thinking: raw})
	*open = openBlock{}
	return nil
}

// count takes numbers of tokens, of which the last ones count.
func (d *decoder) count(u *usage) {
	for _, n := range []struct{ to, from **float64 }{
		{&d.counts.Input, &u.Input}, {&d.counts.Output, &u.Output}, {&d.counts.Written, &u.Written}, {&d.counts.Read, &u.Read},
		{&d.counts.Details.Thinking, &u.Details.Thinking},
	} {
		if *n.from != nil {
			*n.to = *n.from
		}
	}
	c := &d.counts
	input, output, written, read := value(c.Input), value(c.Output), value(c.Written), value(c.Read)
	if input < 0 || output < 0 || written < 0 || read < 0 {
		d.Usage = modelcall.Absurd
		return
	}
	d.SetUsage(modelcall.Counts{
		Prompt: modelcall.Count(input + written + read), Completion: modelcall.Count(output), Cached: modelcall.Count(read),
		Written: modelcall.Count(written), Reasoning: modelcall.Count(value(c.Details.Thinking)),
	}.Usage())
}

func value(n *float64) float64 {
	if n == nil {
		return 0
	}
	return *n
}

// Result implements modelcall.AnswerDecoder.
func (d *decoder) Result(req *model.Request) model.Response {
	if d.counts.Output == nil || d.counts.Input == nil { // half of a usage is none
		d.Usage = model.Usage{}
	}
	r := d.Response(req, finishReason(d.Finish))
	r.Opaque = d.order.Encode()
	return r
}

// finishReason maps a stop reason to one of the model package's.
func finishReason(reason string) string {
	switch reason {
	case "max_tokens", "model_context_window_exceeded":
		return model.FinishLength
	case "refusal":
		return model.FinishRefusal
	}
	return model.FinishStop
}
