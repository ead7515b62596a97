package bedrockclient

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// decoder reads an answer, streamed or whole.
type decoder struct {
	modelcall.Answer
	order  modelcall.Layout
	opaque int // bytes of reasoning that goes back
	open   []openBlock
	ended  bool
}

// openBlock is a block of a stream.
type openBlock struct {
	call                          bool
	thinking, signature, redacted []byte
}

type usage struct {
	Input   float64 `json:"inputTokens"`
	Output  float64 `json:"outputTokens"`
	Read    float64 `json:"cacheReadInputTokens"`
	Written float64 `json:"cacheWriteInputTokens"`
}

type reasoning struct {
	Text      modelcall.Text `json:"text"`
	Signature modelcall.Text `json:"signature"`
	Redacted  modelcall.Text `json:"redactedContent"`
}

type answerBlock struct {
	Text    modelcall.Text `json:"text"`
	ToolUse *struct {
		ID    modelcall.Text `json:"toolUseId"`
		Name  modelcall.Text `json:"name"`
		Input jsontext.Value `json:"input"` // in a stream a piece of text
	} `json:"toolUse"`
	Reasoning *struct {
		reasoning
		Whole reasoning `json:"reasoningText"`
	} `json:"reasoningContent"`
}

type answer struct {
	Output struct {
		Message *struct {
			Content []answerBlock `json:"content"`
		} `json:"message"`
	} `json:"output"`
	StopReason modelcall.Text `json:"stopReason"`
	Usage      *usage         `json:"usage"`
}

// event is the payload of any event of a stream.
type event struct {
	Index      int            `json:"contentBlockIndex"`
	Start      answerBlock    `json:"start"`
	Delta      answerBlock    `json:"delta"`
	StopReason modelcall.Text `json:"stopReason"`
	Usage      *usage         `json:"usage"`
}

// Whole implements modelcall.Decoder.
func (d *decoder) Whole(body []byte) error {
	var a answer
	if err := modelcall.Decode(body, &a); err != nil {
		return err
	}
	if a.Output.Message == nil {
		if reported := modelcall.ParseError(body); reported.Message != "" {
			return reported
		}
		return modelcall.ErrGarbage
	}
	for i := range a.Output.Message.Content {
		b := &a.Output.Message.Content[i]
		if err := d.begin(i, b); err != nil {
			return err
		}
		if err := d.add(i, b); err != nil {
			return err
		}
		if err := d.end(i); err != nil {
			return err
		}
	}
	d.Finish, d.ended = string(a.StopReason), true
	d.count(a.Usage)
	return d.checkMalformed()
}

// checkMalformed returns the error of an answer that the model got wrong.
func (d *decoder) checkMalformed() error {
	if d.Empty() && (d.Finish == "" || strings.HasPrefix(d.Finish, "malformed_")) {
		return modelcall.ErrEmpty
	}
	return nil
}

// Complete implements modelcall.Decoder.
func (d *decoder) Complete() bool { return d.Finish != "" }

// Event implements modelcall.Decoder. The kinds of events differ in their members.
func (d *decoder) Event(data []byte) (last bool, err error) { return d.event("", data) }

// event reads an event of a kind.
func (d *decoder) event(kind string, data []byte) (last bool, err error) {
	var e event
	if err := modelcall.Decode(data, &e); err != nil {
		return false, err
	}
	switch kind {
	case "contentBlockStart":
		return false, d.begin(e.Index, &e.Start)
	case "contentBlockDelta":
		return false, d.add(e.Index, &e.Delta)
	case "contentBlockStop":
		return false, d.end(e.Index)
	case "messageStop":
		d.Finish = string(e.StopReason)
		return false, d.checkMalformed()
	case "metadata":
		d.count(e.Usage)
		d.ended = true
		return d.Complete(), nil
	}
	return false, nil // messageStart, and events of later versions
}

// maxBlocks bounds the blocks of an answer.
const maxBlocks = 10_000

// block returns a block of the answer, which is added if needed: blocks of text have no
// beginning. Errors: ErrGarbage.
func (d *decoder) block(i int) (*openBlock, error) {
	if i < 0 || i >= maxBlocks {
		return nil, modelcall.ErrGarbage
	}
	for len(d.open) <= i {
		d.open = append(d.open, openBlock{})
	}
	return &d.open[i], nil
}

// begin adds a block. That of a call has its name.
func (d *decoder) begin(i int, b *answerBlock) error {
	open, err := d.block(i)
	if err != nil || b.ToolUse == nil || open.call {
		return err
	}
	open.call = true
	d.order = append(d.order, modelcall.Place{Call: true})
	err = d.AddCall(modelcall.CallPiece{Index: &i, ID: string(b.ToolUse.ID), Name: string(b.ToolUse.Name)})
	d.EmitCalls()
	return err
}

// add adds a piece of a block, or all of it.
func (d *decoder) add(i int, b *answerBlock) error {
	open, err := d.block(i)
	if err != nil {
		return err
	}
	switch {
	case b.ToolUse != nil:
		if !open.call {
			return nil
		}
		arguments := string(b.ToolUse.Input)
		if b.ToolUse.Input.Kind() == '"' {
			var piece modelcall.Text
			if err := modelcall.Decode(b.ToolUse.Input, &piece); err != nil {
				return err
			}
			arguments = string(piece)
		}
		err := d.AddCall(modelcall.CallPiece{Index: &i, Arguments: arguments})
		d.EmitCalls()
		return err
	case b.Reasoning != nil:
		for _, r := range []*reasoning{&b.Reasoning.reasoning, &b.Reasoning.Whole} {
			open.thinking = append(open.thinking, r.Text...)
			open.signature = append(open.signature, r.Signature...)
			open.redacted = append(open.redacted, r.Redacted...)
			if err := d.AddSize(len(r.Signature) + len(r.Redacted)); err != nil {
				return err
			}
			if err := d.AddThinking([]byte(r.Text)); err != nil {
				return err
			}
		}
		return nil
	}
	d.order.AddText(len(b.Text))
	return d.AddText([]byte(b.Text))
}

// end closes a block. Reasoning that is signed or redacted goes back.
func (d *decoder) end(i int) error {
	if i < 0 || i >= len(d.open) {
		return nil
	}
	open := &d.open[i]
	var kept any
	switch {
	case len(open.redacted) > 0:
		kept = map[string]string{"redactedContent": string(open.redacted)}
	case len(open.signature) > 0:
		kept = map[string]any{"reasoningText": map[string]string{"text": string(open.thinking), "signature": string(open.signature)}}
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

// count takes numbers of tokens. Those of the cache are beside the input.
func (d *decoder) count(u *usage) {
	if u == nil {
		return
	}
	if u.Input < 0 || u.Output < 0 || u.Read < 0 || u.Written < 0 {
		d.Usage = modelcall.Absurd
		return
	}
	d.SetUsage(modelcall.Counts{
		Prompt: modelcall.Count(u.Input + u.Read + u.Written), Completion: modelcall.Count(u.Output),
		Cached: modelcall.Count(u.Read), Written: modelcall.Count(u.Written),
	}.Usage())
}

// Result implements modelcall.AnswerDecoder.
func (d *decoder) Result(req *model.Request) model.Response {
	r := d.Response(req, finishReason(d.Finish))
	r.Opaque = d.order.Encode()
	return r
}

// finishReason maps a stop reason to one of the model package's.
func finishReason(reason string) string {
	switch reason {
	case "max_tokens", "model_context_window_exceeded":
		return model.FinishLength
	case "guardrail_intervened", "content_filtered":
		return model.FinishFilter
	case "refusal":
		return model.FinishRefusal
	}
	return model.FinishStop
}
